"""Starting a topology as one streaming query, and what the user holds of it afterwards.

Owns the order of things at a start: settings, the checkpoint's facts (a changed topology is refused before
the first batch), sources, levels, sinks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from millpond._engine.blob import VERSION as BLOB_VERSION
from millpond._engine.manifest import VERSION as STATE_VERSION
from millpond._plan.explain import explain
from millpond._plan.physical import Physical
from millpond._plan.record_cache import with_record_cache
from millpond._spark import batches, claims, failures, idle, interrupts, settings, silence, sinks, sources
from millpond._spark import checkpoint as checkpoints
from millpond._spark.compile import Compiled, Input, Settings, compile_plan
from millpond._spark.counting import PREFIX, counted
from millpond._spark.drain import LOOK_SECONDS, Gate, check_threads, is_unfinished
from millpond._spark.leaving import can_leave
from millpond._spark.processor import DEFAULT_CACHE
from millpond._spark.progress import DropCounts, Drops
from millpond._spark.start_options import StartOptions
from millpond._spark.wire import metric_names, spread_labels
from millpond.errors import ConfigError
from millpond.options import DeadLetter, Topic, TopicSink


def start(topology: Physical, spark: SparkSession, checkpoint: str, options: StartOptions) -> Query:
    """Start the topology; see `Topology.start`."""
    settings.check(spark)
    _refuse_dead_letters(topology)
    _refuse_idle_time(topology, options)
    sinks.check_writers(spark, [sink.target for sink in topology.plan.sinks])
    return _launch(topology, spark, checkpoint, options, options.trigger_options)


def _launch(
    topology: Physical, spark: SparkSession, checkpoint: str, options: StartOptions, trigger: dict[str, Any]
) -> Query:
    claim = claims.take(checkpoint)
    try:
        return _started(topology, spark, checkpoint, options, trigger, claim)
    except BaseException as failure:
        claim.release()
        found = failures.of_start(failure, checkpoint) if isinstance(failure, Exception) else failure
        if found is failure:
            raise
        # what Spark says may quote a setting
        raise found from None


def _started(
    topology: Physical,
    spark: SparkSession,
    checkpoint: str,
    options: StartOptions,
    trigger: dict[str, Any],
    claim: claims.Claim,
) -> Query:
    planned = batches.last_planned(spark, checkpoint, topology.levels)
    shards, tasks = _layout(spark, checkpoint, options)
    facts = _facts(spark, topology, options, shards, tasks)
    place = checkpoints.verify_or_create(
        spark, checkpoint, facts, allow_partition_change=options.allow_partition_change
    )
    claim.secure()
    gate = Gate()
    with settings.query_settings(spark, tasks, checkpoint):
        compiled, metrics = _compiled(spark, topology, options, facts, checkpoint, begun=planned >= 0)
        streaming = sinks.start_writer(
            compiled,
            [(sink, sink.target) for sink in topology.plan.sinks],
            kafka=options.kafka,
            query_name=options.name,
            checkpoint=checkpoint,
            trigger=trigger,
            identity=place.identity(topology.plan.application),
            gate=gate,
            written=sinks.Written(planned, 0 if place.created else tasks),
        )
    claim.query = streaming
    # a query that is to run one batch takes the one that was planned last, where that was not committed
    rest = partial(_launch, topology, spark, checkpoint, options, {"once": True})
    unfinished = partial(is_unfinished, spark, checkpoint)
    counts = DropCounts(streaming, metrics)
    return Query(streaming, counts, checkpoint, claim, gate, lambda: rest() if unfinished() else None, spark)


def _compiled(
    spark: SparkSession,
    topology: Physical,
    options: StartOptions,
    facts: checkpoints.Facts,
    checkpoint: str,
    *,
    begun: bool,
) -> tuple[Compiled, tuple[tuple[str, str], ...]]:
    """The frame that the sinks read, and what its metrics count."""
    physical = _with_known_domains(topology, facts.partitions).with_idle_time(options.idle_after_ms)
    physical = with_record_cache(physical) if options.record_cache else physical
    layout = Settings(
        labels=spread_labels(spark, physical, facts.shards, facts.tasks),
        tasks=facts.tasks,
        cache_root=options.local_cache or DEFAULT_CACHE,
        headers=any(isinstance(s.origin, Topic) and s.origin.headers for s in topology.plan.sources),
        cases=False,
        observe=lambda frame, name, counts: counted(frame, PREFIX + name, counts),
        leaving=can_leave(topology.plan, topology.plan.sinks),
        numbered=any(not isinstance(sink.target, TopicSink) for sink in topology.plan.sinks),
    )
    scans = sources.scan(
        spark, topology.plan.sources, options.kafka, checkpoint, begun=begun, partitions=facts.partitions
    )
    inputs = [Input(s.frame, frozenset(s.roots), s.order, s.plain, s.bare) for s in scans]
    clock = idle.wall_clock(spark) if options.idle_after_ms else None
    return compile_plan(physical, inputs, layout, clock), metric_names(physical)


class Query:
    """A running topology: Spark's StreamingQuery, with what millpond knows besides.

    Everything of `pyspark.sql.streaming.StreamingQuery` (id, isActive, lastProgress, ...) is reached through it
    unchanged. What makes it fail is raised as an error of millpond where it is one, or comes from a broken
    checkpoint (`CorruptData`), a record that cannot be read (`SourceError`), a Kafka sink (`SinkError`) or a second
    query (`ConfigError`); else as Spark's.
    """

    def __init__(
        self,
        streaming: StreamingQuery,
        counts: DropCounts,
        checkpoint: str,
        claim: claims.Claim,
        gate: Gate,
        rest: Callable[[], Query | None],
        spark: SparkSession,
    ) -> None:
        self.streaming = streaming
        self._claim = claim
        self._counts = counts
        self._checkpoint = checkpoint
        self._gate = gate
        self._rest = rest
        self._silence = silence.Silence(streaming)
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"Query has no attribute {name!r}")
        return getattr(self.streaming, name)

    def __dir__(self) -> list[str]:
        own = [name for name in super().__dir__() if not name.startswith("_") or name.startswith("__")]
        return sorted({*own, *(name for name in dir(self.streaming) if not name.startswith("_"))})

    def __repr__(self) -> str:
        state = "active" if self.streaming.isActive else "ended"
        return f"Query({self.streaming.name!r}, {state}, checkpoint={self._checkpoint!r})"

    @property
    def drops(self) -> Drops:
        """Dropped records since this start, by (operator, reason): nothing vanishes silently."""
        return self._counts.total()

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait until the query ends, `timeout` seconds at most; whether it has ended where one is given.

        Ctrl-C drains the query and returns; a second one stops it.
        """
        try:
            with self._named():
                return interrupts.wait(self.streaming, timeout, self.drain, self.stop)
        finally:
            # a query that is drained gives its claim back when its batch is committed
            if self._claim.ended and not self._gate.closed:
                self._claim.release_at_end()

    def processAllAvailable(self) -> None:
        """Wait until all is processed that the sources have now."""
        with self._named():
            self.streaming.processAllAvailable()

    def exception(self) -> Exception | None:
        """Why the query ended by itself; None while it runs, or where it was stopped."""
        failure: Any = self.streaming.exception()
        return None if failure is None else failures.named(failure, self._checkpoint)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except StreamingQueryException as failure:
            found = failures.named(failure, self._checkpoint)
            if found is failure:
                raise
            # what Spark says of a setting may quote it
            raise found from (None if isinstance(found, ConfigError) else failure)

    def stop(self) -> None:
        """Stop the query; the batch under way is computed again at the next start.

        When it returns nothing of the query runs any more, but for what waits for a Kafka that does not answer: that
        ends in the background, which a warning says, and keeps the checkpoint until then.
        """
        self._silence.close()
        self._silence.stop(self._spark)
        self._claim.release_at_end()
        self._counts.close()

    def drain(self, timeout: float | None = None) -> bool:
        """Stop the query when the batch under way is written and committed: the next start runs nothing again.

        `stop` breaks that batch off instead, which loses no record either, but the next start has it to do again.
        A query that has nothing to do, or that Kafka does not answer, stops at once; one that has ended already
        stays as it is. Where one Spark writer is the only sink (`Writer`), Spark leaves no place to stop behind a
        batch: the batch is broken off and run again to its end here.

        Parameters
        ----------
        timeout : seconds to wait, the commit of a batch that is written apart; None: as long as it takes.

        Returns
        -------
        bool : whether it has stopped; False when time was up before: it stops behind its batch all the same.

        Raises
        ------
        MillpondError, StreamingQueryException : the query has failed, now or before.
        ConfigError : PySpark was told not to keep a thread of the JVM for each of Python's.
        """
        check_threads()
        self._gate.close(self.streaming.stop)
        with self._named():
            if not self._drained(None if timeout is None else time.monotonic() + timeout):
                return False
        self._claim.release_at_end()
        self._counts.close()
        rest = self._rest()
        if rest is not None:
            rest.awaitTermination()
            rest.stop()
        return True

    def _drained(self, until: float | None) -> bool:
        """Whether the query has ended behind its batch, before it was too late."""
        waits = False
        while not self.streaming.awaitTermination(LOOK_SECONDS):  # type: ignore[arg-type]
            if until is not None and time.monotonic() > until:
                return False
            if not self.streaming.status["isTriggerActive"] or not self._gate.stands or self._silence.lasts:
                waits = not self._silence.stop(self._spark)
        if not waits:
            # Spark says that it has ended as soon as that is decided; the batch's commit may be to come
            self.streaming.awaitTermination()
        return True


