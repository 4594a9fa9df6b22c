"""Kafka to Kafka: the same topics, data and broker for Kafka Streams and for watersmeet, turn by turn.

Both write exactly once to topics of their own, and what they wrote must agree (`outcomes`). How far Kafka Streams
has come is read from the offsets that its group has committed, so that a record counts when its transaction does;
watersmeet's batches count when they end. Where the data are in two parts, the second one is released to each of them
when it is done with the first (`inputs`, `progress`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka.admin import AdminClient

from bench.kafka.inputs import PARTITIONS, Inputs, load
from bench.kafka.outcomes import Outcome, agreement, beside, outcome_of
from bench.kafka.progress import Follower, Progress
from bench.measuring import profiles
from bench.measuring.measure import Batch, Sampler, folder_bytes, rates
from bench.measuring.turns import ROOT, Turn, spark_turn
from bench.reports.results import OURS, OURS_CACHED, OURS_PLAIN, SPARK, STREAMS, STREAMS_CACHED
from bench.workloads.every import EVERY
from bench.workloads.workload import Data, Workload
from dev.broker import KafkaBroker
from dev.jars import classpath

BATCH_RECORDS = 1_020_000
"""Of a batch of watersmeet's, all workloads: the product's default of a million and room for what belongs to it.

A part of `foreign_key` is a million left records and ten thousand right ones, and ends of transactions count as
records: with a million exactly, a part would be a full batch and one of next to nothing.
"""
CACHE_BYTES = 10 << 20
"""Kafka Streams' own default."""
LEAST, QUIX = "watersmeet, at least once", "quixstreams"


