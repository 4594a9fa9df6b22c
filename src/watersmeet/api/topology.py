"""Topology: what `StreamsBuilder.build` returns; it can be read, tested and started.

Immutable: the plan and its levels are fixed when it is made.
"""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from watersmeet._plan.construction import Construction
from watersmeet._plan.evolve import Change
from watersmeet._plan.explain import explain, stores_text
from watersmeet._plan.logical import Plan, with_dead_letters, without_dead_letters
from watersmeet._plan.pictures import Picture, levels_picture, mermaid, nodes_picture, svg
from watersmeet._plan.rewrite import rewrite
from watersmeet.api.handle import Side, side_of
from watersmeet.api.outputs import written
from watersmeet.errors import ConfigError, TopologyError
from watersmeet.functions import FunctionBackend
from watersmeet.hints import answered, answering
from watersmeet.io.kafka import Kafka
from watersmeet.io.origins import described
from watersmeet.io.outputs import Writer, check_path
from watersmeet.windows import Duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from watersmeet._plan.physical import Physical
    from watersmeet._spark.query.query import Query
    from watersmeet._spark.query.start import StartOptions
    from watersmeet.provenance import Why
    from watersmeet.replay import Replay, Trace


_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


@answering
class Topology:
    """A topology, ready to run.

    Made by `StreamsBuilder.build`.
    """

    def __init__(self, plan: Plan, functions: FunctionBackend) -> None:
        self.functions = functions
        self.physical = rewrite(plan)
        while lookups := functions.separate_lookups(self.physical):
            lookups |= self.physical.plan.separate_lookups
            self.physical = rewrite(replace(plan, separate_lookups=lookups))
        self.plan = self.physical.plan

    def __repr__(self) -> str:
        written = without_dead_letters(self.plan)
        inputs = [source.input for source in written.sources]
        outputs = [sink.output for sink in written.sinks]
        levels = self.physical.levels
        return f"Topology({self.plan.application!r}, inputs={inputs}, outputs={outputs}, levels={levels})"

    def describe(self, *, stores: bool = False) -> str:
        """The topology as text: its nodes in order of construction, its levels, and where its functions run.

        Parameters
        ----------
        stores : whether to add its stores, with what they keep and for how long.
        """
        lines = self.functions.where_they_run(self.physical)
        functions = "".join(["Functions:\n", *(f"  {line}\n" for line in lines)] if lines else [])
        return explain(self.physical) + (stores_text(self.physical) if stores else "") + functions

    def to_mermaid(self, *, levels: bool = False) -> str:
        """The topology as a Mermaid flowchart: inputs, operators with their stores, outputs.

        Pages of Markdown show it as a picture (GitHub, GitLab, notebooks).

        Parameters
        ----------
        levels : whether to draw what the topology becomes: every operator in its level, and the steps between.
        """
        return mermaid(self._picture(levels))

    def to_svg(self, *, levels: bool = False) -> str:
        """The topology as a picture: the text of an SVG file, which needs nothing besides. Notebooks show it.

        Parameters
        ----------
        levels : as in `to_mermaid`.
        """
        return svg(self._picture(levels))

    def _picture(self, levels: bool) -> Picture:
        return levels_picture(self.physical) if levels else nodes_picture(self.physical)

    def _repr_html_(self) -> str:
        return f'<div style="overflow:auto">{self.to_svg()}</div>'

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def start(
        self,
        spark: SparkSession,
        *,
        checkpoint: str | os.PathLike[str],
        kafka: Kafka | None = None,
        shards: int | None = None,
        tasks: int | None = None,
        trigger: Duration | None = None,
        available_now: bool = False,
        local_cache: str | os.PathLike[str] | None = None,
        allow_partition_change: bool = False,
        allow_changed_functions: bool = False,
        allow_recreated_topics: bool = False,
        evolve: bool = False,
        replace: Sequence[str] | None = None,
        deploy: bool = False,
        back: bool = False,
        if_equal: int | None = None,
        idle_after: Duration | None = None,
        record_cache: bool = False,
        name: str | None = None,
        metrics_port: int | str | None = None,
        progress: bool = False,
        explain: bool | Duration = False,
    ) -> Query:
        """Start the topology as one streaming query.

        Parameters
        ----------
        spark : the session; `watersmeet.session()` makes one with the right settings.
        checkpoint : folder of the query's checkpoint: offsets, state, and the topology's own facts. A
            restart with the same folder goes on where it stopped.
        kafka : the connection, where the topology reads or writes topics.
        shards : shards of each operator; default 2 per task, then as recorded. Another number needs ``evolve=True``.
        tasks : tasks of each exchange, then as recorded. Another number needs ``evolve=True``. Default: Spark's
            parallelism (the cores); 1 where the query begins with topics that have at most 10,000 records. One task
            runs all levels behind one another, without an exchange.
        trigger : processing interval, a duration ("1 second"); None: one batch follows the other.
        available_now : process what is there, in batches of the rate limit, and stop.
        local_cache : folder of each machine's cache of state; default below its folder for temporary files. Made for
            its user alone; one that others may write to is not used, with a warning.
        allow_partition_change : start although a topic has another number of partitions than at the first start.
        allow_changed_functions : start although a function that state depends on is another than before: what that
            one has left in state stays, and meets what the new one gives. Others may change: a warning names them.
        allow_recreated_topics : go on at the recorded offsets although a topic that is read has another id than before:
            it was deleted and made anew, or lies in another cluster.
        evolve : go on although the topology is another than before: what is found by its name goes on, the rest starts
            empty or is dropped. `plan_change` says what this does; what cannot go on is refused. With another number of
            shards or tasks the state is divided anew.
        replace : with ``evolve=True``, names of stored tables. If the definition of one has changed, it is computed
            anew over the tables that are stored above it, and only rows that differ go out, deletions included; see
            docs/change.md.
        deploy : take the place of the topology that runs on the checkpoint, as ``evolve=True`` without its stop: the
            call returns when this one has caught up beside it, that one has ended behind a batch, and this one goes on
            with the next. See docs/change.md.
        back : with ``deploy=True``, return to the topology that ran before the running one, and to the state that it
            would have: it runs the batches since from where it stopped, if no other change came in between.
        if_equal : with ``deploy=True``, refuse to take its place if more rows of the stores differ behind one batch.
        idle_after : a duration ("1 minute"): when no record has come for so long, time goes on with the wall
            clock, so that pending results of windowed joins come out; off by default. See the notes.
        record_cache : whether a key of a table gives one result per batch, from what it was before to what it is
            then, instead of one for each change (in Kafka Streams: statestore.cache.max.bytes above 0). Tables that
            streams look up are not cached. It may be another one at each start: a batch that was not finished is first
            finished as it was begun.
        name : the query's name in Spark.
        metrics_port : serve the query's numbers to Prometheus at this port of the driver, on all its addresses; or
            "host:port", on one; 0 takes a free port, which ``query.metrics_port`` says. Needs the extra ``watch``.
        progress : whether to show how far the query is in a line of the terminal or notebook that it is started in;
            nothing is shown where there is neither. Needs the extra ``watch``.
        explain : how long to keep a journal of the input records, a duration ("1 day"), or True for ever: `why` then
            says which of them a row comes from. The checkpoint must lie on a disk that all machines mount.

        Notes
        -----
        Time is that of the records: what a windowed join holds back comes out when a later record comes, which
        may be never. With ``idle_after="1 minute"`` time goes on by itself when no record has come for a minute
        by the wall clock: each partition's time is then its last one plus the wall clock that has gone by since.
        This gives up that results depend on the records alone: a record that comes after such a rest with a
        timestamp from before it (an outage of its producer, a clock that is behind) is late, its partners may
        have been let go without it, and the same records read again, without the rest, give other results. A
        batch that is replayed still gives the same. A batch runs every second, since the clock is a source of
        the query; a checkpoint that was begun without the option cannot be continued with it, nor the other way
        round. Test drivers have no such clock.

        Raises
        ------
        ConfigError : an option, a setting of the session, a source or a sink does not fit, or a query runs on the
            checkpoint.
        CorruptData : the checkpoint is not whole; see docs/checkpoints.md.
        ChangedTopology : the checkpoint belongs to another topology, shard count, generation or format.
        SourceError : a topic that is read was deleted and made anew.
        """
        from watersmeet._spark.query.start import StartOptions

        cache = None if local_cache is None else os.fspath(local_cache)
        allow: dict[str, Any] = {
            "allow_partition_change": allow_partition_change,
            "allow_changed_functions": allow_changed_functions,
            "allow_recreated_topics": allow_recreated_topics,
        }
        change: dict[str, Any] = {"evolve": evolve, "replace": replace, "deploy": deploy, "back": back}
        rules: dict[str, Any] = {"idle_after": idle_after, "record_cache": record_cache, "if_equal": if_equal}
        watch: dict[str, Any] = {"name": name, "metrics_port": metrics_port, "progress": progress, "explain": explain}
        options = StartOptions(kafka, shards, tasks, trigger, available_now, cache, **allow, **change, **rules, **watch)
        return self._started(spark, self._place(checkpoint), options)

    def frame(
        self,
        spark: SparkSession,
        name: str,
        *,
        checkpoint: str | os.PathLike[str],
        kafka: Kafka | None = None,
        shards: int | None = None,
        tasks: int | None = None,
        flat: bool = False,
    ) -> DataFrame:
        """An output as a streaming DataFrame, for Spark's own operators, writers, tables and pipelines.

        The query is then yours: `frame.writeStream...start()`. It computes the whole topology, and leaves its other
        outputs out. Rows that are read again after a failure are the same, with the same `sequence`; how often they are
        written is up to what writes them. See docs/frames.md.

        Parameters
        ----------
        spark : the session; it keeps the settings that the query needs.
        name : the output's name.
        checkpoint : folder of the record of the topology, best that of the query's own checkpoint
            (`checkpointLocation`): a frame for another topology is refused there.
        kafka : the connection, where the topology reads topics.
        shards, tasks : as in `start`.
        flat : a column for each field of key and value, in place of these two; times of windows are timestamps.

        Returns
        -------
        DataFrame : the columns key, value (null: a deletion), timestamp, sequence (of two changes of a key, the later
            one has the higher), headers where a topic keeps them, and operation, "upsert" or "delete".

        Raises
        ------
        TopologyError : the topology does not write this output, or reads what it writes.
        ConfigError : an option or a setting does not fit, or the topology needs what only a query that watersmeet
            starts has.
        ChangedTopology : the checkpoint belongs to another topology, shard count, generation or format.

        Examples
        --------
        >>> priced = topology.frame(spark, "priced", checkpoint="/data/priced")  # doctest: +SKIP
        >>> priced.writeStream.option("checkpointLocation", "/data/priced").toTable("priced")  # doctest: +SKIP
        """
        from watersmeet._spark.outputs.latest import changes
        from watersmeet._spark.query.start import StartOptions, frame

        if not isinstance(flat, bool):
            raise ConfigError(f"flat must be True or False: flat={flat!r:.80}.", hint="flat=True")
        options = StartOptions(kafka=kafka, shards=shards, tasks=tasks)
        return changes(frame(self._with_output(name), spark, self._place(checkpoint), options), is_flat=flat)

    def _with_output(self, name: str) -> Physical:
        """The same topology with this output alone, of rows; its tables are those that it has with all of them."""
        outputs = {sink.output: sink for sink in without_dead_letters(self.plan).sinks}
        sink = outputs.get(name)
        if sink is None or sink.target.is_placed:
            reason = (
                "does not write it" if sink is None else "chooses its partitions by a function, which a frame lacks"
            )
            names = ", ".join(repr(output) for output, node in outputs.items() if not node.target.is_placed)
            raise TopologyError(
                f"A frame cannot be made of {name!r:.80}: the topology {reason}.",
                given=f"outputs {', '.join(map(repr, outputs)):.200}",
                hint=f"Name one of these: {names:.200}."
                if names
                else "Add one: table.to(wm.ForeachBatch(f), name=...).",
            )
        topics = {node.target.topic for node in outputs.values()} & {
            source.origin.topic for source in self.plan.sources
        }
        for topic in sorted(topics - {None}):
            raise TopologyError(
                f"A frame cannot be made of {name!r:.80}: the topology reads {topic!r:.80}, which it writes.",
                hint="Start it: topology.start(...). A frame leaves the other outputs out.",
            )
        left_out = {node.name for node in outputs.values()} - {sink.name}
        nodes = tuple(node for node in self.plan.nodes if node.name not in left_out)
        return rewrite(replace(self.plan, nodes=nodes).with_nodes([replace(sink, target=Writer("noop"))]))

    def _started(self, spark: SparkSession, place: str, options: StartOptions) -> Query:
        from watersmeet._spark.query.start import start

        if options.explain is False:
            return start(self.physical, spark, place, options)
        from watersmeet import provenance, replay

        provenance.replayable(spark, self.physical)
        query = start(self.physical, spark, place, options)
        query.explain_by(*(partial(answer, spark, place, self.physical) for answer in (provenance.why, replay.trace)))
        return query

    def why(self, spark: SparkSession, *, checkpoint: str | os.PathLike[str], table: str, key: Any) -> Why:
        """The input records that a table's row comes from; the query was started with `explain=`.

        The query may run meanwhile, or have ended. The records of its journal run once more through the topology, in
        this process: its functions are called again.

        Parameters
        ----------
        spark : the session that reads.
        checkpoint : the folder that the query was started with.
        table : name of the table, as `store=` names it, or as `describe` does.
        key : the key; a struct as a dict or a Row.

        Returns
        -------
        Why : the row, its records, and what the journal does not know; it prints as a tree.

        Raises
        ------
        ConfigError : there is no journal, no such table, the key is of another type, or the checkpoint belongs to
            another topology.

        Examples
        --------
        >>> print(topology.why(spark, checkpoint="/data/orders", table="open-orders", key=42))  # doctest: +SKIP
        """
        from watersmeet import provenance

        return provenance.why(spark, checkpoint_folder(checkpoint), self.physical, table, key)

    def replay(
        self,
        spark: SparkSession,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        previous: Topology | None = None,
        kafka: Kafka | None = None,
        limit: int = 20,
    ) -> Replay:
        """A replay of a query's input records through this topology, before it is started.

        The records run once more, in this process: functions are called again, nothing is written, and the query may
        run meanwhile. With `checkpoint=` they are those of its journal (`explain=`), and stores are compared with those
        of the checkpoint. Without it they are those that the inputs of `previous` have now, from their
        `starting_offsets=` on: `previous` reads them in a checkpoint that is removed. With `previous=`, stores and
        outputs are compared with those that the previous topology gives over the same records.

        Parameters
        ----------
        spark : the session that reads.
        checkpoint : the folder that the query was started with; None: what the inputs have now is replayed.
        previous : the topology that the query was started with; None: the checkpoint's stores alone are compared.
        kafka : the connection, where topics are read without `checkpoint`.
        limit : number of rows that are listed of each store and output; all are counted.

        Returns
        -------
        Replay : a comparison for each store and each output, and what could not be compared; it prints as text.

        Raises
        ------
        ConfigError : there is no journal, there are no records, or a topology cannot be replayed in this process.

        Examples
        --------
        >>> print(changed.replay(spark, checkpoint="/data/orders", previous=topology))  # doctest: +SKIP
        >>> print(changed.replay(spark, previous=topology, kafka=wm.Kafka("localhost:9092")))  # doctest: +SKIP
        """
        from watersmeet import replay

        if previous is not None:
            check_topology(previous, "topology.replay(spark, checkpoint=..., previous={})")
        physical = None if previous is None else previous.physical
        folder = None if checkpoint is None else checkpoint_folder(checkpoint)
        return replay.replay(spark, folder, self.physical, physical, limit, kafka)

    def trace(self, spark: SparkSession, *, checkpoint: str | os.PathLike[str], record: str) -> Trace:
        """The way of one input record through this topology, operator by operator, with each store before and after.

        The query was started with `explain=`, and may run meanwhile. The records of its journal up to this one run once
        more, in this process.

        Parameters
        ----------
        spark : the session that reads.
        checkpoint : the folder that the query was started with.
        record : the record's place, as `why` shows it: "orders-0@812".

        Returns
        -------
        Trace : the operators to which it came, and the results that it caused; it prints as text, and `to_test` makes
            a test of it.

        Raises
        ------
        ConfigError : there is no journal, the record is not in it, or the topology cannot be replayed in this process.

        Examples
        --------
        >>> print(topology.trace(spark, checkpoint="/data/orders", record="orders-0@812"))  # doctest: +SKIP
        """
        from watersmeet import replay

        return replay.trace(spark, checkpoint_folder(checkpoint), self.physical, record)

    def _place(self, checkpoint: Any) -> str:
        """The checkpoint's folder, if there is anything to start."""
        place = checkpoint_folder(checkpoint)
        if not without_dead_letters(self.plan).sinks:
            names = ", ".join(repr(source.name) for source in self.plan.sources)
            raise TopologyError(
                f"The topology reads {names:.120}, but writes nothing.",
                hint="End it with stream.to(...).",
            )
        return place


