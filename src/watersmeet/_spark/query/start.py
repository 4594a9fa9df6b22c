"""Starting a topology as one streaming query.

Owns the order of things at a start: settings, the lease, the checkpoint's facts (a changed topology is refused before
the first batch), sources, levels, sinks; what a start records is recorded last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import cached_property, partial
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from watersmeet._engine.row_sizes import VERSION as BLOB_VERSION
from watersmeet._engine.state.manifest import VERSION as STATE_VERSION
from watersmeet._plan.evolve import Change, compare, described
from watersmeet._plan.explain import explain, functions_in_state
from watersmeet._plan.logical import BEHIND_INPUTS, Plan, dropped_source, with_dead_letters, without_dead_letters
from watersmeet._plan.nodes import Node, SourceNode
from watersmeet._plan.physical import Physical, with_known_domains, with_record_cache, with_recorded_stores
from watersmeet._plan.rewrite import rewrite
from watersmeet._spark import formats, session
from watersmeet._spark.batches.batches import SynchronizedInputs, planning, with_last_limit
from watersmeet._spark.checkpoint import lease as leases
from watersmeet._spark.checkpoint import spark_logs
from watersmeet._spark.checkpoint.folders import Folder, await_sources, local_file_manager
from watersmeet._spark.checkpoint.pattern_topics import TopicNumbers
from watersmeet._spark.checkpoint.record import (
    Checkpoint,
    CheckpointFacts,
    CheckpointFiles,
    Plans,
    TopicIds,
    changed_functions,
    look,
    not_started,
    version_before,
)
from watersmeet._spark.dataflow.compile import CompiledFrame, SparkLayout, compile_plan
from watersmeet._spark.dataflow.fusion import Fusion
from watersmeet._spark.dataflow.level import DEFAULT_CACHE
from watersmeet._spark.deploy import Deployment, has_plans, keep_plans, refuse_deployment
from watersmeet._spark.evolve import Handover, asked_replacement, check_change, replaced_rows, with_counts
from watersmeet._spark.function_texts import function_texts
from watersmeet._spark.functions import ColumnFunctions
from watersmeet._spark.journal import JournalWriter
from watersmeet._spark.machine import check_brokers
from watersmeet._spark.metrics.exporters import MetricsView
from watersmeet._spark.metrics.lifetime import BatchReports, LifetimeTotals
from watersmeet._spark.metrics.query_facts import QueryFacts
from watersmeet._spark.metrics.totals import CountedPlan, Totals
from watersmeet._spark.outputs import outputs
from watersmeet._spark.outputs.batch_gate import BatchGate, ShutSinks
from watersmeet._spark.query import failures
from watersmeet._spark.query.progress import BatchCounts
from watersmeet._spark.query.query import LOG, Query, Silence, is_unfinished
from watersmeet._spark.session import check_session
from watersmeet._spark.sources import bootstrap, sources, wall_clock
from watersmeet._spark.sources.iceberg import SnapshotThread
from watersmeet._spark.sources.topics import partition_counts
from watersmeet._spark.stores.table_columns import placement_facts, with_placement
from watersmeet._worker.batch_plan import OLDER
from watersmeet._worker.task_reports import BatchRequest
from watersmeet._worker.wire import spread_labels
from watersmeet._worker.writers.kafka import Written, is_unwritten
from watersmeet.errors import ChangedTopology, ConfigError, CorruptData, EncodingError, WatersmeetError
from watersmeet.io.kafka import Kafka
from watersmeet.io.policies import OF_INPUTS, USUAL, USUAL_BEHIND_INPUTS, DeadLetter, OperatorPolicies, Policies
from watersmeet.windows import Duration, duration_ms

# The options of a start, checked when they are given.


@dataclass(frozen=True)
class StartOptions:
    """How a topology is started; `Topology.start` says what each option means."""

    kafka: Kafka | None = None
    shards: int | None = None
    tasks: int | None = None
    trigger: Duration | None = None
    available_now: bool = False
    local_cache: str | None = None
    allow_partition_change: bool = False
    allow_changed_functions: bool = False
    allow_recreated_topics: bool = False
    evolve: bool = False
    idle_after: Duration | None = None
    record_cache: bool = False
    name: str | None = None
    metrics_port: int | str | None = None
    progress: bool = False
    explain: bool | Duration = False
    replace: Sequence[str] | None = None
    deploy: bool = False
    back: bool = False
    if_equal: int | None = None

    def __post_init__(self) -> None:
        self._check_switches()
        self._check_deploy()
        self._check_explain()
        self._check_replace()
        if self.metrics_port is not None:
            self._address(self.metrics_port)
        if self.idle_after is not None:
            self._check_idle_after()
        if self.trigger is not None and duration_ms(self.trigger, "trigger") < 0:
            raise ConfigError(
                f"The interval between two batches must not be negative: trigger={self.trigger!r}.",
                hint='trigger="1 second"; left out, a batch follows the other.',
            )
        if self.trigger is not None and self.available_now:
            raise ConfigError(
                f"Give either available_now=True or trigger={self.trigger!r}, not both: a query that stops has no "
                "interval.",
                hint="Leave one of them out.",
            )
        for part in ("shards", "tasks"):
            count = getattr(self, part)
            if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
                raise ConfigError(
                    f"The number of {part} must be 1 or more: {part}={count!r:.80}.", hint=f"Leave it out, or {part}=4."
                )
        if self.kafka is not None and not isinstance(self.kafka, Kafka):
            raise ConfigError(
                f"The connection to a cluster must be a wm.Kafka, and not {self._without_secrets(self.kafka)}.",
                hint=f"Write kafka=wm.Kafka({self._address_of(self.kafka)!r}).",
            )

    @staticmethod
    def _without_secrets(value: Any) -> str:
        """The value given in place of a connection, if it is an address and holds no secret."""
        plain = isinstance(value, str) and re.fullmatch(r"[\w.:,-]+", value)
        return f"kafka={value!r}" if plain else f"a {type(value).__name__} (kafka=...)"

    @staticmethod
    def _address_of(value: Any) -> str:
        return value if isinstance(value, str) and re.fullmatch(r"[\w.-]+:\d+", value) else "host:9092"

    def _check_idle_after(self) -> None:
        if self.idle_after_ms < 1_000:
            raise ConfigError(
                f"idle_after must be 1 second or more: idle_after={self.idle_after!r}.", hint='idle_after="1 minute"'
            )
        if self.available_now:
            raise ConfigError(
                f"Give either available_now=True or idle_after={self.idle_after!r}, not both: a query that stops "
                "does not wait.",
                hint="Leave one of them out.",
            )

    def _check_switches(self) -> None:
        for name in (option.name for option in fields(self) if option.type == "bool"):
            if not isinstance(value := getattr(self, name), bool):
                raise ConfigError(f"{name} must be True or False: {name}={value!r:.80}.", hint=f"{name}=True")
        query_name: Any = self.name
        if query_name is not None and (not isinstance(query_name, str) or not query_name):
            raise ConfigError(f"The name of a query must be a text: name={self.name!r:.80}.", hint='name="orders"')

    def _check_explain(self) -> None:
        if isinstance(self.explain, bool):
            return
        fits = isinstance(self.explain, str | timedelta)
        if not fits or duration_ms(self.explain, "explain") < 1:
            raise ConfigError(
                f"explain must be True, or how long the journal is kept: explain={self.explain!r:.80}.",
                hint='explain="1 day"; explain=True keeps it for ever.',
            )

    def _check_deploy(self) -> None:
        count: Any = self.if_equal
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 0):
            raise ConfigError(
                f"if_equal must be the number of rows that may differ: if_equal={count!r:.80}.",
                hint="deploy=True, if_equal=0",
            )
        if count is not None and not self.deploy:
            raise ConfigError(
                f"if_equal={count} is for a topology that is deployed, and deploy=True is left out.",
                hint=f"topology.start(..., deploy=True, if_equal={count})",
            )
        if self.back and not self.deploy:
            raise ConfigError(
                "back=True is for a topology that is deployed, and deploy=True is left out.",
                hint="topology.start(..., deploy=True, back=True)",
            )
        if self.deploy and self.replace:
            raise ConfigError(
                f"Give either deploy=True or replace={list(self.replace)!r:.80}, not both: a deployment "
                "sends no rows of a replaced table.",
                hint="End the running query with query.drain(), and start this one with evolve=True and replace=.",
            )

    def _check_replace(self) -> None:
        tables = [] if self.replace is None else self.replace
        if isinstance(tables, str) or not all(isinstance(name, str) for name in tables):
            raise ConfigError(
                f"replace= takes a list of names of tables: replace={self.replace!r:.120}.",
                hint='replace=["open-orders"]',
            )
        if tables and not self.evolve:
            raise ConfigError(
                f"replace={list(tables)!r} is for a changed topology, and evolve=True is left out.",
                hint="topology.start(..., evolve=True, replace=[...]); leave replace= out otherwise.",
            )

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """Host and port at which Prometheus asks; None: it does not."""
        return None if self.metrics_port is None else self._address(self.metrics_port)

    @staticmethod
    def _address(address: int | str) -> tuple[str, int]:
        host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", str(address))
        if isinstance(address, bool) or not port.isdecimal() or int(port) >= 1 << 16:
            raise ConfigError(
                f"metrics_port must be a port, or a host and a port: metrics_port={address!r:.80}.",
                hint='metrics_port=9400 for all addresses of this machine; metrics_port="127.0.0.1:9400" for one.',
            )
        return host.strip("[]") or "0.0.0.0", int(port)

    @property
    def idle_after_ms(self) -> int:
        return 0 if self.idle_after is None else duration_ms(self.idle_after, "idle_after")

    @property
    def trigger_options(self) -> dict[str, Any]:
        """What DataStreamWriter.trigger takes."""
        if self.available_now:
            return {"availableNow": True}
        interval = 0 if self.trigger is None else duration_ms(self.trigger, "trigger")
        return {"processingTime": f"{interval} milliseconds"}


def refuse_idle_time(topology: Physical, options: StartOptions) -> None:
    """Raise where an idle time is given, and nothing waits for time."""
    if options.idle_after_ms and not topology.timed:
        raise ConfigError(
            f"idle_after={options.idle_after!r} has no effect: nothing in this topology waits for time.",
            hint="Leave it out: it is for windowed joins of streams.",
        )


def layout_of(
    options: StartOptions,
    facts: CheckpointFacts | None,
    parallelism: int,
    is_small: Callable[[], bool] = lambda: False,
) -> tuple[int, int]:
    """(shards, tasks): as given, else as the checkpoint has them, else the defaults.

    Parameters
    ----------
    facts : what the checkpoint records, if there is one.
    parallelism : tasks that Spark has by default; of fewer shards there are as many tasks as shards.
    is_small : asked where the query begins, and neither number is given: whether one task is enough.
    """
    if facts is None and not (options.tasks or options.shards) and parallelism > 1 and is_small():
        return parallelism, 1
    default_tasks = facts.tasks if facts else parallelism
    tasks = options.tasks or min(default_tasks, options.shards or default_tasks)
    shards = options.shards or (facts.shards if facts else 2 * tasks)
    if shards < tasks:
        raise ConfigError(
            f"tasks={tasks} is more than shards={shards}.",
            hint="Give more shards, or fewer tasks: a task has at least one shard of each operator.",
        )
    return shards, tasks


# Policies for bad records, as a checkpoint records them: a planned batch runs under the policies it had.
#
# Where there are dead letters, results leave through one exchange more: so policies decide which task writes what, and
# a batch of which some tasks have written must be run again under the same ones.

EFFECT = "bad_records"
"""Their name in a checkpoint."""
PASSES = (
    "The unfinished batch has failed again under the policies it was planned with. None of it is written, so the "
    "query continues: it runs the batch again under the policies of this start."
)
"""Said behind Spark's errors, which cannot be told from those of a query that ends."""
Recorded = Mapping[str, Mapping[str, Any]]
"""By the name of an input, of an operator or output with policies of its own, or `BEHIND_INPUTS`, and the policy's: a
word, or a list with the topic of dead letters. The usual ones are left out."""


