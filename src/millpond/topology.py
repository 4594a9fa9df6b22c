"""Topology: what `StreamsBuilder.build` returns; it can be read, tested and started.

Top layer, beside the builder. Immutable: the plan and its levels are fixed when it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millpond._plan.explain import explain
from millpond._plan.logical import Plan
from millpond._plan.rewrite import rewrite
from millpond.errors import ConfigError, TopologyError
from millpond.functions import FunctionBackend

if TYPE_CHECKING:
    from millpond._spark.query import Query


class Topology:
    """A topology, ready to run.

    Made by `StreamsBuilder.build`.
    """

    def __init__(self, plan: Plan, functions: FunctionBackend) -> None:
        self.plan = plan
        self.functions = functions
        self.physical = rewrite(plan)

    def describe(self) -> str:
        """The topology as text: its nodes in order of construction, and its levels."""
        return explain(self.physical)

    def start(self, spark: Any, *, checkpoint: str, **options: Any) -> Query:
        """Start the topology as one streaming query.

        Parameters
        ----------
        spark : the session; `millpond.session()` makes one with the right settings.
        checkpoint : folder of the query's checkpoint: offsets, state, and the topology's own facts. A
            restart with the same folder goes on where it stopped.
        options : see `millpond._spark.start_options.StartOptions`: kafka=, shards=, tasks=, trigger=,
            available_now=, local_cache=, allow_partition_change=, idle_after=, record_cache=.

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
        ConfigError : a setting of the session, a source or a sink does not fit, or a query runs on the checkpoint.
        CorruptData : the checkpoint is not whole; see docs/checkpoints.md.
        ChangedTopology : the checkpoint belongs to another topology, shard count, generation or format.
        """
        if not checkpoint or not isinstance(checkpoint, str):
            raise ConfigError(
                "A topology needs a checkpoint location.",
                given=f"checkpoint={checkpoint!r}",
                hint="Name a folder that outlives the query: topology.start(spark, checkpoint='...').",
            )
        if not self.plan.sinks:
            raise TopologyError("The topology writes nothing.", hint="End it with stream.to(...).")
        from millpond._spark.query import start

        return start(self, spark, checkpoint, **options)


def session(app_name: str = "millpond", **options: Any) -> Any:
    """A Spark session with the settings and jars that topologies need.

    Parameters
    ----------
    app_name : its name in Spark.
    options : master=, kafka=, jars=, config=; see `millpond._spark.session.session`.
    """
    from millpond._spark.session import session as make

    return make(app_name, **options)
