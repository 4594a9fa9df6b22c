"""`python -m dev.record [--seed N] [--into FOLDER] [FILE...]`: records histories of Kafka Streams' own test driver.

Owns the command: it draws, compiles and runs `Recorder.java` on the jars of `make jars`, and writes a file per name of
`families.FILES`. The same seed gives the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dev.jars import ROOT, classpath
from dev.jvm import find_java
from dev.record.draw import history
from dev.record.families import FILES

RECORDER = Path(__file__).with_name("Recorder.java")
INTO = ROOT / "tests" / "recordings" / "histories"
SEED = 20261125


def drawn(name: str, seed: int) -> str:
    """The histories of a file, a line each, without results."""
    count, families = FILES[name]
    shares = (history(families[n % len(families)], n // len(families), seed) for n in range(count))
    in_order = sorted(shares, key=lambda each: str(each["id"]))
    return "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in in_order)


def recorded(histories: str) -> str:
    """The same lines with what Kafka Streams made of them.

    Raises
    ------
    subprocess.CalledProcessError : Java refused the program, or Kafka Streams a history; standard error says why.
    """
    with tempfile.TemporaryDirectory() as folder:
        # what the test driver logs of each topology is of no use here
        options = [f"-Djava.io.tmpdir={folder}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
        command = [find_java(), *options, "-cp", classpath("streams"), str(RECORDER)]
        done = subprocess.run(command, input=histories, stdout=subprocess.PIPE, text=True, check=True, encoding="utf-8")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Record the files named on the command line, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m dev.record", description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--into", type=Path, default=INTO)
    parser.add_argument("files", nargs="*", metavar="FILE", help=f"of {', '.join(FILES)}")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.files) - set(FILES))
    if unknown:
        parser.error(f"no such file: {', '.join(unknown)}; there are {', '.join(FILES)}")
    for name in options.files or FILES:
        text = recorded(drawn(name, options.seed))
        path = options.into / f"{name}.jsonl.gz"
        # without the time of day, so that the same seed gives the same bytes
        path.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))
        print(f"{path}: {text.count(chr(10))} histories")
    return 0


if __name__ == "__main__":
    sys.exit(main())