def policies_effect(plan: Plan) -> dict[str, Recorded]:
    """The record of a plan's policies in a checkpoint: none if all are the usual ones."""
    policies = _of(plan)
    return {EFFECT: policies} if policies else {}


def under(physical: Physical, effects: Mapping[str, Any]) -> Physical:
    """The same topology under the policies that a checkpoint has recorded among its effects."""
    policies: Recorded = effects.get(EFFECT, {})
    if not differ(physical, effects):
        return physical
    plan = without_dead_letters(physical.plan)
    topics = [source for source in plan.sources if source.origin.topic is not None]
    plan = plan.with_nodes(_changed(source, policies.get(source.name, {})) for source in topics)
    inputs = {BEHIND_INPUTS, *(source.name for source in topics)}
    by_operator = tuple((name, _policies(record)) for name, record in policies.items() if name not in inputs)
    operator_policies = OperatorPolicies(
        _policies(policies.get(BEHIND_INPUTS, {})).over(USUAL_BEHIND_INPUTS), by_operator
    )
    return rewrite(with_dead_letters(replace(plan, within=operator_policies), ColumnFunctions()))


def differ(physical: Physical, effects: Mapping[str, Any]) -> bool:
    """Whether a topology has other policies than those that a checkpoint has recorded among its effects."""
    policies: Recorded = effects.get(EFFECT, {})
    return _of(physical.plan) != policies


