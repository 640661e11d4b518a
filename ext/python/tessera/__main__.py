"""python -m tessera is the command `tessera`."""
import sys

from .cli import main

sys.exit(main())