def check_topology(topology: Any, call: str) -> None:
    """Raise unless it is a topology that has been built.

    Parameters
    ----------
    call : how what gets the topology is called, with {} where that stands.

    Raises
    ------
    TopologyError : it is something else.
    """
    if not isinstance(topology, Topology):
        label = (
            type(topology).__name__
            if hasattr(topology, "_construction")
            else f"{type(topology).__name__}: {topology!r:.80}"
        )
        raise TopologyError(
            f"This call takes a Topology, which builder.build() returns, and not a {label}.",
            hint=f"Build it first: {call.format('builder.build()')}.",
        )


@answered
def plan_change(
    checkpoint: str | os.PathLike[str],
    topology: Topology,
    *,
    kafka: Kafka | None = None,
    shards: int | None = None,
    tasks: int | None = None,
    allow_changed_functions: bool = False,
    replace: Sequence[str] | None = None,
) -> Change:
    """What `topology.start(..., evolve=True)` would do to a checkpoint; nothing is done.

    Parameters
    ----------
    checkpoint : the folder that the query was started with; the query may run meanwhile.
    topology : as it is to be from now on.
    kafka : the connection: how many partitions topics have is then asked, and not taken from the checkpoint.
    shards, tasks, allow_changed_functions : as in `Topology.start`.
    replace : as in `Topology.start`: how many rows differ is then counted. That takes as long as the change itself,
        and room for its state beside the checkpoint's.

    Returns
    -------
    Change : what is kept, starts empty, is dropped, is widened, replaced or refused, with reasons and hints; it prints
        as text.

    Raises
    ------
    ConfigError : there is no session, no topology was started upon the folder, or its record says too little.

    Examples
    --------
    >>> print(wm.plan_change("/data/orders", topology))  # doctest: +SKIP
    """
    from pyspark.sql import SparkSession

    from watersmeet._spark.query.start import StartOptions
    from watersmeet._spark.query.start import plan_change as planned

    spark = SparkSession.getActiveSession()
    if spark is None:
        raise ConfigError("There is no Spark session.", hint="Make one first: spark = watersmeet.session(...).")
    check_topology(topology, "wm.plan_change(checkpoint, {})")
    allowed = allow_changed_functions
    options = StartOptions(kafka, shards, tasks, allow_changed_functions=allowed, evolve=True, replace=replace)
    return planned(topology.physical, spark, os.fspath(checkpoint), options)


