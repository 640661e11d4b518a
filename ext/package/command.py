"""What the programs of this folder share: commands that must succeed, and the fault that ends a program with a sentence."""
import subprocess
import sys

WORDS = 8     # of a long command, in a message
LINES = 60    # of what a command has printed, its last ones: a compiler may print thousands


class Fault(Exception):
    """Something is wrong that the user of a program must read. Its text says what."""


def run(command, **more):
    """Runs a command and returns what it prints, errors included. Raises Fault, with that, if the command does not succeed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        words = command if len(command) <= WORDS else [*command[:WORDS // 2], "...", *command[-WORDS // 2:]]
        raise Fault(f"{' '.join(words)} ended with {done.returncode}:\n" + "\n".join(done.stdout.splitlines()[-LINES:]))
    return done.stdout


def main(program, body, *arguments):
    """Calls the body of a program with the program's arguments. Returns its exit status; a Fault is 1, after its sentence."""
    try:
        return int(body(*arguments) or 0)
    except Fault as fault:
        print(f"{program}: {fault}", file=sys.stderr)
        return 1
