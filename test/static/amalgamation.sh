#!/bin/sh
# amalgamation.sh: makes the amalgamation (tessera.c and tessera.h) and compiles it without warnings with each installed compiler, in each
# of the ways that tessera.c names: as a loadable extension, which runs the demo's queries and exports its entry point and tessera_api only; as a part of
# a program with SQLite, with threads and without; as the core without SQLite. One compiler makes programs, and they run: clang, if there is
# one, which takes a third of gcc's time. Another one gives its warnings. The extension, without sanitizers, stays in the directory for the
# tests that measure the memory of a process.
#
# usage: amalgamation.sh PYTHON ROOT DIRECTORY SHELL ARRAYS
set -eu
python=$1 root=$2 place=$3 shell=$4 arrays=$5
"$python" "$root/ext/package/amalgamate.py" "$root" "$place"
cd "$place"
flags="-fno-strict-aliasing -ffp-contract=off -Wall -Wextra -Wno-misleading-indentation -Werror -I$place" # that warning takes gcc half a minute
libraries="-lzstd -llz4 -lbz2 -lz -lmbedcrypto -lm -ldl -pthread"
# shellcheck disable=SC2086
for compiler in clang gcc; do
  if ! command -v "$compiler" > /dev/null; then
    echo "SKIPPED: $compiler is not installed"
    continue
  fi
  if [ "${built:-no}" = no ]; then
    # As the head of tessera.c says: without nodelete, a worker thread may run on after the host has unmapped the extension.
    "$compiler" $flags -O0 -shared -fPIC tessera.c -o tessera.so $libraries -Wl,-z,nodelete
    exported=$(nm -D --defined-only tessera.so | awk '{ print $3 }' | sort | tr '\n' ' ')
    [ "$exported" = "sqlite3_tessera_init tessera_api " ] || { echo "$compiler: tessera.so exports $exported"; exit 1; }
    "$python" "$root/test/sql/run.py" "$shell" "$place/tessera.so" "$arrays" "$root/sql/demo.sql"
    "$python" "$root/test/sql/run.py" "$shell" "$place/tessera.so" "$arrays" "$root/sql/demo_write.sql"
    # For an SQLite without threads, which has no mutexes to link with. The program runs with the system's SQLite, whose mutexes it leaves alone.
    "$compiler" $flags -O0 -DSQLITE_CORE -DSQLITE_THREADSAFE=0 -c tessera.c -o without_threads.o
    if nm -u without_threads.o | grep sqlite3_mutex; then echo "$compiler: without threads tessera.c wants mutexes"; exit 1; fi
    "$compiler" $flags -O0 "$root/test/static/sqlite.c" without_threads.o -o with_sqlite -lsqlite3 $libraries
    ./with_sqlite "$root/sql/data/relief"
    "$compiler" $flags -DSQLITE_CORE -fsyntax-only tessera.c
    "$compiler" $flags -O0 -DTESSERA_OMIT_SQLITE tessera.c "$root/test/static/core.c" -o without_sqlite $libraries
    ./without_sqlite "$root/sql/data/relief"
  else
    "$compiler" $flags -fsyntax-only tessera.c
    "$compiler" $flags -DSQLITE_CORE -fsyntax-only tessera.c
    "$compiler" $flags -DTESSERA_OMIT_SQLITE -fsyntax-only tessera.c
  fi
  built=yes
  echo "$compiler: the extension, a part of a program with SQLite, the core alone"
done
[ "${built:-no}" = yes ] || { echo "neither gcc nor clang is installed"; exit 1; }