def checkpoint_folder(checkpoint: Any) -> str:
    """The checkpoint's folder as text.

    Raises
    ------
    ConfigError : it is no path.
    """
    path = os.fspath(checkpoint) if isinstance(checkpoint, os.PathLike) else checkpoint
    if isinstance(path, str) and _DRIVE.match(path) and os.name != "nt":
        suffix = path[2:].replace("\\", "/").lstrip("/")
        raise ConfigError(
            f"checkpoint={path!r:.120} begins with a drive, which Hadoop takes for an unknown scheme.",
            hint=f"Write a path of this machine, checkpoint='/{suffix}'; on Windows a drive is "
            f"file:///{path[0]}:/{suffix}.",
        )
    if isinstance(path, str) and path:
        check_path(path, "checkpoint")
        return path
    raise ConfigError(
        f"A topology needs a checkpoint location, a folder: checkpoint={checkpoint!r:.80}.",
        hint="Name a folder that outlives the query: topology.start(spark, checkpoint='...').",
    )


@answered
def flow(
    build: Callable[[SparkSession], Topology],
    spark: SparkSession,
    name: str,
    *,
    checkpoint: str | os.PathLike[str],
    kafka: Kafka | None = None,
    shards: int | None = None,
    tasks: int | None = None,
    flat: bool = False,
) -> DataFrame:
    """An output of a topology as a flow of Spark Declarative Pipelines: what a function under `@dp.table` returns.

    A pipeline has a session of Spark Connect. Its server must run in the same process, where `spark-pipelines run`
    starts it by itself. See docs/frames.md.

    Parameters
    ----------
    build : makes the topology. It gets a session of the server's own, which has to read all inputs.
    spark : the pipeline's session.
    name, checkpoint, kafka, shards, tasks, flat : as in `Topology.frame`.

    Returns
    -------
    DataFrame : of the pipeline's session, with the columns of `Topology.frame`.

    Raises
    ------
    ConfigError : the session is not one of Spark Connect, or its server is another process; `Topology.frame` has more.

    Examples
    --------
    >>> @dp.table  # doctest: +SKIP
    ... def priced():
    ...     return wm.flow(topology, spark, "priced", checkpoint="/data/priced", flat=True)
    """
    from watersmeet._spark.session import connect_server

    with connect_server(spark) as (server, view_query):
        topology = build(server)
        if not isinstance(topology, Topology):
            raise ConfigError(
                f"The function of wm.flow must return a topology, and not {described(topology)}.",
                hint="End it with: return builder.build()",
            )
        options: dict[str, Any] = {"kafka": kafka, "shards": shards, "tasks": tasks, "flat": flat}
        query = view_query(topology.frame(server, name, checkpoint=checkpoint, **options))
    return spark.sql(query)