def may_settle_policies(physical: Physical, effects: Mapping[str, Any], failure: Exception) -> bool:
    """Whether a batch that fails under recorded policies may be run under those of the topology.

    Nothing of it is written where a record cannot be decoded, or where a function raises that stands before an
    exchange: no task behind that has begun.

    Parameters
    ----------
    effects : what the checkpoint has recorded.
    failure : of the batch.
    """
    old = under(physical, effects)
    nodes = old.plan.nodes if old.ordered_exit else old.plan.sources
    return differ(physical, effects) and failures.is_of_record(failure, {node.name for node in nodes})


def may_run(physical: Physical, kafka: Kafka | None, checkpoint: Checkpoint, planned: int, failure: Exception) -> bool:
    """Whether a planned batch may be run under the topology's policies: nothing is written of it."""
    if may_settle_policies(physical, checkpoint.facts.effects, failure):
        return True
    if not isinstance(failure, EncodingError) or not differ(physical, checkpoint.facts.effects):
        return False
    # other outputs come behind the topics, at one of which it failed
    plan, written = physical.plan, Written(planned, checkpoint.facts.tasks, checkpoint.facts.marks)
    targets, mark = [sink.target for sink in plan.sinks], Plans.of(checkpoint, None)(planned)
    return is_unwritten(targets, kafka, checkpoint.identity(plan.application), written, mark)


def _of(plan: Plan) -> Recorded:
    by_name = {BEHIND_INPUTS: plan.within.usual, **{source.name: source.origin.policies for source in plan.sources}}
    records = {name: _unusual(policies) for name, policies in by_name.items()}
    records |= {name: _texts(policies) for name, policies in plan.within.named}
    return {name: record for name, record in records.items() if record}


def _unusual(policies: Policies) -> dict[str, Any]:
    return {option: text for option, text in _texts(policies).items() if text != USUAL.said[option]}


def _texts(policies: Policies) -> dict[str, Any]:
    return {
        option: [policy.topic] if isinstance(policy, DeadLetter) else policy for option, policy in policies.said.items()
    }


def _changed(source: SourceNode, record: Mapping[str, Any]) -> Node:
    return replace(source, origin=source.origin.under(_policies(record).over(OF_INPUTS)))


def _policies(record: Mapping[str, Any]) -> Policies:
    return Policies(
        **{name: DeadLetter(*policy) if isinstance(policy, list) else policy for name, policy in record.items()}
    )