def _refuse_dead_letters(topology: Physical) -> None:
    """Dead-letter topics can be named, but nothing writes them yet: better refused than only skipped."""
    for source in topology.plan.sources:
        policy = getattr(source.origin, "on_undecodable", None)
        if isinstance(policy, DeadLetter):
            raise ConfigError(
                "Dead-letter topics are not written yet.",
                given=f"on_undecodable={policy!r} of {source.name!r}",
                hint='Take "skip" (left out and counted in query.drops) or "fail".',
            )


def _refuse_idle_time(topology: Physical, options: StartOptions) -> None:
    if options.idle_after_ms and not topology.timed:
        raise ConfigError(
            "Nothing in this topology waits for time.",
            given=f"idle_after={options.idle_after!r}",
            hint="Leave it out: it is for windowed joins of streams.",
        )


def _facts(
    spark: SparkSession, topology: Physical, options: StartOptions, shards: int, tasks: int
) -> checkpoints.Facts:
    return checkpoints.Facts(
        topology=_text(topology, options),
        generation=topology.plan.generation.value,
        shards=shards,
        tasks=tasks,
        formats={"blob": BLOB_VERSION, "state": STATE_VERSION},
        partitions=_partitions(spark, topology, options),
    )


def _with_known_domains(topology: Physical, partitions: Mapping[str, int]) -> Physical:
    """The plan with one time for all partitions wherever an operator's inputs are partitioned differently.

    Law 3: partitions have times of their own only where those of all inputs match. A DataFrame is one partition.
    """
    physical, plan = topology, topology.plan
    for operator, kept in topology.timed:
        if not kept.domains:
            continue
        sources = [s for s in plan.sources if s.name in plan.ancestors[operator.node].union(kept.told_by)]
        counts = {partitions.get(s.origin.name) if isinstance(s.origin, Topic) else 1 for s in sources}
        if len(counts) > 1:
            physical = physical.with_one_domain(operator.node)
    return physical


