"""One round: one join with a broker, topics and a checkpoint of its own, one kill after the other, the verdict.

A strike waits until batches have gone on since the last one, so that each meets a
query at work. Nothing waits for a time that must be long enough: only for what happens.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from chaos import hooks
from chaos.databases import database, judge_table, rows_of
from chaos.feed import Feed, records
from chaos.hooks import CHECKPOINT, ROUND
from chaos.joins import JOINS, SIDES, by_wall
from chaos.judge import (
    Readings,
    Verdict,
    both,
    ends_of,
    expected,
    expected_dead_letters,
    judge,
    judge_dead_letters,
    readings,
    seconds_of,
    unplanned,
)
from chaos.stores import DISK, Store, store
from chaos.strikes import Strike, passed
from chaos.turn import EVENTS, FINISH
from dev.broker import KafkaBroker
from dev.cluster import spark_home
from dev.reader import Record, committed
from watersmeet._spark.session import DAEMON
from watersmeet._spark.sources.wall_clock import BEGUN

PARTITIONS = 4
BATCH = 200
"""Records of a batch at most."""
_LOOK_SECONDS = 0.05
_BROKER_SECONDS = 1_800.0
"""For a broker to serve (again): far above what it takes, also on a machine that stands still for minutes."""
_MOST_LOOKS = 12_000
"""Looks without any progress, ten minutes of them, that a round bears."""
_MOST_BATCHES = 25
"""Batches within which an order must be carried out, or its moment does not come up in this topology."""
_MOST_FAILURES = 10


class Stuck(RuntimeError):
    """A round does not go on: the query cannot be brought back."""


@dataclass(frozen=True)
class Round:
    """What a round does, and all that it depends on but the hazards of threads.

    Parameters
    ----------
    seed, number : of the random choices.
    join : a name of `JOINS`.
    strikes : the kills, in order.
    delivery : of the sink; "at_least_once" shows that the judge sees doubled records.
    executors : how many Spark has, each a JVM of its own; 0: all is the driver's.
    tasks : of the query: one runs all levels behind one another.
    writers : who writes the output, a name of `strikes.WRITERS`.
    database : that keeps the table, a name of `databases.DATABASES`; none: the results go into a topic.
    together : whether batches end at times that all partitions have reached (`max_task_idle`).
    store : where the checkpoint lies, a name of `stores.STORES`; on a disk where the wall clock moves results.
    """

    seed: int
    number: int
    join: str
    strikes: tuple[Strike, ...]
    delivery: str = "exactly_once"
    executors: int = 0
    writers: str = "driver"
    database: str = ""
    together: bool = False
    store: str = DISK
    tasks: int = 2


@dataclass
class Outcome:
    """What came of a round.

    Parameters
    ----------
    met : the strikes that were carried out, each with the batch under way.
    unmet : those whose moment did not come up.
    failures : what the query said when it failed.
    """

    round: Round
    met: list[tuple[Strike, int]] = field(default_factory=list)
    unmet: list[Strike] = field(default_factory=list)
    batches: int = 0
    records: int = 0
    failures: list[str] = field(default_factory=list)
    verdict: Verdict = field(default_factory=lambda: Verdict(0))


Say = Callable[[str], None]


def run(given: Round, folder: Path, say: Say) -> Outcome:
    """Run a round in an empty folder, which stays when something is wrong.

    Raises
    ------
    Stuck : it does not go on.
    """
    shutil.rmtree(folder, ignore_errors=True)
    (folder / hooks.KEPT).mkdir(parents=True)
    with (
        KafkaBroker(start_timeout=_BROKER_SECONDS) as broker,
        database(given.database, folder) as url,
        store(given.store, folder) as place,
    ):
        ring = _Ring(given, folder, broker, say, url, place)
        try:
            ring.fight()
        finally:
            ring.close()
        outcome = ring.judged()
    if outcome.verdict.sound:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


class _Ring:
    """The processes of a round."""

    def __init__(self, given: Round, folder: Path, broker: KafkaBroker, say: Say, url: str, place: Store) -> None:
        self._given, self._folder, self._broker, self._say = given, folder, broker, say
        self._random = Random(f"{given.seed}/{given.number}/{given.join}")
        self._topics = {
            name: f"{name}-{given.number}" for name in (*SIDES, "out", *(["dead"] if JOINS[given.join].bad else []))
        }
        broker.create_topics(self._topics.values(), partitions=PARTITIONS)
        self._servers = broker.bootstrap_servers
        setting: dict[str, Any] = {"join": given.join, "topics": self._topics, "servers": self._servers}
        setting |= {"batch": BATCH, "idle": "200 ms" if given.together else None}
        setting |= {"delivery": given.delivery, "executors": given.executors, "database": url}
        setting |= {"store": asdict(place), "tasks": given.tasks}
        self._database = url
        (folder / ROUND).write_text(json.dumps(setting))
        self._process: subprocess.Popen[bytes] | None = None
        drawn = records(JOINS[given.join], f"{given.seed}/{given.number}")
        self._feed = Feed(self._servers, self._topics, drawn, self._consumed)
        self._events = 0
        self._since_progress = 0
        self.outcome = Outcome(given)

    def fight(self) -> None:
        """One strike after the other; then everything to its end."""
        self._feed.start()
        self._launch()
        for number, strike in enumerate(self._given.strikes):
            self._flow(self._random.randint(1, 2))
            self._strike(number, strike)
        self._flow(1)
        self._feed.stop()
        (self._folder / FINISH).touch()
        self._until(lambda: self._events_have("finished"))
        self._kill_driver()

    def close(self) -> None:
        """Nothing of it stays alive."""
        if self._process is not None:
            self._kill_driver()

    def judged(self) -> Outcome:
        """The outcome, with the verdict on what a plain consumer sees."""
        sides = {side: committed(self._servers, [self._topics[side]], PARTITIONS) for side in SIDES}
        output = [] if self._database else committed(self._servers, [self._topics["out"]], PARTITIONS)
        kept = [self._copy_of(number).read_text() for number in range(self._planned() + 1)]
        plans, join = [ends_of(text) for text in kept], JOINS[self._given.join]
        clock = self._clock(kept) if by_wall(join) else Readings()
        wanted = expected(join, sides, plans, clock)
        verdict = judge_table(wanted, rows_of(self._database)) if self._database else judge(wanted, output)
        if "dead" in self._topics:
            dead = committed(self._servers, [self._topics["dead"]], PARTITIONS)
            verdict = both(
                verdict, judge_dead_letters(expected_dead_letters(JOINS[self._given.join], sides, plans), dead)
            )
        more = [f"not read: {place}" for place in unplanned(sides, plans)]
        more += [f"planned anew: {path.name}" for path in sorted((self._folder / hooks.KEPT).glob("changed-*"))]
        verdict = replace(verdict, details=(*more, *verdict.details))
        outcome = self.outcome
        outcome.verdict, outcome.batches = verdict, len(plans)
        outcome.records = sum(map(len, sides.values()))
        if not verdict.sound:
            self._keep(sides.values(), output)
        return outcome

    def _clock(self, plans: Sequence[str]) -> Readings:
        """What the wall clock has shown, by the checkpoint: Spark's source says when it was made, the record of the
        query when it was begun."""
        checkpoint = self._folder / CHECKPOINT
        begun = re.findall(rf'"{BEGUN}": ?(\d+)', "".join(map(_text_of, checkpoint.rglob("*.txt"))))
        metadata = [_text_of(path).split() for path in (checkpoint / "sources").glob("*/0")]
        (created,) = {int(lines[1]) for lines in metadata if len(lines) == 2 and lines[1].isdigit()}
        return readings(int(begun[0]), created, [seconds_of(text) for text in plans])

    # -- strikes -----------------------------------------------------------------------------------------------

    def _strike(self, number: int, strike: Strike) -> None:
        batch = self._planned()
        met = self._order(number, strike) if strike.named else self._strike_anywhere(strike)
        if met:
            self.outcome.met.append((strike, batch))
        else:
            self.outcome.unmet.append(strike)
        done, all_strikes = len(self.outcome.met), len(self._given.strikes)
        how = "" if met else " did not come up"
        self._say(f"{strike.victim} {strike.moment}{how}, batch {batch}: {done} of {all_strikes} kills")

    def _order(self, number: int, strike: Strike) -> bool:
        """Have a process die at a named moment; whether that came up."""
        order = self._folder / hooks.ORDER
        text = {"number": number, "moment": strike.moment, "victim": strike.victim}
        order.with_suffix(".new").write_text(json.dumps({**text, "let_pass": passed(strike, self._random)}))
        order.with_suffix(".new").rename(order)
        last = self._planned() + _MOST_BATCHES
        struck = self._folder / f"struck-{number}"
        self._until(lambda: struck.exists() or self._planned() >= last, excused=True)
        if not struck.exists():
            try:
                order.rename(order.with_name(f"withdrawn-{number}"))
                return False
            except FileNotFoundError:
                pass  # it was carried out just now
        if strike.victim == "driver":
            self._kill_driver()
            self._launch()
        return True

    def _strike_anywhere(self, strike: Strike) -> bool:
        time.sleep(self._random.uniform(0, 1.5))
        if strike.victim == "driver":
            self._kill_driver()
            self._launch()
        elif strike.victim == "broker":
            self._broker.restart()
        else:
            return self._kill_one(_is_worker if strike.victim == "worker" else _is_executor)
        return True

    def _kill_one(self, is_one: Callable[[int], bool]) -> bool:
        """One of the processes that are such, one at work if there is one."""
        assert self._process is not None
        for _ in range(200):
            found = [pid for pid in hooks.members(self._process.pid) if is_one(pid)]
            busy = [pid for pid in found if hooks.stat_of(pid)[:1] == ["R"]] or found
            if busy:
                os.kill(self._random.choice(busy), signal.SIGKILL)
                return True
            time.sleep(_LOOK_SECONDS)
        return False

    def _launch(self) -> None:
        folder = self._folder
        # where Spark's workers write
        more = {"SPARK_HOME": str(spark_home(folder))} if self._given.executors else {}
        self._process = hooks.launch(folder, ["chaos.turn", str(folder)], self._given.writers, more)

    def _kill_driver(self) -> None:
        process, self._process = self._process, None
        assert process is not None
        while hooks.members(process.pid):
            hooks.kill_session(process.pid)
            process.poll()
            time.sleep(_LOOK_SECONDS)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()
        shutil.rmtree(self._folder / "local", ignore_errors=True)

    # -- progress ----------------------------------------------------------------------------------------------

    def _flow(self, batches: int) -> None:
        """Wait until so many new batches have been planned."""
        wanted = self._planned() + batches
        self._until(lambda: self._planned() >= wanted)

    def _until(self, reached: Callable[[], bool], *, excused: bool = False) -> None:
        """Wait, and bring the process back where it has died although nobody killed it."""
        looks, planned = 0, self._planned()
        while not reached():
            time.sleep(_LOOK_SECONDS)
            looks, planned = (looks + 1, planned) if self._planned() == planned else (0, self._planned())
            self._look(looks == 0)
            if looks > _MOST_LOOKS or self._feed.failure is not None:
                raise Stuck(f"no batch for minutes; {self._feed.failure or ''}\n{self._log_tail()}")
            if self._process is not None and self._process.poll() is not None and not excused:
                self.outcome.failures.append(f"the driver ended with {self._process.returncode}")
                self._since_progress += 1
                self._kill_driver()
                self._launch()

    def _look(self, progress: bool) -> None:
        self._since_progress = 0 if progress else self._since_progress
        events = self._read_events()
        for event in events[self._events :]:
            if event["what"] == "failed":
                self.outcome.failures.append(event["text"])
                self._since_progress += 1
        self._events = len(events)
        if self._since_progress > _MOST_FAILURES:
            raise Stuck(f"{_MOST_FAILURES} failures in a row, the last: {self.outcome.failures[-1]}")

    def _events_have(self, what: str) -> bool:
        return any(event["what"] == what for event in self._read_events())

    def _read_events(self) -> list[dict[str, Any]]:
        path = self._folder / EVENTS
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def _planned(self) -> int:
        """Number of the last batch that has reached the sink, -1 before the first."""
        kept = (path.name for path in (self._folder / hooks.KEPT).iterdir())
        return max((int(name) for name in kept if name.isdigit()), default=-1)

    def _copy_of(self, batch: int) -> Path:
        return self._folder / hooks.KEPT / str(batch)

    def _consumed(self) -> int:
        last = self._planned()
        return sum(ends_of(self._copy_of(last).read_text()).values()) if last >= 0 else 0

    def _log_tail(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-2_000:]

    def _keep(self, sides: Iterable[Sequence[Record]], output: Sequence[Record]) -> None:
        """Everything that a verdict rests on, for whoever looks into it."""
        for name, found in (("inputs", [r for side in sides for r in side]), ("output", output)):
            rows = [repr(tuple(asdict(record).values())) for record in found]
            (self._folder / f"{name}.txt").write_text("\n".join(rows) + "\n")
        (self._folder / "verdict.txt").write_text("\n".join(self.outcome.verdict.details) + "\n")


def _text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _is_worker(pid: int) -> bool:
    """Whether it is a process that Spark's Python daemon has forked: both have the command line of the daemon."""
    lines = [_command_line(each) for each in (pid, *map(int, hooks.stat_of(pid)[1:2]))]
    # the JVM's line has the module's name too, as a setting
    return any(all(f"\0-m\0{module}\0" in line for line in lines) for module in (DAEMON, "pyspark.daemon"))


def _is_executor(pid: int) -> bool:
    return "\0org.apache.spark.executor.CoarseGrainedExecutorBackend\0" in _command_line(pid)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""