def start(topology: Physical, spark: SparkSession, checkpoint: str, options: StartOptions) -> Query:
    """Start the topology; see `Topology.start`."""
    check_session(spark, "topology.start(spark, checkpoint=...)")
    session.check(spark)
    refuse_idle_time(topology, options)
    outputs.check_writers(spark, topology.plan)
    if options.shards and options.tasks:
        layout_of(options, None, options.tasks)  # before Kafka is asked
    session.begin_daemon(spark)
    _check_kafka(topology, options)
    if options.deploy:
        return _deployed(_Start(topology, Folder(spark, checkpoint), replace(options, evolve=True)))
    view = MetricsView(options.metrics_address, topology.plan.application, progress=options.progress)
    try:
        query = _Start(topology, Folder(spark, checkpoint), options).launch(options.trigger_options)
    except BaseException:
        view.close()
        raise
    query.show(view)
    return query


def _deployed(starting: _Start) -> Query:
    """The query of a topology that takes the place of the running one; see `deploy`."""
    options, deployment = starting.options, starting.beside()
    try:
        query = replace(starting, deployment=deployment).launch(options.trigger_options)
    except BaseException:
        if deployment is not None:
            deployment.discard()
        raise
    try:
        # the port may have been that of the query before
        query.show(MetricsView(options.metrics_address, starting.topology.plan.application, progress=options.progress))
    except BaseException:
        query.stop()
        raise
    query.comparisons = () if deployment is None else deployment.comparisons
    return query


def plan_change(topology: Physical, spark: SparkSession, checkpoint: str, options: StartOptions) -> Change:
    """The effects of a start with `evolve=True`; nothing is done. See `Topology.start`."""
    return _Start(topology, Folder(spark, checkpoint), options).planned_change()


# An output as a streaming DataFrame: the user starts the query, so there is no lease, no batch of several outputs, and
# nothing that is done between two batches.


def frame(topology: Physical, spark: SparkSession, checkpoint: str, options: StartOptions) -> DataFrame:
    """The rows of the topology's only output as a streaming DataFrame; see `Topology.frame`."""
    check_session(spark, "topology.frame(spark, name, checkpoint=...)")
    session.check(spark)
    session.check_threads("topology.frame")
    refuse_for_frames(topology, options.kafka)
    _check_kafka(topology, options)
    return _Start(topology, Folder(spark, checkpoint), options).output_frame()


def refuse_for_frames(topology: Physical, kafka: Kafka | None) -> None:
    """Raise where a topology needs more of a query than its plan: something that a start does before each batch."""
    plan = topology.plan
    needs = {
        "inputs that are kept together in time": bool(SynchronizedInputs.of(plan.sources, kafka, available_now=False)),
        "topics by a pattern": bool(plan.patterns),
        "bootstrap=": any(source.bootstrap is not None for source in plan.sources),
        "wm.Changes of a table of Iceberg": any(source.origin.writes_snapshots for source in plan.sources),
        "starting_offsets= of one input": any(source.origin.begins_at is not None for source in plan.sources),
        "a Schema Registry": formats.read_registry(plan.sources),
        "timers by the wall clock": topology.by_wall,
        "dead letters": without_dead_letters(plan) is not plan,
    }
    for subject, is_needed in needs.items():
        if is_needed:
            raise ConfigError(
                f"A frame of a topology cannot have {subject}: only a query that watersmeet starts can.",
                given=f"topology {plan.application!r}",
                hint="Start it, topology.start(...), and read what it writes: table.to(wm.Writer('delta', path=...)), "
                "then spark.readStream.",
            )


def _check_kafka(topology: Physical, options: StartOptions) -> None:
    plan, kafka = topology.plan, options.kafka
    read = any(source.origin.topic is not None for source in plan.sources)
    if kafka is not None and (read or any(sink.target.topic is not None for sink in plan.sinks)):
        check_brokers(kafka)


_LOOKS = 50
"""So often a start looks into a checkpoint into which somebody else writes."""


class _ChangedMeanwhile(Exception):
    """Somebody has written into the checkpoint since this start looked at it, or this start has planned a batch."""