@dataclass(frozen=True)
class Place:
    """A broker and a workload's data.

    Parameters
    ----------
    workload : what is measured.
    shared : the data in topics that all turns read; None where each turn has topics of its own.
    admin : kept as long as the broker: a client that is given up right behind an answer can bring the process down.
    """

    broker: KafkaBroker
    workload: Workload
    data: Data
    work: Path
    shared: Inputs | None
    admin: AdminClient

    @property
    def servers(self) -> str:
        """Of the broker."""
        return self.broker.bootstrap_servers

    @property
    def batch_records(self) -> int:
        """Of a batch of watersmeet's: a little more than half of small data, since a rate takes two batches."""
        return min(BATCH_RECORDS, self.data.records * 51 // 100)

    def sampler(self) -> Sampler:
        """Watches the broker while a turn runs."""
        return Sampler(self.broker.pid, interval=1.0)

    def output(self, name: str) -> str:
        """New topics for what a turn of this name writes, put together by commas."""
        names = outputs(name, self.workload)
        self.broker.create_topics(names, partitions=PARTITIONS)
        return ",".join(names)

    def outcome(self, name: str) -> Outcome:
        """What a turn of this name has written; its topics, Kafka Streams' own too, go with that."""
        compared = outputs(name, self.workload)[: self.workload.compared]
        found = outcome_of(self.servers, compared, PARTITIONS, self.workload.values_as)
        self.remove([topic for topic in self.admin.list_topics(timeout=60).topics if topic.startswith(f"{name}-")])
        return found

    def remove(self, topics: Sequence[str]) -> None:
        """Delete these topics: the disk holds what one turn writes, not what all of a workload's do."""
        for removed in self.admin.delete_topics(list(topics)).values() if topics else ():
            removed.result(timeout=60)

    @contextmanager
    def inputs(self, name: str) -> Iterator[Inputs]:
        """What a turn of this name reads: loaded and, if it is for this turn alone, removed behind it."""
        if self.shared is not None:
            yield self.shared
            return
        topics = [f"{name}-{side}" for side in self.data.sides]
        self.broker.create_topics(topics, partitions=PARTITIONS)
        yield load(self.servers, self.data, topics, parted=True)
        self.remove(topics)


def placed(broker: KafkaBroker, workload: str, data: Data, work: Path) -> Place:
    """A workload's data at a broker: loaded into topics of its own, unless they are in two parts."""
    # the broker ends first, and what the client says of that is no news
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    if EVERY[workload].parted:
        return Place(broker, EVERY[workload], data, work, None, admin)
    topics = [f"{workload}-{side}".replace("_", "-") for side in data.sides]
    broker.create_topics(topics, partitions=PARTITIONS)
    inputs = load(broker.bootstrap_servers, data, topics, parted=False)
    return Place(broker, EVERY[workload], data, work, inputs, admin)


def outputs(name: str, workload: Workload) -> list[str]:
    """Topics that a turn of this name writes."""
    return [f"{name}-out", *(f"{name}-out-{number}" for number in range(2, workload.outputs + 1))]


def one_turn_each(
    place: Place, workload: str, number: int, classes: Path, plain: Place | None = None, *, profile: bool = False
) -> Iterator[Turn]:
    """A turn of each contender, the reports of watersmeet's saying in what the results agree.

    watersmeet with its record cache has turns where tables are joined: of streams it keeps nothing back. Its turn of
    the plain workload of the same shape is compared with nothing but its own. Kafka Streams with its cache, and
    quixstreams and Spark where they can do something near, have a turn in the first round alone, to save time, unless
    the cache may be faster. How the results of these compare is said in that turn's report ("beside").

    Raises
    ------
    RuntimeError : watersmeet and Kafka Streams without cache do not agree.
    """
    name, equal = f"{workload}-{number}".replace("_", "-"), place.workload.equal
    outcomes = {}
    turn = streams_turn(place, workload, f"{name}-ks-0", classes, cache=0, profile=profile)
    outcomes[STREAMS] = place.outcome(f"{name}-ks-0")
    yield turn
    for out, turn in _beside(place, workload, number, name, classes, profile=profile):
        found = {STREAMS: outcomes[STREAMS], turn.contender: place.outcome(out)}
        yield replace(turn, report={**turn.report, "beside": beside(found, equal)})
    kinds = {OURS: workload}
    if place.workload.cached:
        kinds[OURS_CACHED] = f"{workload} cached"
    for who, kind in kinds.items():
        out = f"{kind}-{number}-wm".replace("_", "-").replace(" ", "-")
        turn = replace(watersmeet_turn(place, kind, out, profile=profile), contender=who)
        outcomes[who] = place.outcome(out)
        yield replace(turn, report={**turn.report, "agreed": agreement(outcomes, equal)})
    if plain is not None and place.workload.plain is not None:
        turn = watersmeet_turn(plain, place.workload.plain, f"{name}-plain", profile=profile)
        yield replace(turn, contender=OURS_PLAIN)


def _beside(
    place: Place, workload: str, number: int, name: str, classes: Path, *, profile: bool
) -> Iterator[tuple[str, Turn]]:
    """(name, turn) of those whose results may differ; most of them have one turn alone."""
    if number == 0 or place.workload.both_caches:
        out = f"{name}-ks-{CACHE_BYTES}"
        yield out, streams_turn(place, workload, out, classes, cache=CACHE_BYTES, profile=profile)
    if number == 0 and place.workload.in_spark is not None:
        out = f"{name}-spark"
        turn = watersmeet_turn(place, f"{workload} spark", out, profile=profile)
        yield out, replace(turn, contender=SPARK)
    if number == 0 and place.workload.as_of:
        out = f"{name}-quix"
        yield out, quix_turn(place, out, profile=profile)


def notes_of(turns: Sequence[Turn]) -> list[str]:
    """What is to be said of the results of turns: in what the last round agreed, and what the others did."""
    agreed = [turn.report["agreed"] for turn in turns if "agreed" in turn.report]
    return [*agreed[-1:], *(turn.report["beside"] for turn in turns if "beside" in turn.report)]


def compiled(work: Path) -> Path:
    """The folder with the classes of the Java program."""
    classes = work / "java"
    shutil.rmtree(classes, ignore_errors=True)
    sources = sorted(map(str, (ROOT / "bench" / "kafka" / "java").glob("*.java")))
    subprocess.run(["javac", "-cp", classpath("streams"), "-d", str(classes), *sources], check=True)
    return classes


def streams_turn(place: Place, workload: str, name: str, classes: Path, *, cache: int, profile: bool = False) -> Turn:
    """A turn of Kafka Streams; profiled by its threads alone. Raises as `_watched_turn` does."""
    path = os.pathsep.join([str(classes), classpath("streams")])

    def command(topics: Sequence[str], out: str, state: Path) -> list[str]:
        program = ["java", "-Xmx2g", "-cp", path, "StreamsBench", place.servers, workload]
        return [*program, ",".join(topics), out, name, str(cache), str(state)]

    return _watched_turn(place, name, STREAMS_CACHED if cache else STREAMS, command, profile=profile)


def quix_turn(place: Place, name: str, *, profile: bool = False) -> Turn:
    """A turn of quixstreams, in an environment that is made where it is not there. Raises as `_watched_turn` does."""
    python = place.work / "quix" / "bin" / "python"
    if not python.exists():
        venv.create(place.work / "quix", with_pip=True)
        requirement = str(ROOT / "bench" / "kafka" / "quix.txt")
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--requirement", requirement], check=True)

    def command(topics: Sequence[str], out: str, state: Path) -> list[str]:
        return [
            str(python),
            str(ROOT / "bench" / "kafka" / "quix_join.py"),
            place.servers,
            *topics,
            out,
            name,
            str(state),
        ]

    return _watched_turn(place, name, QUIX, command, profile=profile)


def _watched_turn(
    place: Place,
    name: str,
    contender: str,
    command: Callable[[Sequence[str], str, Path], list[str]],
    *,
    profile: bool,
) -> Turn:
    """A turn of a program that commits what it has read for group `name`, from its start until that is all input.

    Parameters
    ----------
    command : (input topics, output topic, folder of its state) -> the program, which ends when its input does.

    Raises
    ------
    RuntimeError : it died; the message ends with what it wrote last.
    """
    work = place.work / "work" / name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    out, log, state = place.output(name), work / "log.txt", work / "state"
    with place.inputs(name) as inputs, log.open("w") as errors:
        started = time.time()
        given = command(inputs.topics, out, state)
        process = subprocess.Popen(given, stdin=subprocess.PIPE, stdout=errors, stderr=errors)
        with Sampler(process.pid, parts=profile) as sampler, place.sampler() as broker:
            batches = _watched(process, Progress(place.servers, name, inputs), inputs, started)
            size = folder_bytes(state)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)
    if batches is None:
        raise RuntimeError(f"{contender} died in {name}:\n" + log.read_text()[-3000:])
    shutil.rmtree(work, ignore_errors=True)
    rated = rates(started, batches)
    parts = profiles.parts(sampler.usage, rated.half_time, rated.end_time) if profile else {}
    return Turn(contender, rated, tuple(batches), sampler.usage, size, {}, parts, broker=broker.usage)


