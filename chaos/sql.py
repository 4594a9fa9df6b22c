"""Views of SQL through Kafka and Spark while drivers and workers are killed: in the end each is Spark's batch query.

`python -m chaos.sql --histories 200 --seed 1`. A history is a random query over random tables (`proof.sql`): its
changes are written to topics in parts, in random batches; of each part a driver or a worker may be killed at a
moment of `strikes`, and between parts the query may be stopped and started again. Histories share a process, until
one kills it; the next goes on where that one stopped. A part that is written again behind a kill ends as it did.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb
from confluent_kafka import Producer

import watersmeet as wm
from chaos import hooks
from chaos.hooks import CHECKPOINT, KEPT, ORDER, ROUND, kill_session
from chaos.stores import DISK, store
from chaos.strikes import Strike, passed, strikes_for
from chaos.turn import end_with_the_bench, session
from dev.broker import KafkaBroker
from dev.reader import committed
from proof.sql.generate import Change, Table
from proof.sql.run import Case, Rows, batch_states, case_of, counted, piped_key, spark_states

PARTITIONS, OUT = 2, "out"
PROGRESS, RESULTS = "progress.json", "results.jsonl"
BASE = 1_700_000_000_000
_STRUCK = {"driver": 0.08, "worker": 0.25}
"""Share of the parts in which such a one is killed."""
_MOST_FAILURES = 8
_TRIES = 20
"""Cases that are drawn for a history."""
_FORMATS = {"BIGINT": ">q", "INT": ">i"}


@dataclass(frozen=True)
class Part:
    """Some changes, and what happens meanwhile: who is killed, and whether the query is stopped behind them."""

    changes: Sequence[Change]
    strike: Strike | None
    let_pass: int
    stops: bool


@dataclass(frozen=True)
class History:
    """A case in parts.

    Parameters
    ----------
    batch : records of a batch at most.
    tasks : of each exchange.
    """

    case: Case
    parts: Sequence[Part]
    batch: int
    tasks: int


def history_of(seed: int) -> History:
    """The history of a seed, with topics of its own; its view has rows in the end, unless many cases have none."""
    rng = Random(f"{seed}/kills")
    cases = (case_of(seed * _TRIES + number, f"h{seed}_") for number in range(_TRIES))
    case = next(filter(_has_rows, cases), case_of(seed * _TRIES, f"h{seed}_"))
    size = len(case.history)
    ends = sorted({*rng.sample(range(1, size), rng.choice((1, 2))), size})
    parts, start = [], 0
    for end in ends:
        victims = [victim for victim, share in _STRUCK.items() if rng.random() < share]
        strike = strikes_for(2, rng, victims=victims)[0] if victims else None
        parts.append(
            Part(case.history[start:end], strike, passed(strike, rng) if strike else 0, stops=rng.random() < 0.4)
        )
        start = end
    return History(case, parts, rng.choice((3, 10, 100)), rng.choice((1, 2)))


def _has_rows(case: Case) -> bool:
    try:
        return bool(next(batch_states(replace(case, cuts=[len(case.history)]))))
    except duckdb.Error:
        return False


# -- the process that is killed ----------------------------------------------------------------------------


def turn(folder: Path) -> None:
    """Go on with the histories that a folder names, from where the last process stopped, to the last."""
    threading.Thread(target=end_with_the_bench, daemon=True).start()
    given = json.loads((folder / ROUND).read_text())
    spark = session(folder, 0)
    while (at := progress(folder))[0] < given["end"]:
        _Turn(folder, spark, given["servers"], *at).run()


def progress(folder: Path) -> tuple[int, int]:
    """(the seed of the history, the part) that is next."""
    seed, part = json.loads((folder / PROGRESS).read_text())
    return seed, part


class _Turn:
    """One history, or what is left of it."""

    def __init__(self, folder: Path, spark: Any, servers: str, seed: int, part: int) -> None:
        self._folder, self._spark, self._servers, self._seed, self._part = folder, spark, servers, seed, part
        self._history = history_of(seed)
        self._query: Any = None
        self._failures: list[str] = []
        # of its own: Spark's maintenance may still write into that of the history before
        self._checkpoint = folder / f"{CHECKPOINT}-{seed}"
        given = json.loads((folder / ROUND).read_text())
        given["store"]["checkpoint"] = str(self._checkpoint)
        _replace(folder / ROUND, json.dumps(given))
        if not part and not (folder / f"written-{seed}-0").exists():
            shutil.rmtree(folder / KEPT, ignore_errors=True)
        (folder / KEPT).mkdir(exist_ok=True)

    def run(self) -> None:
        case = self._history.case
        try:
            builder = wm.StreamsBuilder("chaos-sql")
            handle = builder.sql(case.script)
            self._columns = handle.value_type.names
            handle.to(f"{OUT}-{self._seed}", key="json", value="json")
            self._topology = builder.build()
        except wm.SqlError as error:
            return self._end({"refused": error.message[:80]})
        for number in range(self._part, len(self._history.parts)):
            self._one(number, self._history.parts[number])
            if number + 1 < len(self._history.parts):
                self._put(self._seed, number + 1)
        self._stop()
        return self._end(self._verdict())

    def _one(self, number: int, part: Part) -> None:
        """Have the query read a part to its end, however often it fails meanwhile."""
        order = f"{self._seed}-{number}"
        self._write(order, part.changes)
        timer = self._strike(order, part)
        for _ in range(_MOST_FAILURES):
            try:
                self._query = self._query or self._topology.start(
                    self._spark,
                    checkpoint=self._checkpoint,
                    kafka=wm.Kafka(self._servers, max_records_per_batch=self._history.batch),
                    tasks=self._history.tasks,
                    shards=self._history.case.shards * self._history.tasks,
                    local_cache=str(self._folder / "cache"),
                )
                self._query.processAllAvailable()
                break
            except Exception as error:  # what a kill looks like from here is many kinds of errors
                self._failures.append(str(error)[-300:])
                self._query = None
        else:
            raise RuntimeError(f"History {self._seed} fails again and again: {self._failures[-1]}")
        if timer is not None:
            timer.join()  # it may strike between two batches, too
        with suppress(FileNotFoundError):
            (self._folder / ORDER).rename(self._folder / f"withdrawn-{order}")
        if part.stops:
            self._stop()

    def _write(self, order: str, changes: Sequence[Change]) -> None:
        """Write a part to its topics, once unless it is killed meanwhile."""
        mark = self._folder / f"written-{order}"
        if mark.exists():
            return
        settings = {"bootstrap.servers": self._servers, "enable.idempotence": True, "partitioner": "murmur2_random"}
        producer = Producer(settings)
        for number, (table, key, row) in enumerate(changes, start=1):
            value = None if row is None else json.dumps(row).encode()
            producer.produce(table.name, value, key_bytes(table, key), timestamp=BASE + number)
        if producer.flush(300):
            raise RuntimeError("Kafka has not confirmed all records.")
        mark.touch()

    def _strike(self, order: str, part: Part) -> threading.Timer | None:
        """Give the order to kill, once; at any moment this process kills itself."""
        struck, strike = self._folder / f"struck-{order}", part.strike
        if strike is None or struck.exists():
            return None
        if not strike.named:
            return self._soon(struck) if strike.victim == "driver" else None
        text = {"number": order, "moment": strike.moment, "victim": strike.victim, "let_pass": part.let_pass}
        _replace(self._folder / ORDER, json.dumps(text))
        return None

    def _soon(self, struck: Path) -> threading.Timer:
        def kill() -> None:
            struck.touch()
            kill_session(os.getsid(0))

        timer = threading.Timer(Random(struck.name).uniform(0, 2), kill)
        timer.start()
        return timer

    def _stop(self) -> None:
        if self._query is not None:
            self._query.stop()
            self._query = None

    def _verdict(self) -> dict[str, Any]:
        case = replace(self._history.case, cuts=[len(self._history.case.history)])
        found = self._view()
        try:
            (wanted,) = spark_states(case, self._spark)
        except Exception as error:
            return {"refused": f"Spark: {str(error)[:80]}"}
        changed = sorted(path.name for path in (self._folder / KEPT).glob("changed-*"))
        empty = case.is_single and not found and sum(wanted.values()) == 1
        told: dict[str, Any] = {"planned anew": changed} if changed else {}
        if found != wanted and not empty:
            told |= {"missing": dict(wanted - found), "extra": dict(found - wanted)}
        return {"rows": sum(found.values()), "batches": len(list((self._folder / KEPT).iterdir())), "different": told}

    def _view(self) -> Rows:
        """The rows that a reader of the output has in the end."""
        last = {}
        for record in committed(self._servers, [f"{OUT}-{self._seed}"], PARTITIONS):
            last[record.key] = record.value
        values = [json.loads(value) for value in last.values() if value is not None]
        return counted([tuple(value.get(name) for name in self._columns) for value in values])

    def _end(self, verdict: dict[str, Any]) -> None:
        with (self._folder / RESULTS).open("a") as results:
            results.write(json.dumps({"seed": self._seed, "failures": len(self._failures), **verdict}) + "\n")
        self._put(self._seed + 1, 0)

    def _put(self, seed: int, part: int) -> None:
        _replace(self._folder / PROGRESS, json.dumps([seed, part]))


def _replace(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def key_bytes(table: Table, key: tuple[Any, ...]) -> bytes:
    """A key as SQL declares it where it names no format."""
    kind = table.columns[table.key[0]]
    if len(key) > 1:
        return json.dumps(piped_key(table, key)).encode()
    return struct.pack(_FORMATS[kind], key[0]) if kind in _FORMATS else str(key[0]).encode()


# -- the process that brings it back -----------------------------------------------------------------------


@dataclass
class Outcome:
    """What came of histories: a dict of each, and how many died of each victim."""

    histories: list[dict[str, Any]]
    kills: Counter[str]

    @property
    def different(self) -> list[dict[str, Any]]:
        """Those whose view is another than Spark's."""
        return [each for each in self.histories if each.get("different")]

    @property
    def same(self) -> int:
        """How many are the same."""
        return sum("different" in each and not each["different"] for each in self.histories)