def _layout(spark: SparkSession, checkpoint: str, options: StartOptions) -> tuple[int, int]:
    """(shards, tasks): as given, else as the checkpoint has them, else the defaults."""
    stored = checkpoints.read_facts(spark, checkpoint)
    tasks = options.tasks or (stored.tasks if stored else spark.sparkContext.defaultParallelism)
    shards = options.shards or (stored.shards if stored else 2 * tasks)
    if shards < tasks:
        raise ConfigError(
            "An exchange has at most as many tasks as an operator has shards.",
            given=f"shards={shards}, tasks={tasks}",
            hint="Give more shards, or fewer tasks.",
        )
    return shards, tasks


def _text(topology: Physical, options: StartOptions) -> str:
    origins = [f"  {s.name}: {sources.describe_origin(s.origin)}" for s in topology.plan.sources]
    # The clock is a source of the query, which must find it again; how long a rest is may change.
    origins += ["  the wall clock (idle_after)"] if options.idle_after_ms else []
    return explain(topology) + "Inputs:\n" + "\n".join(origins) + "\n"


def _partitions(spark: SparkSession, topology: Physical, options: StartOptions) -> dict[str, int]:
    topics = sorted({s.origin.name for s in topology.plan.sources if isinstance(s.origin, Topic)})
    if not topics or options.kafka is None:
        return {}
    return sources.partition_counts(spark, topics, options.kafka)