@dataclass(frozen=True)
class _Start:
    """One start."""

    topology: Physical  # what is started
    folder: Folder  # the checkpoint's
    options: StartOptions  # as they were given
    # what was made ready beside the query that runs on the checkpoint; None: nothing
    deployment: Deployment | None = None
    _fusions: dict[str, Fusion] = field(default_factory=dict, init=False)  # by settings of the session

    @property
    def spark(self) -> SparkSession:
        return self.folder.spark

    def launch(self, trigger: dict[str, Any]) -> Query:
        """The query, upon a checkpoint that no other one has."""
        lease: leases.MachineLease | None = None
        try:
            deployment = self.deployment
            lease = leases.take(self.folder.path, self.folder) if deployment is None else deployment.lease()
            for _ in range(_LOOKS):
                with suppress(_ChangedMeanwhile), self._vanishing(lease):
                    return self._start_query(trigger, lease)
            raise ConfigError(
                "Another query plans batches on this checkpoint faster than this start can look at them.",
                given=self.folder.path,
                hint="Stop that query first: query.drain().",
            )
        except BaseException as failure:
            if lease is not None:
                lease.release_at_end()
            error = failures.of_start(failure, self.folder.path) if isinstance(failure, Exception) else failure
            if error is failure:
                raise
            # what Spark says may quote a setting
            raise error from None

    @staticmethod
    @contextmanager
    def _vanishing(lease: leases.MachineLease) -> Iterator[None]:
        """Around a look: a query that runs elsewhere may remove old files meanwhile."""
        try:
            yield
        except Exception as failure:
            if lease.epoch or "FileNotFoundException" not in str(failure) or not lease.is_shared:
                raise
            raise _ChangedMeanwhile from None

    def _start_query(self, trigger: dict[str, Any], lease: leases.MachineLease, totals: Totals | None = None) -> Query:
        files = look(self.folder)
        try:
            return self._start_on(files, trigger, lease, totals)
        except WatersmeetError as refusal:
            # a query that goes on elsewhere may have committed batches between two looks
            is_stale = isinstance(refusal, CorruptData) or refusal.message == OLDER
            if lease.epoch or not is_stale or look(self.folder) == files:
                raise
            raise _ChangedMeanwhile from None

    def _start_on(
        self, files: CheckpointFiles, trigger: dict[str, Any], lease: leases.MachineLease, totals: Totals | None
    ) -> Query:
        effects = self._effects(files)
        checkpoint = self.deployment.pending(files) if self.deployment else self._checkpoint(files, effects)
        groups = 0 if checkpoint.change else max(checkpoint.facts.level_groups, default=self.topology.levels)
        planned = spark_logs.checked_last_batch(files.spark_folder, groups, patterns=bool(self.topology.plan.patterns))
        if checkpoint.change is not None:
            # who runs elsewhere may finish its batch
            check_change(checkpoint, checkpoint.change, unfinished=files.unfinished and not lease.is_shared)
            planned = planned if files.unfinished else files.ends[1]
        elif files.binding and files.binding.effects != checkpoint.facts.effects and is_unfinished(files.spark_folder):
            # its replay must write the same bytes
            old = self._checkpoint(files, files.binding.effects)
            self._secure(lease, files, old)
            totals = self._finish_batch(old, planned, lease)
            if totals is not None:
                return self._start_query(trigger, lease, totals)
            files = look(self.folder)
            checkpoint = self._checkpoint(files, effects)
        gate = self._gate(checkpoint, lease, self._topics.watch(checkpoint.facts))
        facts = QueryFacts(self.folder, gate, lambda: lease.epoch, lease.check)
        streaming, lifetime = self._start_streaming(checkpoint, planned, trigger, lease, gate, files)
        # a query that is to run one batch takes the one that was planned last, where that was not committed
        later = replace(self, deployment=None)
        run_once, unfinished = partial(later.launch, {"once": True}), partial(is_unfinished, checkpoint.spark_folder)
        counts = BatchCounts(streaming, lifetime, totals)
        running = (streaming, counts, self.folder.path, lease, gate, lambda: run_once() if unfinished() else None)
        planner = self._inputs.begin(self.spark, streaming, trigger, lambda: lifetime.records_limit)
        if planner is not None:
            facts.lag = lambda: planner.lag
        snapshots = SnapshotThread.of(streaming, self.topology.plan.sources, self.folder, trigger)
        threads = [thread for thread in (planner, snapshots) if thread is not None]
        return Query(*running, self.spark, self.topology, self.options.kafka, facts, threads)

    def beside(self) -> Deployment | None:
        """The topology made ready beside the query that runs; None: nobody runs, and the checkpoint is its own."""
        files = look(self.folder)
        if files.binding is None or not files.batches:
            return None
        refuse_deployment(self.topology.plan, self.folder)
        effects = self._effects(files)
        runs, back = leases.may_run(self.folder.path, self.folder), self.options.back
        facts = self._facts(files, effects)
        differs = back and changed_functions(files.binding, facts)
        if not runs and not differs and files.change(facts) is None:
            return None
        former = self._version_before(files) if back else None
        checkpoint = self._checkpoint(files, effects) if former is None else former[0]
        if checkpoint.change is None:
            # functions alone are others, perhaps such as Spark knows by their names only
            changed = files.changed(checkpoint.facts, compare(facts.described, facts.described))
            checkpoint = with_placement(changed, self.topology, files)
        assert checkpoint.change is not None
        check_change(checkpoint, checkpoint.change, unfinished=files.unfinished and not runs)
        read, added = self.topology.plan.sources, checkpoint.change.added_sources
        topics = sources.begun_topics(self.spark, read, self.options.kafka, added)
        deployment = Deployment(self.topology, files, checkpoint, topics, None if former is None else former[1])
        try:
            with session.query_settings(*self._settings(checkpoint)):
                deployment.prepare()
            run_batch = self._shut_batches(checkpoint, files)
            deployment.catch_up(run_batch)
            deployment.compare(self.options.if_equal)
            deployment.catch_up(run_batch)
        except BaseException:
            deployment.discard()
            raise
        return deployment

    def _version_before(self, files: CheckpointFiles) -> tuple[Checkpoint, Folder] | None:
        """The checkpoint of the topology that ran before, from where it stopped, and where that lies.

        None: its logs and state are gone, or the plans of the batches since. Then it is a change as any.
        """
        former = version_before(self.folder)
        if former is None or not has_plans(files.spark_folder, former.ends[1] + 1, files.ends[1]):
            LOG.warning("The state of the topology before is gone: this one continues with that of the running one.")
            return None
        effects = self._effects(former)
        checkpoint = self._checkpoint(former, effects)
        if checkpoint.change is not None:
            raise ChangedTopology(
                "back=True returns to the topology that ran before the running one, and this is another.",
                given="\n".join([str(self.folder), *map(str, checkpoint.change.items)]),
                hint="Name the topology that ran before; or leave back= out, to deploy this one as a further change.",
            )
        return replace(former.changed(checkpoint.facts, Change(())), begun=True), former.spark_folder

    def _shut_batches(self, checkpoint: Checkpoint, files: CheckpointFiles) -> Callable[[], None]:
        """Runs the batch that is planned in the folder of a changed topology, and writes no output."""
        facts, gate, target = checkpoint.facts, BatchGate(), checkpoint.spark_folder.path
        topology, schemas = under(self.topology, facts.effects), facts.effects.get("schemas", {})
        settings = self._settings(checkpoint)
        handed = formats.handed_registries(self.spark, topology.plan.sources)
        with handed as registries, session.query_settings(*settings):
            read = formats.sources_with_schemas(topology.plan.sources, schemas, registries)
            begun_sources, reports = self._begun_sources(checkpoint, read), BatchReports(self.spark)
            compiled, _ = self._compiled(topology, checkpoint, read, files, begun_sources, reports)
        writer = compiled.frame.writeStream.foreachBatch(ShutSinks(gate)).outputMode("append")
        writer = writer.option("checkpointLocation", target).trigger(once=True)

        def run_batch() -> None:
            with session.query_settings(*settings):
                query = writer.start()
                await_sources(query)
            failures.await_end(query, target)

        return run_batch

    def _settings(self, checkpoint: Checkpoint) -> tuple[Any, ...]:
        facts = checkpoint.facts
        return self.spark, facts.tasks, self.folder.path, facts.effects["session"]

    def output_frame(self) -> DataFrame:
        """The rows of the only output, for a query of the user's; its record binds from now on."""
        files = look(self.folder)
        is_known = files.last is not None
        if files.last is not None:
            # Spark's checkpoint may lie elsewhere, so that no batch is seen here
            files = replace(files, last=replace(files.last, begun=True), batches=True)
        checkpoint = self._checkpoint(files, self._option_effects(files))
        session.keep_settings(self.spark, checkpoint.facts.tasks)
        sources_read = self.topology.plan.sources
        copies = [s.name for s in sources_read if s.origin.frame is not None and not s.origin.frame.isStreaming]
        compiled, _ = self._compiled(self.topology, checkpoint, sources_read, files, copies if is_known else ())
        checkpoint.record()
        (sink,) = self.topology.plan.sinks
        return compiled.rows(sink.name, compiled.schema(sink.name))

    def _secure(self, lease: leases.MachineLease, files: CheckpointFiles | None, checkpoint: Checkpoint) -> None:
        """Have the lease, before anything is written: a query that runs elsewhere ends, which no refused start does."""
        if files is not None and lease.seal(files, behind_batch=checkpoint.change is not None):
            raise _ChangedMeanwhile
        if files is not None and checkpoint.change is not None:
            check_change(checkpoint, checkpoint.change, unfinished=files.unfinished)
        if lease.secure() and files is not None and look(self.folder) != files:
            raise _ChangedMeanwhile

    def _record(self, checkpoint: Checkpoint, lease: leases.MachineLease) -> None:
        lease.write_under()
        (checkpoint.anew() if lease.is_shared and not checkpoint.created else checkpoint).record(lease.epoch)

    def planned_change(self) -> Change:
        """The effects of the topology on the checkpoint."""
        files, options = look(self.folder), self.options
        if files.binding is None:
            raise not_started(self.folder)
        recorded = files.binding.partitions if options.kafka is None else None
        facts = self._facts(files, files.binding.effects, recorded)
        replaced = asked_replacement(self.topology, options.replace or (), files, facts)
        roles = replaced.roles if replaced else ()
        functions = () if options.allow_changed_functions else functions_in_state(self.topology, roles)
        change = files.planned_change(facts, functions, replaced)
        if change.replacement is None or not change.possible:
            return change
        checkpoint = with_placement(files.changed(facts, change), self.topology, files)
        with session.query_settings(self.spark, facts.tasks, self.folder.path, facts.effects["session"]):
            handover = (self.topology, files.spark_folder, files.binding, checkpoint, files.ends[1])
            return with_counts(change, Handover(*handover).counted())

    def _effects(self, files: CheckpointFiles) -> dict[str, Any]:
        return self._option_effects(files) | self._schemas(files) | policies_effect(self.topology.plan)

    def _option_effects(self, files: CheckpointFiles) -> dict[str, Any]:
        """The effects of options, of the session's settings and of the wall clock."""
        effects = {"record_cache": self.options.record_cache, "idle_after_ms": self.options.idle_after_ms}
        clock = wall_clock.clock_record(self.topology, files.binding.effects if files.binding else {})
        return {**effects, "session": session.effects(self.spark), **clock}

    def _schemas(self, files: CheckpointFiles) -> dict[str, Any]:
        previous = files.binding.effects.get("schemas", {}) if files.binding else {}
        schemas = formats.fix_schemas(self.topology.plan.sources, self.topology.plan.sinks, previous)
        return {"schemas": schemas} if schemas else {}

    def _finish_batch(self, checkpoint: Checkpoint, planned: int, lease: leases.MachineLease) -> Totals | None:
        """Finish the batch that was not; what it counts. None: a record fails it, and may not under other policies."""
        gate = self._gate(checkpoint, lease)
        query, lifetime = self._start_streaming(checkpoint, planned, {"once": True}, lease, gate, None)
        waiting = Silence(query)
        try:
            failures.await_end(query, self.folder.path)
            passed = True
        except Exception as failure:
            passed = False
            if not may_run(self.topology, self.options.kafka, checkpoint, planned, failure):
                raise
        finally:
            waiting.close()
            waiting.stop(self.spark)
        # the lease is that of the query to come
        lease.query = None
        if not passed:
            LOG.warning(PASSES)
            return None
        counts = BatchCounts(query, lifetime)
        counts.close()
        return counts.totals()

    def _checkpoint(self, files: CheckpointFiles, effects: Mapping[str, Any]) -> Checkpoint:
        """The checkpoint, if it fits; it is not written to."""
        facts = self._facts(files, effects)
        replaced = asked_replacement(self.topology, self.options.replace or (), files, facts)
        every = functions_in_state(self.topology)
        functions = functions_in_state(self.topology, replaced.roles) if replaced else every
        checkpoint = files.fitting(
            facts,
            stateful=functions,
            recomputed=every - functions,
            replaced=replaced,
            allow_partition_change=self.options.allow_partition_change,
            allow_changed_functions=self.options.allow_changed_functions,
            allow_recreated_topics=self.options.allow_recreated_topics,
            evolve=self.options.evolve,
        )
        return with_placement(checkpoint, self.topology, files)

    def _start_streaming(
        self,
        checkpoint: Checkpoint,
        planned: int,
        trigger: dict[str, Any],
        lease: leases.MachineLease,
        gate: BatchGate,
        files: CheckpointFiles | None,
    ) -> tuple[StreamingQuery, LifetimeTotals]:
        """The query that runs, and what keeps its counts."""
        facts, schemas, kafka = checkpoint.facts, checkpoint.facts.effects.get("schemas", {}), self.options.kafka
        topology, reports = formats.with_sinks(under(self.topology, facts.effects), schemas), BatchReports(self.spark)
        settings = (*self._settings(checkpoint), self._file_manager(lease))
        with formats.handed_registries(self.spark, topology.plan.sources) as registries:
            with session.query_settings(*settings):
                read = formats.sources_with_schemas(topology.plan.sources, schemas, registries)
                begun_sources = self._begun_sources(checkpoint, read)
                compiled, plan = self._compiled(topology, checkpoint, read, files, begun_sources, reports)
                writer = outputs.prepared(
                    compiled,
                    topology.plan.sinks,
                    kafka=kafka,
                    query_name=self.options.name,
                    checkpoint=checkpoint.spark_folder.path,
                    trigger=self._inputs.trigger(trigger),
                    identity=checkpoint.identity(topology.plan.application),
                    gate=gate,
                    written=Written(planned, 0 if checkpoint.created else facts.tasks, facts.marks),
                    lease=lease,
                    plans=Plans.of(checkpoint, lease),
                    secure=partial(self._secure, lease, files, checkpoint),
                )
            join_journal = self._journal(checkpoint, gate, lease)
            self._secure(lease, files, checkpoint)  # a single writer of Spark's has not asked for the lease
            self._hand_over(files, checkpoint, planned, settings)  # everything has been checked
            self._record(checkpoint, lease)
            lifetime = LifetimeTotals(checkpoint, plan, reports, planning(self.spark, self._inputs, checkpoint))
            gate.passing = lifetime.before_commit
            join_journal()
            with session.query_settings(*settings):  # once more: they depend on where the checkpoint lies
                return lease.begun(writer.start()), lifetime

    def _file_manager(self, lease: leases.MachineLease) -> str | None:
        return lease.file_manager or local_file_manager(self.spark, self.folder)

    def _journal(self, checkpoint: Checkpoint, gate: BatchGate, lease: leases.MachineLease) -> Callable[[], None]:
        options = (self.options.explain, gate, lease.check, self.topology.plan.sources)
        join_journal = JournalWriter.joining(checkpoint.spark_folder, *options)

        def join() -> None:
            join_journal()
            keep_plans(gate, checkpoint.spark_folder)

        return join

    def _gate(
        self, checkpoint: Checkpoint, lease: leases.MachineLease, on_start: Callable[[BatchRequest], None] | None = None
    ) -> BatchGate:
        """The gate of a query: before each batch it calls `on_start`, and gives tasks the topics of patterns."""
        gate, read, kafka = BatchGate(on_start), self.topology.plan.sources, self.options.kafka
        if kafka is not None and sources.warn_of_patterns(self.spark, read, kafka):
            allow_recreated = self.options.allow_recreated_topics
            numbers = TopicNumbers(checkpoint, read, kafka, lease.check, allow_recreated=allow_recreated)
            gate.join(numbers.before, needed=True)
        return gate

    def _hand_over(self, files: CheckpointFiles | None, checkpoint: Checkpoint, planned: int, settings: Any) -> None:
        if checkpoint.change is None or files is None or files.binding is None:
            return
        if self.deployment is not None:
            self.deployment.finish(files)
            return
        with session.query_settings(*settings):
            read, added = self.topology.plan.sources, checkpoint.change.added_sources
            topics = sources.begun_topics(self.spark, read, self.options.kafka, added)
            Handover(self.topology, files.spark_folder, files.binding, checkpoint, planned, topics).run()

    def _begins(self, checkpoint: Checkpoint, files: CheckpointFiles | None) -> bootstrap.Begins:
        """The bootstraps of inputs, and how far the query is in them; a change of the topology continues from there."""
        if checkpoint.change is not None and files is not None and files.binding is not None:
            return bootstrap.Begins.of(self.folder, checkpoint.facts.begins, files.spark_folder, files.binding.inputs)
        facts = checkpoint.facts
        return bootstrap.Begins.of(self.folder, facts.begins, checkpoint.spark_folder, facts.inputs)

    @staticmethod
    def _begun_sources(checkpoint: Checkpoint, read: Sequence[SourceNode]) -> frozenset[str]:
        added = () if checkpoint.change is None else checkpoint.change.added_sources
        return frozenset(source.name for source in read if checkpoint.begun and source.name not in added)

    def _compiled(
        self,
        topology: Physical,
        checkpoint: Checkpoint,
        read: Sequence[SourceNode],
        files: CheckpointFiles | None,
        started_sources: Collection[str],
        reports: BatchReports | None = None,
    ) -> tuple[CompiledFrame, CountedPlan]:
        """The frame that the sinks read, and what its tasks count.

        Parameters
        ----------
        started_sources : names of the sources that have begun.
        reports : takes what tasks report; None: nobody does.
        """
        facts, spark, effects = checkpoint.facts, self.spark, checkpoint.facts.effects
        physical = with_recorded_stores(topology, facts.addresses).in_groups(facts.level_groups)
        physical = with_known_domains(physical, facts.partitions, facts.begins)
        physical = physical.with_idle_time(effects["idle_after_ms"]).with_wall_clock(effects.get(wall_clock.BEGUN, 0))
        physical = with_record_cache(physical) if effects["record_cache"] else physical
        layout = SparkLayout(
            labels=spread_labels(physical, facts.shards, facts.tasks, facts.addresses),
            tasks=facts.tasks,
            cache_root=self.options.local_cache or DEFAULT_CACHE,
            headers=topology.plan.headers,
            cases=False,
            reports=None if reports is None else reports.accumulator,
            journaled=self.options.explain is not False,
            checks_tasks=reports is None,
        )
        begins = self._begins(checkpoint, files)
        begins.check(available_now=self.options.available_now, aligned=bool(self._inputs))
        scan_args = (self._inputs.gated(with_last_limit(self.options.kafka, checkpoint)), self.folder)
        dropped = dropped_source(topology.plan)
        scans = sources.scan(
            spark,
            read,
            *scan_args,
            started_sources=started_sources,
            partitions=facts.partitions,
            begins=begins,
            dropped=dropped,
        )
        clock = wall_clock.wall_clock(spark) if facts.clock else None
        compiled = compile_plan(physical, scans, layout, clock, replaced_rows(checkpoint), self._fusion(effects))
        return compiled, replace(CountedPlan.of(physical), one_task=self._one_task(facts.tasks))

    def _one_task(self, tasks: int) -> tuple[int, int] | None:
        """As `CountedPlan` has it."""
        kafka, cores = self.options.kafka, self.spark.sparkContext.defaultParallelism
        if kafka is None or not tasks == 1 < cores:
            return None
        return max(kafka.max_records_per_batch, sources.FEW_RECORDS), cores  # one task is enough for small limits

    def _facts(
        self, files: CheckpointFiles, effects: Mapping[str, Any], recorded: Mapping[str, int] | None = None
    ) -> CheckpointFacts:
        """The facts of this start; `recorded`: partition counts, if Kafka is not to be asked."""
        # what becomes of bad records changes nothing of what is kept, so it may change
        plan = without_dead_letters(self.topology.plan)
        written = self.topology if plan is self.topology.plan else rewrite(plan)
        parallelism = self.spark.sparkContext.defaultParallelism
        partitions = self._partitions() if recorded is None else recorded
        shards, tasks = layout_of(self.options, files.binding, parallelism, lambda: self._begins_small(partitions))
        origins = [f"  {s.name}: {sources.describe_origin(s.origin)}" for s in plan.sources]
        with session.exclusive_settings(self.spark, effects["session"]):
            functions = function_texts(self.spark, plan)
            placement = placement_facts(self._fusion(effects), files, shards, tasks)
        clock = effects["idle_after_ms"] > 0 or self.topology.by_wall
        begins = bootstrap.begins_to_record(plan.sources, files.binding.begins if files.binding else None)
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
            **placement,
            described=described(
                with_known_domains(written, partitions, begins),
                {s.name: sources.describe_origin(s.origin) for s in plan.sources},
                functions,
            ),
            inputs=sources.inputs_of(plan.sources, begins, clock=clock),
            begins=begins,
            **self._topics.facts(files.binding, ask=recorded is None),
        )

    def _fusion(self, effects: Mapping[str, Any]) -> Fusion:
        """How operators hand on their results under these settings of the session: Spark is asked once."""
        return self._fusions.setdefault(str(effects["session"]), Fusion(self.spark, self.topology))

    def _begins_small(self, partitions: Mapping[str, int]) -> bool:
        """Whether all inputs are topics with few records: then one task runs all levels."""
        plan, kafka = self.topology.plan, self.options.kafka
        if kafka is None or plan.patterns or any(s.origin.topic is None or s.bootstrap for s in plan.sources):
            return False
        return sources.have_few_records(kafka, partitions)

    @cached_property
    def _inputs(self) -> SynchronizedInputs:
        inputs = (self.topology.plan.sources, self.options.kafka)
        return SynchronizedInputs.of(*inputs, available_now=self.options.available_now)

    @cached_property
    def _topics(self) -> TopicIds:
        return TopicIds.of(self.topology.plan.sources, self.topology.plan.sinks, self.options.kafka)

    def _partitions(self) -> dict[str, int]:
        read = self.topology.plan.sources
        if not (topics := sorted(self._topics.read)):
            return {}
        return partition_counts(self.spark, topics, sources.connected(read, self.options.kafka))
