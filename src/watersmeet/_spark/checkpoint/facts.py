"""The facts that a checkpoint depends on, recorded in it, and how two such records differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from watersmeet._plan.change.items import Item

Texts = Mapping[str, Mapping[str, str]]
"""By node and role."""

_FORMS = {
    **{"topology": str, "generation": str, "shards": int, "tasks": int, "clock": bool, "spark": str, "inputs": list},
    "marks": str,
}
"""What JSON has of a fact; of all others an object."""
REASONS = {
    "topology": ("another topology", "State, plans and outputs belong to its nodes by their names."),
    "generation": ("another generation of semantics", "The state follows the rules of its generation."),
    "shards": (
        "another number of shards",
        "Rows of state lie by shard: leave shards= out, it is then as recorded; or start it once with evolve=True, "
        "which divides the state anew.",
    ),
    "tasks": (
        "another number of tasks",
        "Shards are spread over tasks: leave tasks= out, it is then as recorded; or start it once with evolve=True.",
    ),
    "clock": (
        "another clock",
        "The clock of idle_after= and of timers by the wall clock is a source of the query, which its plans must find "
        "again: how long a rest is may change, whether there is a clock may not.",
    ),
}
"""By fact what another value of it means, and why a start refuses it."""


@dataclass(frozen=True)
class CheckpointFacts:
    """The facts that a checkpoint depends on.

    Parameters
    ----------
    topology : its text, with what is known of its inputs; no secrets.
    generation : the Kafka version of its rules.
    shards, tasks : how it is spread.
    formats : version of each format that is kept: blobs, state.
    partitions : partition count of each topic that is read.
    clock : whether the wall clock is a source of the query.
    effects : what else a batch's results depend on, and may be another from batch to batch.
    functions : what each node's functions come to.
    spark : the version of Spark that defines this.
    addresses : the labels of each node's tables, by range of the hash: where the state lies.
    stores : what is shown of each table that users see, by its name.
    described : operators, inputs and outputs, as a change of the topology is judged by them.
    inputs : the name of each of Spark's sources, in the order of its plans.
    begins : what inputs begin with, by the input's name.
    topics : the id of each topic that is read or written, where Kafka says it.
    marks : the topic with offsets that mark the batches in Kafka; it stays when outputs are added.
    """

    topology: str
    generation: str
    shards: int
    tasks: int
    formats: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    clock: bool = False
    effects: Mapping[str, Any] = field(default_factory=dict)
    functions: Texts = field(default_factory=dict)
    spark: str = ""
    addresses: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    stores: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    described: Mapping[str, Any] = field(default_factory=dict)
    inputs: Sequence[str] = field(default_factory=list)
    begins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    marks: str = ""

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> CheckpointFacts:
        """Facts as a record has them.

        Raises
        ------
        ValueError, TypeError : it has others, or of another form.
        """
        for name, value in written.items():
            kind = _FORMS.get(name, dict)
            if type(value) is not kind or (isinstance(value, int) and kind is int and value < 1):
                raise ValueError(f"{name} is {value!r:.80}")
        numbers = [*written.get("formats", {}).values(), *written.get("partitions", {}).values()]
        if not all(type(number) is int for number in numbers):
            raise ValueError(f"formats and partitions {numbers!r:.80}")
        return cls(**written)

    def stored_name(self, table: str) -> str:
        """The name of a table in state: the lender's name for it if the table is lent."""
        return str(self.stores.get(table, {}).get("stored", "") or table)

    def lines(self) -> list[str]:
        """The facts that may not change, as text, one each line, for comparing."""
        text = [f"generation: {self.generation}", f"shards: {self.shards}", f"tasks: {self.tasks}"]
        text += [f"format of {name}: {version}" for name, version in sorted(self.formats.items())]
        text += [f"partitions of {name}: {count}" for name, count in sorted(self.partitions.items())]
        text += [
            "time: the wall clock is read (idle_after, or timers by it)" if self.clock else "time: that of the records"
        ]
        return text + self.topology.splitlines()


def changed_functions(old: CheckpointFacts, new: CheckpointFacts) -> dict[tuple[str, str], tuple[str, str]]:
    """By node and role what a function was, and is."""
    if old.spark != new.spark:
        # it may spell the same expression otherwise
        return {}
    roles = [(node, role) for node, texts in new.functions.items() for role in texts]
    pairs = {at: (old.functions.get(at[0], {}).get(at[1], ""), new.functions[at[0]][at[1]]) for at in roles}
    return {at: pair for at, pair in pairs.items() if pair[0] != pair[1]}


def carried_over(old: CheckpointFacts, new: CheckpointFacts) -> CheckpointFacts:
    """The facts that still bind when topology, shards or tasks change: settings, and the nodes of both topologies."""
    topics = {name: old.partitions.get(name, count) for name, count in new.partitions.items()}
    functions = {
        node: {role: old.functions.get(node, {}).get(role, text) for role, text in texts.items()}
        for node, texts in new.functions.items()
    }
    spread = replace(old, shards=new.shards, tasks=new.tasks)
    return replace(spread, topology=new.topology, partitions=topics, functions=functions)


def changed_settings(old: CheckpointFacts, new: CheckpointFacts) -> list[Item]:
    """The facts that may not change with a topology either."""
    differ = [name for name in ("generation", "clock", "formats") if _differ(old, new, name)]
    return [
        Item(
            "settings",
            name,
            "refused",
            reason=f"was {getattr(old, name)}, is {getattr(new, name)}",
            hint="Leave it as it was.",
        )
        for name in differ
    ]


def changed_layout(old: CheckpointFacts, new: CheckpointFacts) -> list[Item]:
    """How state is divided otherwise than before."""
    return [
        Item("settings", name, "changed", reason=f"was {getattr(old, name)}, is {getattr(new, name)}")
        for name in ("shards", "tasks")
        if _differ(old, new, name)
    ]


def _differ(old: CheckpointFacts, new: CheckpointFacts, name: str) -> bool:
    return bool(getattr(old, name) != getattr(new, name))


def changed_function(node: str, role: str, before: str, now: str) -> str:
    """A function that is another, as text."""
    return f"{role} of {node!r}: it was {before or 'unknown'}, it is {now or 'unknown'}"