def _watched(
    process: subprocess.Popen[bytes], progress: Progress, inputs: Inputs, started: float
) -> list[Batch] | None:
    """Steps of what the group has committed, until it is everything; None when the process ends first."""
    batches: list[Batch] = []
    done, last, readable = 0, started, sum(inputs.readable.values())
    while done < inputs.records or not progress.is_final():
        time.sleep(0.1)
        if process.poll() is not None:
            return None
        now, read = time.time(), progress.consumed()
        if read > done:
            batches.append(Batch(last, now, read - done))
            done, last = read, now
        if inputs.held and done == readable and progress.caught_up():
            # the first part has ended when what came of it has passed every step
            last = time.time()
            batches[-1] = replace(batches[-1], end=last)
            inputs.release()
    return [*batches[:-1], replace(batches[-1], end=max(last, progress.moved))]


def watersmeet_turn(place: Place, workload: str, name: str, *, profile: bool = False, root: Path = ROOT) -> Turn:
    """A turn of watersmeet, or of Spark alone, over the same data; the first word of `workload` is its name."""
    out, work = place.output(name), place.work / "work" / name
    with place.inputs(name) as inputs:
        data = Path(f"{place.servers} {out} {place.batch_records} {' '.join(inputs.topics)}")
        # where nothing is held back the query ends by itself
        with Follower(inputs, work) if inputs.held else nullcontext(), place.sampler() as broker:
            turn = spark_turn(f"kafka {workload}", data, work, profile=profile, root=root)
    return replace(turn, broker=broker.usage)


def one_turn_of_each_delivery(place: Place, number: int, *, profile: bool = False) -> Iterator[Turn]:
    """The join of two tables, exactly once and at least once; who is first changes from turn to turn.

    Raises
    ------
    RuntimeError : they do not leave the same table.
    """
    outcomes = {}
    for contender in (OURS, LEAST) if number % 2 == 0 else (LEAST, OURS):
        name = f"delivery-{number}-{'once' if contender == OURS else 'least'}"
        workload = "table_table" if contender == OURS else "table_table at_least_once"
        turn = replace(watersmeet_turn(place, workload, name, profile=profile), contender=contender)
        outcomes[contender] = place.outcome(name)
        if len(outcomes) > 1:
            turn = replace(turn, report={**turn.report, "agreed": agreement(outcomes, "table")})
        yield turn
