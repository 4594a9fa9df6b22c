"""StreamsBuilder: where a topology is begun, with its policies, and where it ends, built.

Builder and handles add nodes to one `Construction`; `build` turns its list into an immutable plan, rewrites
that into levels, and hands both to a Topology.
"""

from __future__ import annotations

from dataclasses import replace

from watersmeet._plan.construction import Construction
from watersmeet._plan.dead_letters import with_dead_letters
from watersmeet._plan.inputs import Inputs
from watersmeet._plan.outputs import check_fed_back
from watersmeet._plan.policies import by_node, check_named
from watersmeet.builder.inputs import InputReading
from watersmeet.errors import TopologyError
from watersmeet.functions import FunctionBackend
from watersmeet.generation import Generation
from watersmeet.io.policies import (
    WITHIN,
    OnDrop,
    OnError,
    OnUndecodable,
    OperatorPolicies,
    Policies,
    named_policies,
    whole,
)
from watersmeet.names import answering
from watersmeet.topology import Topology


@answering
class StreamsBuilder(InputReading):
    """Writes down a topology.

    Parameters
    ----------
    application_id : names the application; part of every group and transactional id it uses.
    generation : semantics that joins follow: "current", or "spurious" (0.10.2 to 3.0), "old" (0.10.1),
        "old-0.10.0" to reproduce what earlier releases of Kafka Streams did.
    on_undecodable : the policy for records of topics with bytes that their formats cannot decode, if an input has none
        of its own: "fail" stops the query and says where they are, "skip" leaves them out and counts them,
        `wm.DeadLetter("topic")` counts them and writes them to that topic.
    on_error : the same of records for which a function raises, or that an output cannot write; "fail" stops the query.
    on_drop : what becomes of records that are late, expired or lack the key or value that an operator needs: "skip"
        counts them, as Kafka Streams does, `wm.DeadLetter("topic")` counts them and writes them to that topic.

    Examples
    --------
    >>> builder = StreamsBuilder("orders")
    >>> orders = builder.table("orders", key="string", value="string")
    """

    def __init__(
        self,
        application_id: str,
        *,
        generation: str | Generation = Generation.CURRENT,
        on_undecodable: OnUndecodable = "fail",
        on_error: OnError = "fail",
        on_drop: OnDrop = "skip",
        _functions: FunctionBackend | None = None,
    ) -> None:
        if not application_id or not isinstance(application_id, str):
            raise TopologyError(
                f"A topology needs an application id, a text: {application_id!r:.80}.",
                hint="For example wm.StreamsBuilder('orders').",
            )
        self.application_id = application_id
        self.generation = Generation.of(generation)
        self._construction = Construction(application_id, self.generation, _functions or _spark_functions())
        policies = whole(on_undecodable, on_error, on_drop)
        self._inputs = Inputs(self._construction, policies)
        self._within = OperatorPolicies(policies.only(WITHIN))

    def __repr__(self) -> str:
        return f"StreamsBuilder({self.application_id!r}, inputs={sorted(self._inputs.names)})"

    def policies(self, name: str, *, on_error: OnError | None = None, on_drop: OnDrop | None = None) -> None:
        """Say of one operator or output what becomes of records that end there, in place of what the builder says.

        Parameters
        ----------
        name : the operator's or the output's, as `name=` gave it, or `describe` and `query.drops` have it.
        on_error : of an operator, what becomes of its results for which a function behind it raises; of an output that
            is a topic, of rows that its formats do not write.
        on_drop : what becomes of records that the operator drops.

        Raises
        ------
        TopologyError : unknown policy, or the name has policies already. `build` raises for an unknown operator or
            output.

        Examples
        --------
        >>> builder = StreamsBuilder("visits", on_error="skip")
        >>> visits = builder.stream("visits", key="string", value="string")
        >>> visits.group_by_key().count(name="counts").to_stream().to("counted")
        >>> builder.policies("counts", on_error="fail", on_drop="skip")
        """
        self._construction.check_open(f"policies({name!r}, ...)")
        self._construction.set_policies(name, named_policies(name, Policies(on_error=on_error, on_drop=on_drop)))

    def build(self) -> Topology:
        """The topology as written so far, checked and rewritten into levels.

        Raises
        ------
        TopologyError : it reads nothing, or has policies for an operator or output that it has not. That it writes
            nothing is said at a start: a test driver, or a look at its stores, needs no output.
        ConfigError : `on_error` is to outlive a function that Spark evaluates, which fails the query all the same.
        """
        plan = self._construction.plan()
        plan = replace(plan, within=replace(self._within, named=by_node(plan, self._construction.named_policies)))
        if not plan.sources:
            raise TopologyError("The topology reads nothing.", hint="Begin with builder.stream or builder.table.")
        check_named(plan)
        check_fed_back(plan.nodes)
        functions = self._construction.functions
        topology = Topology(with_dead_letters(plan, functions), functions)
        functions.check_outlived(topology.physical)
        return topology


def _spark_functions() -> FunctionBackend:
    from watersmeet._spark.functions.functions import ColumnFunctions

    return ColumnFunctions()
