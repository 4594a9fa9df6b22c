"""TopologyTestDriver: records in, records out, no broker; the plan of production over bounded frames.

The driver runs in its own process. Where a level evaluates all functions, a read takes milliseconds; for the others
the driver asks Spark, a small query for each read. With a session of its own Spark runs the topology.

All inputs of a case form one source partition with the piping sequence as its offsets, so records are processed
in exactly the order in which they were piped. Of Spark's runs many independent cases share one, and each read runs
all records piped so far and returns what is new: a suite of hundreds of cases costs a run or two.

Example::

    import watersmeet as wm
    from watersmeet.testing import TopologyTestDriver

    spark = wm.session("tests")
    builder = wm.StreamsBuilder("orders")
    builder.table("orders", key="long", value=wm.json("customer string")).to("customers")
    driver = TopologyTestDriver(builder.build())
    driver.pipe("orders", key=1, value={"customer": "ann"}, ts=0)
    driver.read("customers")  # [TestRecord(key=1, value=Row(customer='ann'), ts=0, headers=None)]

The methods of Kafka Streams' own driver are there as well::

    orders = driver.create_input_topic("orders")
    customers = driver.create_output_topic("customers")
    orders.pipe_input(1, {"customer": "bob"}, ts=1)
    customers.read_value()  # Row(customer='bob')
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from types import TracebackType
from typing import Any, Literal

from watersmeet._engine.rows import TOPICS
from watersmeet._plan.logical import Plan, dropped_source, invalid_timestamp_source, raised_source, undecodable_source
from watersmeet._plan.nodes import SourceNode
from watersmeet._spark.functions import session
from watersmeet._spark.local import BoundedRun, Entry, Header, Inlet, LocalRun, NotInProcess, Piped, local
from watersmeet._spark.session import check_session
from watersmeet._worker.pack import YEAR_3000
from watersmeet.api.topology import Topology, check_topology
from watersmeet.errors import TopologyError
from watersmeet.hints import ByName, ByPlace, answering
from watersmeet.testing.stores import EntryStore, KeyValueStore, VersionedKeyValueStore, WindowStore, entries_of
from watersmeet.testing.topics import TestInputTopic, TestOutputTopic, TestRecord
from watersmeet.windows import Duration, duration_ms

__all__ = ["TestInputTopic", "TestOutputTopic", "TestRecord", "TopologyTestDriver"]


# Outputs that come back as inputs, in the test driver: behind all that was piped before, as in Kafka Streams'.

ROUNDS = 1_000
Records = Callable[[str, str], Sequence[Any]]
"""All records of an output, in a case."""


class Feedback:
    """The records that have come back so far.

    Parameters
    ----------
    plan : of the topology.

    Attributes
    ----------
    rounds : so often results may come back and cause others.
    """

    def __init__(self, plan: Plan) -> None:
        self.rounds = ROUNDS
        self._inputs = {source.place.topic: source.input for source in plan.sources if source.place.topic}
        fed = (sink for sink in plan.sinks if sink.target.feeds_back)
        # a topic that a pattern matches is piped into under its own name
        self._outputs = {sink.output: self._inputs.get(sink.target.topic, sink.target.topic) for sink in fed}
        self.done: Counter[tuple[str, str]] = Counter()

    def pipe(self, records: Records, pipe: Callable[..., None], cases: Sequence[str]) -> bool:
        """Pipe what has not come back yet; False: there is nothing.

        Parameters
        ----------
        records : of an output and a case, all of them.
        pipe : the driver's.
        """
        progress = False
        for case in cases:
            for output, to in self._outputs.items():
                results = records(output, case)
                for record in results[self.done[(case, output)] :]:
                    pipe(to, record.key, record.value, ts=record.ts, headers=record.headers or (), case=case)
                    progress = True
                self.done[(case, output)] = len(results)
        return progress

    def endless(self) -> TopologyError:
        """The error of results that go on coming back."""
        return TopologyError(
            f"feedback=True brings results back without end: after {self.rounds} rounds new ones still come.",
            given=", ".join(f"output {output!r} as input {to!r}" for output, to in self._outputs.items()),
            hint="Filter what is written with feedback=True, so that a record at some point causes none.",
        )


@answering
class TopologyTestDriver:
    """Runs a topology over piped records.

    Parameters
    ----------
    topology : the topology.
    spark : the session that is to run the topology. None: the driver runs it in its own process, and asks the active
        session for functions that a level does not evaluate; `why_spark` names them.
    shards : shards of each operator.
    initial_wall_clock_ms : what the driver's wall clock shows first, in ms since 1970.
    """

    __test__ = False

    def __init__(
        self, topology: Topology, spark: Any = None, *, shards: int = 2, initial_wall_clock_ms: int = 0
    ) -> None:
        check_topology(topology, "TopologyTestDriver({})")
        if spark is not None:
            check_session(spark, "TopologyTestDriver(topology, spark)")
        count: object = shards
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise TopologyError(
                f"The number of shards must be 1 or more: shards={shards!r}.", hint="Leave it out, or shards=2."
            )
        headers = topology.plan.headers
        self._feedback = Feedback(topology.plan)
        self._outputs: dict[str, list[str]] = {}
        for sink in topology.plan.sinks:
            self._outputs.setdefault(sink.output, []).append(sink.name)
        self._inlets = _inlets(topology.plan)
        physical = topology.physical.with_one_domain().with_wall_clock(initial_wall_clock_ms)
        self._why_spark = ""
        self._run: BoundedRun | LocalRun
        ready = (
            NotInProcess("a session was given")
            if spark is not None
            else local(session(), physical, shards=shards, headers=headers)
        )
        if isinstance(ready, NotInProcess):
            self._why_spark = ready.why
            _refuse_wall(topology, self._why_spark)
            self._run = BoundedRun(spark or session(), physical, shards, headers)
        else:
            self._run, self._why_spark = LocalRun(ready), ready.asked
        self._cases: dict[str, list[Piped]] = defaultdict(list)
        self._ran: Counter[str] = Counter()
        self._read_positions: Counter[tuple[str, str]] = Counter()
        self._results: dict[tuple[int, str], list[Any]] | None = None
        self._wall_clock_ms, self._by_wall = initial_wall_clock_ms, physical.by_wall
        self._closed = False

    # -- records ---------------------------------------------------------------------------------------------

    def pipe(
        self, input: str, key: Any, value: Any, *, ts: int, headers: Sequence[Header] = (), case: str = ""
    ) -> None:
        """Put one record behind those already piped.

        Parameters
        ----------
        input : name of an input of the topology, or of a topic that a `TopicPattern` matches.
        key, value : Python values of its types; None for null. A struct is a dict, a Row or a tuple; an int does for
            a double; a timestamp has a zone. The bytes of a topic's key or value may be given instead, and are
            decoded as in production.
        ts : event time in ms.
        headers : (name, bytes or None) pairs.
        case : name of an independent case.

        Raises
        ------
        TopologyError : unknown input, or the record is not of its types; it is then left out.
        SourceError : bytes are not of the input's format, and its policy is to fail.
        """
        self._check_open()
        self._put(input, key, value, ts=ts, headers=headers, case=case)

    def _put(
        self,
        input: str,
        key: Any,
        value: Any,
        *,
        ts: int,
        headers: Sequence[Header],
        case: str,
        zoned: bool = True,
    ) -> None:
        inlet, before = self._inlet(input), self._cases[case]
        _warn_of_time(input, ts)
        record = inlet.record(key, value, ts, headers, len(before), input, zoned=zoned)
        before.append(inlet.of_topic(input, record))
        self._results = None

    def _inlet(self, name: str) -> Inlet:
        inlet = self._inlets.get(name)
        if inlet is None or inlet.source.origin.pattern is not None:
            by_pattern = (
                candidate for candidate in self._inlets.values() if candidate.source.origin.pattern is not None
            )
            inlet = next((candidate for candidate in by_pattern if candidate.source.origin.reads(name)), None)
        if inlet is None:
            raise TopologyError(f"Unknown input {name!r}.", hint=_listing("Inputs", _names_taken(self._inlets)))
        return inlet

    def read(self, output: str, *, case: str = "", limit: int | None = None) -> list[TestRecord]:
        """The records that an output got since the last read, in order.

        Parameters
        ----------
        output : name of an output of the topology.
        case : of which case.
        limit : at most so many; the others are for the next read.

        Raises
        ------
        TopologyError : unknown output.
        FunctionError : a function of the topology raises; the error has the user's own line. The records piped since
            the last read that succeeded are then taken back, so that the driver goes on as if they had not been.
        """
        records = self._records(output, case)
        start = self._read_positions[(case, output)]
        end = len(records) if limit is None else min(start + limit, len(records))
        self._read_positions[(case, output)] = end
        return ByPlace(self._test_records(records[start:end]), f"driver.read({output!r})")

    def queue_size(self, output: str, *, case: str = "") -> int:
        """How many records of an output have not been read yet."""
        return len(self._records(output, case)) - self._read_positions[(case, output)]

    @property
    def runs_in(self) -> Literal["process", "spark"]:
        """Where records are processed: in this process, or by Spark in a run for each read, as with a session."""
        return "process" if isinstance(self._run, LocalRun) else "spark"

    @property
    def why_spark(self) -> str:
        """What Spark evaluates, and why; empty where it evaluates nothing."""
        return self._why_spark

    @property
    def drops(self) -> dict[tuple[str, str], int]:
        """Records dropped in the last run, by (operator, reason), over all cases."""
        return ByName(dict(self._run.drops), "driver.drops", "number of drops by (operator, reason)")

    @property
    def counters(self) -> dict[str, dict[str, int]]:
        """Counters of processors (`context.metrics.count`), by operator and name, over all cases."""
        return self._run.counts.counters()

    def get_store(
        self, name: str, *, case: str = ""
    ) -> KeyValueStore | VersionedKeyValueStore | WindowStore | EntryStore:
        """A store, to be read: one with `get`, `range` and `all`, or of windows with `fetch` and `all`.

        That of a versioned table also has `get(key, as_of=...)`. Of a processor's map or list `get(key)` gives the
        key's dictionary or list.

        Parameters
        ----------
        name : as `store=` names it, or as `describe` does.
        case : of which case.

        Raises
        ------
        TopologyError : unknown store, or Spark runs the topology: then its stores cannot be read.
        """
        self._check_open()
        run = self._run
        if not isinstance(run, LocalRun):
            raise TopologyError(
                "Only a driver in this process has stores to read, and this one runs on Spark.",
                given=f"get_store({name!r}); {self._why_spark}",
                hint="Give the driver no session: TopologyTestDriver(topology).",
            )
        stores = run.topology.stores
        if name not in stores:
            raise TopologyError(f"Unknown store {name!r}.", hint=_listing("Stores", stores))
        store = stores[name]

        def read() -> list[Entry]:
            self._check_open()
            self._all_results()
            return run.entries(store, [list(self._cases).index(case)])[0] if case in self._cases else []

        if store.of_entries:
            return entries_of(store, read)
        if store.versioned:
            return VersionedKeyValueStore(store, read)
        return WindowStore(store, read) if store.times else KeyValueStore(store, read)

    def _all_results(self) -> Mapping[tuple[int, str], list[Any]]:
        if self._results is None:
            self._results = self._run_all()
        return self._results

    def _records(self, output: str, case: str) -> list[Any]:
        self._check_open()
        if output not in self._outputs:
            raise TopologyError(f"Unknown output {output!r}.", hint=_listing("Outputs", self._outputs))
        return self._select_results(self._all_results(), output, case)

    def _select_results(self, results: Mapping[tuple[int, str], list[Any]], output: str, case: str) -> list[Any]:
        if case not in self._cases:
            if case and self._cases:
                hint = f"Cases: {', '.join(map(repr, self._cases))}."
                raise TopologyError(f"No record has been piped with case={case!r}.", hint=hint)
            return []
        number = list(self._cases).index(case)
        parts = [results.get((number, name), []) for name in self._outputs[output]]
        # those of several sinks of a topic, in its one order
        return parts[0] if len(parts) == 1 else sorted(chain(*parts), key=attrgetter("position"))

    def _test_records(self, records: Sequence[Any]) -> list[TestRecord]:
        return [TestRecord(r.key, r.value, r.ts, r.headers, r.step, r.position, r.partition) for r in records]

    def _run_all(self) -> dict[tuple[int, str], list[Any]]:
        results = self._run_new()
        for _ in range(self._feedback.rounds):
            previous, reader = Counter(self._feedback.done), partial(self._records_of, results)
            if not self._feedback.pipe(reader, partial(self._put, zoned=False), list(self._cases)):
                return results
            try:
                results = self._run_new()
            except Exception:
                self._feedback.done = previous
                raise
        raise self._feedback.endless()

    def _records_of(self, results: Mapping[tuple[int, str], list[Any]], output: str, case: str) -> list[TestRecord]:
        return self._test_records(self._select_results(results, output, case))

    def _run_new(self) -> dict[tuple[int, str], list[Any]]:
        TOPICS.set({each.number: each.topics for each in self._inlets.values() if each.topics})
        try:
            results = self._run.run(list(self._cases.values()))
        except Exception as error:
            new = sum(len(records) - self._ran[case] for case, records in self._cases.items())
            error.add_note(f"The {new} records piped since the last read that succeeded have been taken back.")
            for case, records in self._cases.items():
                del records[self._ran[case] :]
            raise
        self._ran = Counter({case: len(records) for case, records in self._cases.items()})
        for inlet in self._inlets.values():
            inlet.warn()
        return results

    # -- as Kafka Streams names it ---------------------------------------------------------------------------

    def create_input_topic(
        self, topic: str, *, start_ts: int | None = None, auto_advance: Duration = "0 ms", case: str = ""
    ) -> TestInputTopic:
        """An input, to pipe records into.

        Parameters
        ----------
        topic : name of an input of the topology, or of a topic that a `TopicPattern` matches.
        start_ts : event time in ms of records that are piped without one; the driver's wall clock if None.
        auto_advance : how much later each further one of them is.
        case : name of an independent case.
        """
        self._inlet(topic)
        start = self._wall_clock_ms if start_ts is None else start_ts
        if type(start) is not int:
            raise TopologyError(f"start_ts= takes a time in ms since 1970: start_ts={start!r:.80}.", hint="start_ts=0")
        return TestInputTopic(self, topic, case, start, duration_ms(auto_advance, "auto_advance"))

    def create_output_topic(self, topic: str, *, case: str = "") -> TestOutputTopic:
        """An output, to read records from.

        Parameters
        ----------
        topic : name of an output of the topology.
        case : name of an independent case.
        """
        if topic not in self._outputs:
            raise TopologyError(f"Unknown output {topic!r}.", hint=_listing("Outputs", self._outputs))
        return TestOutputTopic(self, topic, case)

    def advance_wall_clock_time(self, advance: Duration) -> None:
        """Move the driver's wall clock: timers of it that are due then fire, in all cases.

        Later input topics take their first timestamp from it. All else goes by event time alone, as in Kafka Streams.

        Raises
        ------
        FunctionError : a processor raises, as in `read`; the clock stays then.
        """
        self._check_open()
        wall = self._wall_clock_ms + duration_ms(advance, "advance")
        if wall < self._wall_clock_ms:
            raise TopologyError(f"The wall clock moves forward: advance={advance!r}.", hint='advance="5 minutes"')
        if self._by_wall and isinstance(self._run, LocalRun):
            self._all_results()
            self._results = self._run.show_wall_clock(wall)
        self._wall_clock_ms = wall

    def close(self) -> None:
        """Let go of all records; the driver cannot be used any more."""
        self._closed = True
        self._cases.clear()
        self._results = None

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise TopologyError("The test driver is closed.", hint="Make another: TopologyTestDriver(topology).")


_SECONDS_NOW = range(1_500_000_000, 2_500_000_000)
"""Times of these years in seconds, which tests seldom have as milliseconds, and then as whole seconds."""


def _warn_of_time(input: str, ts: Any) -> None:
    """Warn of a time that a topic would not take, or that looks like one of another unit."""
    if not isinstance(ts, int):
        return
    if ts < 0:
        where, cure = f"before 1970, and is dropped: ts={ts}", "Give ms since 1970: ts=0, or more"
    elif ts in _SECONDS_NOW and ts % 1000:
        where, cure = f"in 1970: ts={ts} is read as milliseconds", f"If these are seconds, write ts={ts * 1000}"
    elif ts >= YEAR_3000:
        where = f"beyond the year 3000: ts={ts} is read as milliseconds"
        cure = f"If these are microseconds, write ts={ts // 1000}"
    else:
        return
    warnings.warn(f"A record for {input!r} has a time {where}.\nHint: {cure}.", stacklevel=5)


def _inlets(plan: Plan) -> dict[str, Inlet]:
    """The inputs that records are piped into, by their names."""
    ends_later = dropped_source(plan) is not None

    def keeps(source: SourceNode) -> bool:
        later = (raised_source(plan, source), invalid_timestamp_source(plan, source))
        return ends_later or any(node is not None for node in later)

    return {
        s.input: Inlet(n, s, undecodable_source(plan, s), keeps(s))
        for n, s in enumerate(plan.sources)
        if s.dead_letters_of is None
    }


def _names_taken(inlets: Mapping[str, Inlet]) -> list[str]:
    """The names of inputs; of one with a pattern, the names that it takes."""
    patterns = {name: inlet.source.origin.pattern for name, inlet in inlets.items()}
    return [name if pattern is None else f"topics that match {pattern!r}" for name, pattern in patterns.items()]


def _refuse_wall(topology: Topology, reason: str) -> None:
    """Raise where a run by Spark, which is one batch of all records, would have no place for what the clock shows."""
    if topology.physical.by_wall:
        raise TopologyError(
            "Timers by the wall clock need a driver in this process, and this one runs on Spark.",
            given=f"TopologyTestDriver(topology, ...); {reason}",
            hint="Give the driver no session: TopologyTestDriver(topology).",
        )


def _listing(subject: str, names: Iterable[str]) -> str:
    return f"{subject}: {', '.join(names) or 'none'}."
