"""COMMITs that merge and vacuum (the option auto_consolidate) beside TileDB, which reads every state, writes, consolidates and vacuums
the same array meanwhile.

usage: auto_upkeep.py SHELL EXTENSION      (77: the package `tiledb` is not installed)
"""
import os
import subprocess
import sys
import tempfile
import time

from cases import TILEDB_MEMORY

try:
    import numpy as np
    import tiledb
except ImportError:
    tiledb = None

ROUNDS, COMMITS = 12, 9


def shell(folder, text):
    """What the shell prints of statements on the table `t`."""
    environment = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    if os.environ.get("TESSERA_PRELOAD"):
        environment["LD_PRELOAD"] = os.environ["TESSERA_PRELOAD"]
    done = subprocess.run([sys.argv[1], "-batch", os.path.join(folder, "t.db")], input=f".load {os.path.abspath(sys.argv[2])}\nPRAGMA synchronous = OFF;\n{text}", capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout


def rows_of(array, moment=None):
    """The rows as TileDB reads them, as of a moment."""
    with tiledb.open(array, timestamp=moment) as a:
        cells = a[:]
    return sorted(zip(cells["x"].tolist(), cells["a"].tolist()))


def age_lists(array):
    """Makes the .con files a minute old, so that the next COMMIT that merges removes the .wrt files of their commits. Returns the names of both kinds of files."""
    commits = os.path.join(array, "__commits")
    lists = [name for name in os.listdir(commits) if name.endswith(".con")]
    for name in lists:
        os.utime(os.path.join(commits, name), (time.time() - 60,) * 2)
    return lists, [name for name in os.listdir(commits) if name.endswith(".wrt")]


def check(vacuums):
    """`vacuums`: COMMITs remove what was replaced, and TileDB vacuums meanwhile; else nothing goes but the .wrt files of commits that a .con has, until TileDB's vacuums at the end."""
    with tempfile.TemporaryDirectory() as folder:
        array = os.path.join(folder, "a")
        shell(folder, f"CREATE VIRTUAL TABLE t USING tessera('{array}', auto_consolidate=4, {'auto_vacuum_s=0, ' if vacuums else ''}x INT64 DIMENSION(0, 100000, 1000), a INT64 NOT NULL);")
        config, state, past = tiledb.Config(TILEDB_MEMORY), {}, []

        def compare():
            for moment, rows in past:
                assert rows_of(array, moment) == rows, f"TileDB as of {moment}"
                printed = shell(folder, f"SELECT x || ' ' || a FROM t WHERE as_of = {moment} ORDER BY x;").split("\n")[:-1]
                assert printed == [f"{x} {v}" for x, v in rows], f"tessera as of {moment}"
            assert shell(folder, f"SELECT severity, file, message FROM tessera_check('{array}') WHERE severity <> 'note';") == ""

        for number in range(ROUNDS):
            statements = []
            for i in range(COMMITS):
                x, v = (number * COMMITS + i) * 7 % 60, number * COMMITS + i
                state[x] = v
                statements.append(f"INSERT INTO t VALUES({x}, {v});")
            shell(folder, "\n".join(statements))
            assert rows_of(array) == sorted(state.items()), f"round {number}: TileDB sees other rows"
            if number % 3 == 1:
                state[5000 + number] = number
                with tiledb.open(array, "w") as a:
                    a[np.array([5000 + number])] = {"a": np.array([number], dtype=np.int64)}
            if vacuums and number % 4 == 3:
                tiledb.consolidate(array, config=config)
                tiledb.vacuum(array, config=config)
            age_lists(array)
            past.append((int(time.time() * 1000), sorted(state.items())))
            time.sleep(0.005)
        lists, written = age_lists(array)
        assert vacuums or (lists and len(written) < ROUNDS * COMMITS * 2 // 3), (lists, written)
        compare()
        fragments = int(shell(folder, f"SELECT count(*) FROM tessera_fragments('{array}');"))
        assert fragments <= 16, fragments
        for mode in () if vacuums else ("commits", "fragments"):
            modes = tiledb.Config({**TILEDB_MEMORY, "sm.consolidation.mode": mode, "sm.vacuum.mode": mode})
            tiledb.consolidate(array, config=modes)
            tiledb.vacuum(array, config=modes)
            compare()
        print(f"{ROUNDS * COMMITS} commits, {fragments} fragments, {len(lists)} .con, {len(written)} .wrt")


def main():
    check(True)
    check(False)


if __name__ == "__main__":
    if tiledb is None:
        print("SKIPPED: the package tiledb is not installed")
        sys.exit(77)
    main()