def run(first: int, count: int, folder: Path, seconds: float = 1e9) -> Outcome:
    """Run the histories of these seeds, none of which begins after so many seconds.

    Raises
    ------
    RuntimeError : the process dies again and again though nobody kills it.
    """
    begun, deaths = time.monotonic(), 0
    with KafkaBroker() as broker, store(DISK, folder) as place:
        setting = {"servers": broker.bootstrap_servers, "end": first + count, "store": asdict(place)}
        (folder / ROUND).write_text(json.dumps(setting))
        (folder / PROGRESS).write_text(json.dumps([first, 0]))
        for seed in range(first, first + count):
            names = [table.name for table in history_of(seed).case.tables]
            broker.create_topics([*names, f"{OUT}-{seed}"], partitions=PARTITIONS)
        while progress(folder)[0] < first + count and time.monotonic() - begun < seconds:
            struck = _struck(folder)
            _watch(folder, begun + seconds)
            deaths = 0 if _struck(folder) > struck else deaths + 1
            if deaths > 2:
                raise RuntimeError(f"It dies though nobody kills it.\n{(folder / 'log').read_text()[-3000:]}")
    lines = (folder / RESULTS).read_text().splitlines() if (folder / RESULTS).exists() else []
    return Outcome([json.loads(line) for line in lines], Counter(_victims(folder)))