@answered
def preview(rows: Any, *, kafka: Kafka | None = None) -> pd.DataFrame:
    """The rows of a stream or a table, made of all that its inputs have now, as a DataFrame of pandas.

    The operators that lead to it run once, in a checkpoint that is removed; the builder goes on.
    Of a table there is a row for each key, of a stream one for each record, by time.

    Parameters
    ----------
    rows : a KStream, a KTable or a WTable.
    kafka : the connection, where it reads topics.

    Returns
    -------
    pandas.DataFrame : the key's columns (`key`, or the fields of a struct; behind it `start` and `end` of its window,
        in the session's time zone), the value's (`value`, or the fields of a struct), and of a stream `timestamp`.

    Raises
    ------
    ConfigError : it is no stream and no table, there is no session, or topics are read without `kafka`.

    Examples
    --------
    >>> wm.preview(sessions).plot.barh(x="start", y="clicks")  # doctest: +SKIP
    """
    from pyspark.sql import SparkSession

    from watersmeet._spark.outputs.latest import flat, latest

    side, spark = side_of(rows), SparkSession.getActiveSession()
    if side is None or side.kind == "global":
        raise ConfigError(
            f"wm.preview takes a stream or a table, and not {described(rows)}.",
            hint="wm.preview(table): what builder.table(...), agg(...) or join(...) returned.",
        )
    if spark is None:
        raise ConfigError("wm.preview runs the topology, and there is no session.", hint='spark = wm.session("look")')
    with tempfile.TemporaryDirectory(prefix="watersmeet-preview-") as folder:
        topology = Topology(_above(side, Writer("parquet", path=f"{folder}/rows")), side.functions)
        topology.start(spark, checkpoint=f"{folder}/checkpoint", kafka=kafka, available_now=True).awaitTermination()
        changes = spark.read.parquet(f"{folder}/rows")
        if side.kind == "stream":
            return flat(changes.orderBy("timestamp", "sequence").select("key", "value", "timestamp")).toPandas()
        # in an order that a line of a plot can follow
        return flat(latest(changes).orderBy("key").select("key", "value")).toPandas()


def _above(side: Side, target: Writer) -> Plan:
    """The plan of what leads to a stream or a table, with an output of its own."""
    construction, names = side.construction, {side.name}
    for node in reversed(construction.nodes):
        if node.name in names:
            names.update(node.inputs)
    copy = Construction(construction.application, construction.generation, construction.functions)
    for node in construction.nodes:
        if node.name in names:
            copy.add(node)
    written(replace(side, construction=copy), target, {}, "preview")
    return with_dead_letters(copy.plan(), copy.functions)
