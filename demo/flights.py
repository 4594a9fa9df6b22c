"""The demo: a year of real flights through four joins, shown, and checked against plain pandas.

    python demo/flights.py              from Parquet files to Parquet files
    python demo/flights.py --kafka      from Kafka topics to Kafka topics, through a broker of its own
    python demo/flights.py --live       with a page at which the query is watched, until Ctrl-C

Owns the options, and the bar, which is there before Spark and pandas are imported; `run` does the rest. Started by
`make demo`. Ends with status 1 when a result differs from what pandas makes of the same data.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

BEGAN = time.perf_counter()

ROOT = Path(__file__).resolve().parents[1]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path.insert(0, str(ROOT))

from demo.progress import display


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if all is as pandas has it."""
    options = _options(arguments)
    with display(BEGAN) as shown:
        shown.waits_for("importing Spark")
        # late: it takes a second or two, in which the bar is seen to move
        from demo.run import demo

        return demo(options, shown, BEGAN)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A year of real flights through watersmeet.")
    parser.add_argument("--kafka", action="store_true", help="through a real broker on loopback")
    parser.add_argument("--live", action="store_true", help="serve the tables and a page while it runs, until Ctrl-C")
    parser.add_argument("--rows", type=int, help="only so many flights, from New Year on (default: all)")
    parser.add_argument("--batches", type=int, help="cut the year into so many (default 8, with --live 48)")
    parser.add_argument("--folder", type=Path, default=ROOT / ".demo", help="of all files (default .demo)")
    options = parser.parse_args(arguments)
    if options.batches is None:
        options.batches = 48 if options.live else 8
    if options.batches < 1 or (options.rows is not None and options.rows < 1):
        parser.error("--rows and --batches are numbers from 1 on")
    return options


if __name__ == "__main__":
    sys.exit(main())