def _struck(folder: Path) -> int:
    return len(list(folder.glob("struck-*")))


def _victims(folder: Path) -> Iterator[str]:
    for path in folder.glob("struck-*"):
        text = path.read_text()
        yield json.loads(text)["victim"] if text else "driver"


def _watch(folder: Path, until: float) -> None:
    """Run a process to its end, or until there is no more time."""
    process = hooks.launch(folder, ["chaos.sql", "--turn", str(folder)], "both")
    try:
        process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        pass
    finally:
        while hooks.members(process.pid):
            kill_session(process.pid)
            process.poll()
            time.sleep(0.05)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def main() -> int:
    """Run so many histories, and print what differs."""
    parser = argparse.ArgumentParser(prog="python -m chaos.sql", description=__doc__)
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="end after so long")
    parser.add_argument("--turn", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.turn is not None:
        turn(given.turn)
        return 0
    folder = Path(tempfile.mkdtemp(prefix="watersmeet-sql-"))
    outcome = run(given.seed, given.histories, folder, given.seconds)
    for each in outcome.different:
        print(json.dumps(each))
    refused = Counter(each["refused"] for each in outcome.histories if "refused" in each)
    batches, failures = (sum(each.get(name, 0) for each in outcome.histories) for name in ("batches", "failures"))
    print(
        f"seeds {given.seed} to {given.seed + len(outcome.histories) - 1}: {outcome.same} histories the same,", end=" "
    )
    print(f"{len(outcome.different)} different, {sum(refused.values())} refused; {batches} batches; killed:", end=" ")
    print(f"{outcome.kills['driver']} drivers, {outcome.kills['worker']} workers; {failures} queries failed")
    for text, number in refused.most_common():
        print(f"  {number:4d} {text}")
    if not outcome.different:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if outcome.different else 0


if __name__ == "__main__":
    sys.exit(main())
