"""Starting a topology as one streaming query.

Owns the order of things at a start: settings, the lease, the checkpoint's facts (a changed topology is refused before
the first batch), sources, levels, sinks; what a start records is recorded last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from watersmeet._engine.rows.blob import VERSION as BLOB_VERSION
from watersmeet._engine.state.manifest import VERSION as STATE_VERSION
from watersmeet._plan.change.change import Change
from watersmeet._plan.change.described import described
from watersmeet._plan.dead_letters import dropped_source, without_dead_letters
from watersmeet._plan.domains import with_known_domains
from watersmeet._plan.explain import explain
from watersmeet._plan.functions_in_state import functions_in_state
from watersmeet._plan.nodes import SourceNode
from watersmeet._plan.operators.lending import lent_as_recorded
from watersmeet._plan.physical import Physical
from watersmeet._plan.record_cache import with_record_cache
from watersmeet._plan.rewrite import rewrite
from watersmeet._spark.batches.planned_batches import limited, planning
from watersmeet._spark.batches.synchronized_inputs import SynchronizedInputs
from watersmeet._spark.checkpoint import batches
from watersmeet._spark.checkpoint.checkpoint import Checkpoint, CheckpointFiles, look, not_started
from watersmeet._spark.checkpoint.facts import CheckpointFacts
from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.checkpoint.pattern_topics import TopicNumbers
from watersmeet._spark.checkpoint.plans import Plans
from watersmeet._spark.checkpoint.topic_ids import TopicIds
from watersmeet._spark.dataflow.compile import CompiledFrame, compile_plan
from watersmeet._spark.dataflow.layout import SparkLayout
from watersmeet._spark.dataflow.processor import DEFAULT_CACHE
from watersmeet._spark.fencing.records import may_be_shared
from watersmeet._spark.formats import recorded_schemas as settled
from watersmeet._spark.functions.function_texts import function_texts
from watersmeet._spark.journal.writer import JournalWriter
from watersmeet._spark.metrics import log_line
from watersmeet._spark.metrics.lifetime_totals import LifetimeTotals
from watersmeet._spark.metrics.query_facts import QueryFacts
from watersmeet._spark.metrics.totals import Counted, Totals
from watersmeet._spark.metrics.view import MetricsView
from watersmeet._spark.query import failures, leases, policies, silence
from watersmeet._spark.query.drain import is_unfinished
from watersmeet._spark.query.handover import Handover, check_change
from watersmeet._spark.query.progress import BatchCounts
from watersmeet._spark.query.query import Query
from watersmeet._spark.query.replaced_tables import asked_replacement, replaced_rows, with_counts
from watersmeet._spark.query.start_options import StartOptions, layout_of, refuse_idle_time
from watersmeet._spark.session import settings
from watersmeet._spark.session.check import check_session
from watersmeet._spark.session.counting import PREFIX, WRITTEN, counted
from watersmeet._spark.sinks import sinks
from watersmeet._spark.sinks.barrier import StopBarrier
from watersmeet._spark.sources import bootstrap, sources, wall_clock
from watersmeet._spark.stores.lent_tables import placed, placed_anew
from watersmeet._worker.wire.wire import metric_names, spread_labels
from watersmeet._worker.writers.driver_commit import Written


def start(topology: Physical, spark: SparkSession, checkpoint: str, options: StartOptions) -> Query:
    """Start the topology; see `Topology.start`."""
    check_session(spark, "topology.start(spark, checkpoint=...)")
    settings.check(spark)
    refuse_idle_time(topology, options)
    sinks.check_writers(spark, topology.plan)
    shown = MetricsView(options.metrics_address, topology.plan.application, progress=options.progress)
    try:
        query = _Start(topology, Folder(spark, checkpoint), options).launched(options.trigger_options)
    except BaseException:
        shown.close()
        raise
    query.show(shown)
    return query


def plan_change(topology: Physical, spark: SparkSession, checkpoint: str, options: StartOptions) -> Change:
    """The effects of a start with `evolve=True`; nothing is done. See `Topology.start`."""
    return _Start(topology, Folder(spark, checkpoint), options).planned_change()


class _Meanwhile(Exception):
    """Somebody has written into the checkpoint since this start looked at it, before it had the lease."""


@dataclass(frozen=True)
class _Start:
    """One start.

    Parameters
    ----------
    topology : what is started.
    folder : the checkpoint's.
    options : as they were given.
    """

    topology: Physical
    folder: Folder
    options: StartOptions

    @property
    def spark(self) -> SparkSession:
        return self.folder.spark

    def launched(self, trigger: dict[str, Any]) -> Query:
        """The query, upon a checkpoint that no other one has."""
        lease: leases.MachineLease | None = None
        try:
            lease = leases.take(self.folder.path, self.folder)
            with suppress(_Meanwhile):
                return self._begun(trigger, lease)
            # what is there now was not when this start looked; from here on nobody else writes
            return self._begun(trigger, lease)
        except BaseException as failure:
            if lease is not None:
                lease.release_at_end()
            found = failures.of_start(failure, self.folder.path) if isinstance(failure, Exception) else failure
            if found is failure:
                raise
            # what Spark says may quote a setting
            raise found from None

    def _begun(self, trigger: dict[str, Any], lease: leases.MachineLease, before: Totals | None = None) -> Query:
        found = look(self.folder)
        options = self.options
        effects: dict[str, Any] = {"record_cache": options.record_cache, "idle_after_ms": options.idle_after_ms}
        effects["session"] = settings.effects(self.spark)
        effects |= self._schemas(found) | policies.recorded(self.topology.plan)
        effects |= wall_clock.begun(self.topology, found.binding.effects if found.binding else {})
        place = self._place(found, effects)
        logs = found.place
        levels, patterns = 0 if place.change else self.topology.levels, bool(self.topology.plan.patterns)
        planned = batches.last_planned(logs, levels, patterns=patterns)
        if place.change is not None:
            check_change(place, place.change, unfinished=is_unfinished(logs))
        elif found.binding and found.binding.effects != place.facts.effects and is_unfinished(logs):
            # its replay must write the same bytes
            old = self._place(found, found.binding.effects)
            before = self._finished(old, planned, lease)
            if before is not None:
                return self._begun(trigger, lease, before)
            found = look(self.folder)
            place = self._place(found, effects)
        barrier = self._barrier(place, lease, self._topics.watch(place.facts))
        facts = QueryFacts(self.folder, barrier, lambda: lease.epoch, lease.check)
        streaming, metrics, kept = self._running(place, planned, trigger, lease, barrier, found)
        # a query that is to run one batch takes the one that was planned last, where that was not committed
        rest, unfinished = partial(self.launched, {"once": True}), partial(is_unfinished, place.place)
        counts = BatchCounts(streaming, metrics, before, kept)
        running = (streaming, counts, self.folder.path, lease, barrier, lambda: rest() if unfinished() else None)
        together = self._together.begin(self.spark, streaming, trigger, lambda: kept.records_limit)
        return Query(*running, self.spark, self.topology, self.options.kafka, facts, together)

    def _secure(self, lease: leases.MachineLease, found: CheckpointFiles | None) -> None:
        """Have the lease, before anything is written."""
        if lease.secure(make=True) and found is not None and look(self.folder) != found:
            raise _Meanwhile

    def _record(self, place: Checkpoint, lease: leases.MachineLease, found: CheckpointFiles | None) -> None:
        # a single writer of Spark's has not asked for the lease
        self._secure(lease, found)
        lease.check()
        (place.anew() if self._is_shared(place, lease) else place).record(lease.epoch)

    @staticmethod
    def _is_shared(place: Checkpoint, lease: leases.MachineLease) -> bool:
        return may_be_shared(has_lock=lease.has_lock, is_fresh=lease.is_fresh, epoch=place.epoch) and not place.created

    def planned_change(self) -> Change:
        """The effects of the topology on the checkpoint.

        Raises
        ------
        ConfigError : nothing has been started upon it.
        """
        found, options = look(self.folder), self.options
        if found.binding is None:
            raise not_started(self.folder)
        recorded = found.binding.partitions if options.kafka is None else None
        facts = self._facts(found, found.binding.effects, recorded)
        replaced = asked_replacement(self.topology, options.replace or (), found, facts)
        anew = replaced.roles if replaced else ()
        kept = () if options.allow_changed_functions else functions_in_state(self.topology, anew)
        change = found.planned_change(facts, kept, replaced)
        if change.replacement is None or not change.possible:
            return change
        place = placed_anew(found.changed(facts, change), self.topology, found)
        with settings.query_settings(self.spark, facts.tasks, self.folder.path, facts.effects["session"]):
            last = batches.last_finished(found.place)
            return with_counts(change, Handover(self.topology, found.place, found.binding, place, last).counted())

    def _schemas(self, found: CheckpointFiles) -> dict[str, Any]:
        """The fixed schemas of formats with a registry, if there are any."""
        known = found.binding.effects.get("schemas", {}) if found.binding else {}
        made = settled.settle(self.topology.plan.sources, self.topology.plan.sinks, known)
        return {"schemas": made} if made else {}

    def _finished(self, place: Checkpoint, planned: int, lease: leases.MachineLease) -> Totals | None:
        """Finish the batch that was not; what it counts. None: a record fails it, and may not under other policies."""
        query, metrics, kept = self._running(place, planned, {"once": True}, lease, self._barrier(place, lease), None)
        waiting = silence.Silence(query)
        try:
            failures.ended(query, self.folder.path)
            passed = True
        except Exception as failure:
            passed = False
            if not policies.may_run(self.topology, self.options.kafka, place, planned, failure):
                raise
        finally:
            waiting.close()
            waiting.stop(self.spark)
        # the lease is that of the query to come
        lease.query = None
        if not passed:
            silence.LOG.warning(policies.PASSES)
            return None
        counts = BatchCounts(query, metrics, kept=kept)
        counts.close()
        return counts.totals()

    def _place(self, found: CheckpointFiles, effects: Mapping[str, Any]) -> Checkpoint:
        """The checkpoint, if it fits; it is not written to."""
        facts = self._facts(found, effects)
        replaced = asked_replacement(self.topology, self.options.replace or (), found, facts)
        every = functions_in_state(self.topology)
        kept = functions_in_state(self.topology, replaced.roles) if replaced else every
        place = found.fitting(
            facts,
            kept=kept,
            anew=every - kept,
            replaced=replaced,
            allow_partition_change=self.options.allow_partition_change,
            allow_changed_functions=self.options.allow_changed_functions,
            allow_recreated_topics=self.options.allow_recreated_topics,
            evolve=self.options.evolve,
        )
        return placed_anew(place, self.topology, found)

    def _running(
        self,
        place: Checkpoint,
        planned: int,
        trigger: dict[str, Any],
        lease: leases.MachineLease,
        barrier: StopBarrier,
        found: CheckpointFiles | None,
    ) -> tuple[StreamingQuery, Counted, LifetimeTotals]:
        """The query that runs, what its metrics count, and what keeps that."""
        facts, known, kafka = place.facts, place.facts.effects.get("schemas", {}), self.options.kafka
        topology = settled.with_sinks(policies.under(self.topology, facts.effects), known)
        given = (self.spark, facts.tasks, self.folder.path, facts.effects["session"], lease.file_manager)
        with settled.handed_registries(self.spark, topology.plan.sources) as registries:
            with settings.query_settings(*given):
                read = settled.sources_with_schemas(topology.plan.sources, known, registries)
                compiled, metrics = self._compiled(topology, place, read, found)
                writer = sinks.prepared(
                    compiled,
                    [(sink, sink.target) for sink in topology.plan.sinks],
                    kafka=kafka,
                    query_name=self.options.name,
                    checkpoint=place.place.path,
                    trigger=self._together.trigger(trigger),
                    identity=place.identity(topology.plan.application),
                    barrier=barrier,
                    written=Written(planned, 0 if place.created else facts.tasks, facts.marks),
                    lease=lease,
                    plans=Plans.of(place, lease, planned),
                    secure=partial(self._secure, lease, found),
                )
            join_journal = JournalWriter.joining(place.place, self.options.explain, barrier, lease.check)
            self._hand_over(found, place, planned, given)  # everything has been checked
            self._record(place, lease, found)
            limits = planning(self.spark, self._together, place)
            barrier.passing = (kept := LifetimeTotals(place, metrics, limits)).before_commit
            join_journal()
            # once more: settings depend on where the checkpoint lies
            with settings.query_settings(*given):
                query = lease.begun(writer.start())
        return query, metrics, kept

    def _barrier(
        self, place: Checkpoint, lease: leases.MachineLease, before: Callable[[int], None] | None = None
    ) -> StopBarrier:
        """The barrier of a query: before each batch it calls `before`, and gives tasks the topics of patterns."""
        barrier, read, kafka = StopBarrier(before), self.topology.plan.sources, self.options.kafka
        if kafka is not None and sources.warn_of_patterns(self.spark, read, kafka):
            numbers = TopicNumbers(place, read, kafka, lease.check, allow_recreated=self.options.allow_recreated_topics)
            barrier.join(numbers.before, needed=True)
        return barrier

    def _hand_over(self, found: CheckpointFiles | None, place: Checkpoint, planned: int, given: Any) -> None:
        """Hand the checkpoint over to the topology, if that has changed."""
        if place.change is None or found is None or found.binding is None:
            return
        with settings.query_settings(*given):
            read, added = self.topology.plan.sources, place.change.added_sources
            begun = sources.begun_topics(self.spark, read, self.options.kafka, added)
            Handover(self.topology, found.place, found.binding, place, planned, begun).run()

    def _begins(self, place: Checkpoint, found: CheckpointFiles | None) -> bootstrap.Begins:
        """The bootstraps of inputs, and how far the query is in them; a change of the topology continues from there."""
        if place.change is not None and found is not None and found.binding is not None:
            return bootstrap.Begins.of(self.folder, place.facts.begins, found.place, found.binding.inputs)
        return bootstrap.Begins.of(self.folder, place.facts.begins, place.place, place.facts.inputs)

    def _compiled(
        self, topology: Physical, place: Checkpoint, read: Sequence[SourceNode], found: CheckpointFiles | None
    ) -> tuple[CompiledFrame, Counted]:
        """The frame that the sinks read, and what its metrics count."""
        facts, spark, effects = place.facts, self.spark, place.facts.effects
        physical = with_known_domains(lent_as_recorded(topology, facts.addresses), facts.partitions, facts.begins)
        physical = physical.with_idle_time(effects["idle_after_ms"]).with_wall_clock(effects.get(wall_clock.BEGUN, 0))
        physical = with_record_cache(physical) if effects["record_cache"] else physical
        layout = SparkLayout(
            labels=spread_labels(physical, facts.shards, facts.tasks, facts.addresses),
            tasks=facts.tasks,
            cache_root=self.options.local_cache or DEFAULT_CACHE,
            headers=topology.plan.headers,
            cases=False,
            observe=lambda frame, name, counts: counted(frame, PREFIX + name, counts),
            direct_sinks=sinks.can_be_direct(spark, topology.plan),
            numbered=any(sink.target.topic is None for sink in topology.plan.sinks),
            measured=True,
            written=WRITTEN if self.options.metrics_port is not None or log_line.is_wanted() else None,
            journaled=self.options.explain is not False,
        )
        begins = self._begins(place, found)
        begins.check(available_now=self.options.available_now, together=bool(self._together))
        given = (self._together.gated(limited(self.options.kafka, place)), self.folder)
        added = () if place.change is None else place.change.added_sources
        begun = frozenset(s.name for s in read if place.begun and s.name not in added)
        dropped = dropped_source(topology.plan)
        scans = sources.scan(
            spark, read, *given, begun=begun, partitions=facts.partitions, begins=begins, dropped=dropped
        )
        clock = wall_clock.wall_clock(spark) if facts.clock else None
        compiled = compile_plan(physical, scans, layout, clock, replaced_rows(place))
        return compiled, Counted.of(physical, metric_names(physical), blind=compiled.uncounted)

    def _facts(
        self, found: CheckpointFiles, effects: Mapping[str, Any], recorded: Mapping[str, int] | None = None
    ) -> CheckpointFacts:
        """The facts of this start; `recorded`: partition counts, if Kafka is not to be asked."""
        # what becomes of bad records changes nothing of what is kept, so it may change
        plan = without_dead_letters(self.topology.plan)
        written = self.topology if plan is self.topology.plan else rewrite(plan)
        shards, tasks = layout_of(self.options, found.binding, self.spark.sparkContext.defaultParallelism)
        origins = [f"  {s.name}: {sources.describe_origin(s.origin)}" for s in plan.sources]
        with settings.alone(self.spark, effects["session"]):
            functions = function_texts(self.spark, plan)
        partitions = self._partitions() if recorded is None else recorded
        clock = effects["idle_after_ms"] > 0 or self.topology.by_wall
        begins = bootstrap.recorded(plan.sources, found.binding.begins if found.binding else None)
        return CheckpointFacts(
            topology=explain(written) + "Inputs:\n" + "\n".join(origins) + "\n",
            generation=plan.generation.value,
            shards=shards,
            tasks=tasks,
            formats={"blob": BLOB_VERSION, "state": STATE_VERSION},
            partitions=partitions,
            clock=clock,
            effects=effects,
            functions=functions,
            spark=pyspark.__version__,
            **placed(self.topology, found, shards, tasks),
            described=described(
                with_known_domains(written, partitions, begins),
                {s.name: sources.describe_origin(s.origin) for s in plan.sources},
                functions,
            ),
            inputs=sources.inputs_of(plan.sources, begins, clock=clock),
            begins=begins,
            **self._topics.facts(found.binding, ask=recorded is None),
        )

    @cached_property
    def _together(self) -> SynchronizedInputs:
        given = (self.topology.plan.sources, self.options.kafka)
        return SynchronizedInputs.of(*given, available_now=self.options.available_now)

    @cached_property
    def _topics(self) -> TopicIds:
        return TopicIds.of(self.topology.plan.sources, self.topology.plan.sinks, self.options.kafka)

    def _partitions(self) -> dict[str, int]:
        read = self.topology.plan.sources
        if not (topics := sorted(self._topics.read)):
            return {}
        return sources.partition_counts(self.spark, topics, sources.connected(read, self.options.kafka))
