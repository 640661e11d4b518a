"""The arrays of the corpus, which TileDB wrote, are copied into a bucket. Each is read there at every time that its description has, and every
cell is compared. Generated columnar queries give the rows of the view there, too.

usage: corpus.py LIBRARY FOLDER CORPUS [moto | versitygw | azurite | gcs | gcs_memory] [--every N] [--seed N]

With --every N it is a sample: one array of N. The seed chooses which; it is that of the day, so that in time each has its turn.
"""
import os
import random
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus"))
import arrays
import queries
import read

from buckets import NAME, run

CORPUS = os.path.abspath(sys.argv.pop(3))
QUERIES = 8   # of each array
RENEWED = 50  # arrays, after which a new server takes the place of the one that their objects have made slow
EVERY = int(sys.argv[sys.argv.index("--every") + 1]) if "--every" in sys.argv else 1
SEED = int(sys.argv[sys.argv.index("--seed") + 1]) if "--seed" in sys.argv else int(time.time()) // 86400


def key_of(name):
    """A prefix that can be told from a directory; names of the corpus have characters that keys must have encoded."""
    return "corpus/" + name


def test_corpus(bucket):
    passed, failed, files, answered = 0, 0, 0, 0
    with tempfile.TemporaryDirectory() as keys:
        for i, (name, directory, description) in enumerate(arrays.find(CORPUS)):
            if (i - SEED) % EVERY:
                continue
            if EVERY == 1 and i % RENEWED == RENEWED - 1:
                bucket.renew()
            files += bucket.upload(directory, key_of(name))
            db = bucket.connect(direct=True)
            db.text_factory = bytes
            for wanted in description["reads"]:
                try:
                    wrong = read.check_read(db, f"s3://{NAME}/{key_of(name)}", description, wanted, keys, False)
                except Exception as e:
                    wrong = read.wrong_with(e, directory, description, wanted["timestamp"])
                if "error" in wanted: # TileDB cannot read the array either
                    continue
                passed, failed = passed + (not wrong), failed + bool(wrong)
                if wrong:
                    print(f"FAIL {name} at {wanted['timestamp']}: {wrong[:400]}", flush=True)
            db.close()
            if not read.askable(name, description, "dims_scale_float"):
                continue
            db = bucket.connect(direct=True)
            db.text_factory = bytes
            for problem in queries.check_array(db, f"s3://{NAME}/{key_of(name)}", description, QUERIES, random.Random(name), keys):
                bad = isinstance(problem, str)
                answered += problem is None
                failed += bad
                if bad:
                    print(f"FAIL {name}{problem}", flush=True)
            db.close()
    assert answered
    print(f"  queries: {answered} answered")
    print(f"  corpus: {files} objects, {passed} passed, {failed} failed")
    assert passed and not failed


if __name__ == "__main__":
    sys.exit(run((test_corpus,), "corpus"))
