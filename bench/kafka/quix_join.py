"""quixstreams' nearest to a join of a stream with a table: `join_asof`, Kafka to Kafka, exactly once, in two processes.

`python quix_join.py SERVERS LEFT RIGHT OUT GROUP STATE`, in an environment of its own (`quix.txt`): quixstreams needs
an older client of Kafka than watersmeet. A record meets the latest one of the right topic that is not younger than
itself. Ends when its input does.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from pathlib import Path

PROCESSES = 2


def main(servers: str, left: str, right: str, out: str, group: str, state: str) -> None:
    """Run until the standard input ends."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    arguments = (servers, left, right, out, group)
    processes = [
        context.Process(target=joined, args=(*arguments, f"{state}/{number}", stop)) for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    # a process that dies must not leave the others waiting for ever
    threading.Thread(target=_stop_with_parent, args=(stop,), daemon=True).start()
    while not stop.wait(0.2):
        if not all(process.is_alive() for process in processes):
            stop.set()
            sys.exit("a process of the join has died")
    for process in processes:
        process.join()


def _stop_with_parent(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def joined(servers: str, left: str, right: str, out: str, group: str, state: str, stop: threading.Event) -> None:
    """One process: as many partitions as the group gives it."""
    from quixstreams import Application  # type: ignore[import-not-found]  # in the environment that runs this alone

    Path(state).mkdir(parents=True, exist_ok=True)
    app = Application(
        broker_address=servers,
        consumer_group=group,
        state_dir=state,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once",
        # its default of 5 s is longer than small data last, and what is committed is all that is seen of it
        commit_interval=1.0,
        loglevel="WARNING",
    )
    rows, table = (
        app.dataframe(app.topic(name, key_deserializer="bytes", value_deserializer="str")) for name in (left, right)
    )
    both = rows.join_asof(table, how="inner", on_merge=lambda one, other: one + other)
    both.to_topic(app.topic(out, key_serializer="bytes", value_serializer="str"))

    def watch() -> None:
        stop.wait()
        app.stop()

    threading.Thread(target=watch, daemon=True).start()
    app.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
