"""`python -m proof.histories --count N --seed S --workers W [--resume FILE]`: the soak's command.

Owns the command line and its exit status: 0 when every case holds, 1 when one fails, 2 when it cannot run.
`--only NUMBER` runs one case and prints it, shrunk, if it fails; `--tables` draws tables alone, joined with what is
computed from them; `--spark` goes through real Spark, and `--kafka-streams` holds oracle and engine against Kafka
Streams. Called from the shell and by `make soak`.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proof.histories.check import check
from proof.histories.kafka_streams import beside_driver, check_programs, record_programs
from proof.histories.report import page, seed_line
from proof.histories.shrink import shrink
from proof.histories.soak import drawn_case, print_now, soak
from proof.histories.spark import bundle_of, check_bundle


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m proof.histories", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=2_000, help="how many histories")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="remember progress here, and go on from it")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="run one history of the seed")
    parser.add_argument("--spark", action="store_true", help="through real Spark, many histories in one run")
    parser.add_argument("--kafka-streams", action="store_true", help="oracle and engine beside the real Kafka Streams")
    parser.add_argument("--driver", action="store_true", help="beside Kafka Streams the public test driver, on Spark")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write what Kafka Streams makes of the programs")
    parser.add_argument("--tables", action="store_true", help="tables alone, joined with what is computed from them")
    options = parser.parse_args(arguments)
    if options.record is not None:
        record_programs(options.seed, options.count, options.record)
        return 0
    if options.kafka_streams:
        return _beside_kafka_streams(options.seed, options.count, driver=options.driver)
    if options.spark:
        return _on_spark(options.seed, options.count)
    if options.only is not None:
        return _one(options.seed, options.only, tables=options.tables)
    # A plain end of the process would leave the workers behind.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        how: Any = {"workers": options.workers, "path": options.resume, "tables": options.tables}
        progress = soak(options.count, options.seed, say=print_now, **how)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        signal.signal(signal.SIGTERM, before)
    return 1 if progress.failed else 0


def _beside_kafka_streams(seed: int, count: int, *, driver: bool) -> int:
    """The programs of a seed; the test driver needs a session."""
    if driver:
        from watersmeet._spark.session import session

        session("programs")
    return 1 if check_programs(seed, count, print_now, also=beside_driver if driver else None) else 0


def _on_spark(seed: int, histories: int) -> int:
    """Bundles of a seed until there were so many histories; needs a session of its own."""
    from watersmeet._spark.session import session

    spark = session("histories")
    done = number = failed = 0
    while done < histories:
        bundle = bundle_of(seed, number) if number % 4 < 3 else bundle_of(seed, number, parts=1, cases=40)
        found = check_bundle(bundle, spark)
        done, failed = done + bundle.histories, failed + len(found)
        for difference in found[:1]:
            print_now(f"FAILED on Spark seed {seed} bundle {number}\n{page(difference)}")
        print_now(f"{done} of {histories} histories on Spark, bundle {number}, {failed} cases failed")
        number += 1
    return 1 if failed else 0


def _one(seed: int, number: int, *, tables: bool) -> int:
    found = check(drawn_case(seed, number, tables=tables))
    if found is None:
        print_now(f"seed {seed} number {number} holds")
        return 0
    print_now(f"{seed_line(seed, number, found, tables=tables)}\n{page(shrink(found))}")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
