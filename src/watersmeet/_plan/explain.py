"""A plan as text, stable over runs and versions of Spark: for people, snapshots and checkpoints.

Functions cannot be printed, so two topologies that differ in a function alone have one text; names, types,
inputs, kinds of joins, stores and levels are all there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches

from watersmeet._plan.declaration import TableSchema
from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node, simple_text
from watersmeet._plan.physical import Edge, Operator, Physical
from watersmeet._plan.rewrite import rewrite
from watersmeet.errors import TopologyError
from watersmeet.io.policies import Policies
from watersmeet.windows import length_text

# Policies of single operators and outputs: whether there is something that they are for.

_SHOWN = 12


def by_node(plan: Plan, overrides: Mapping[str, Policies]) -> tuple[tuple[str, Policies], ...]:
    """The policies by the names of nodes: an output is called as the user calls it, and its node may be otherwise."""
    pairs: list[tuple[str, Policies]] = []
    for target, policies in overrides.items():
        outputs = [sink.name for sink in plan.sinks if sink.output == target and target not in plan.by_name]
        pairs += [(name, policies) for name in outputs or [target]]
    return tuple(pairs)


def check_named(plan: Plan) -> None:
    """Raise unless all policies of named operators and outputs are for such that the plan has."""
    if not plan.within.named:
        return
    physical, inputs = rewrite(plan), {source.name for source in plan.sources}
    operators = {operator.node for operator in physical.operators}
    outputs = {sink.name for sink in plan.sinks if sink.target.formats}
    dropping = operators | {flow.node for flow in physical.flows if "null_key" in flow.ends} - inputs
    where = {"on_error": operators | outputs, "on_drop": dropping}
    for name, policies in plan.within.named:
        for option in policies.said:
            if name not in where[option]:
                _refuse(plan, name, option, where[option])


def _refuse(plan: Plan, name: str, option: str, ends: Collection[str]) -> None:
    call = f"policies({name!r}, {option}=...)"
    if any(source.name == name for source in plan.sources):
        raise TopologyError(
            f"{name!r} is an input: give its policies where it is read. Its drops follow the builder's on_drop.",
            given=call,
            hint='builder.stream("topic", ..., on_undecodable=..., on_error=...)',
        )
    near = get_close_matches(name, sorted(ends), n=3) or sorted(ends)[:_SHOWN]
    hint = f"There are: {', '.join(near)}." if near else f"Leave {option} out."
    if name not in plan.by_name:
        raise TopologyError(f"Unknown operator or output {name!r}.", given=call, hint=hint)
    raise TopologyError(f"{option} has no effect at {name!r}.", given=call, hint=hint)


# Which of a topology's functions its state depends on (what would stay in state if they were others).


def functions_in_state(physical: Physical, recomputed: Collection[int] = ()) -> frozenset[tuple[str, str]]:
    """(node, role) of the functions that decide what is kept, or where it is looked for.

    Parameters
    ----------
    recomputed : ids of operators with state that is computed anew: no function decides over what they have kept.
    """
    replaceable = {number for number in recomputed if physical.operators[number].declaration.replaceable}
    flows: set[int] = set()
    results: set[str] = set()
    for flow in reversed(physical.flows):  # children before their parents
        edges = [edge for edge in physical.edges if edge.flow == flow.id and edge.target not in recomputed]
        downstream = [child.id for child in physical.flows if child.parent == flow.id]
        downstream += [physical.roots[edge.target].id for edge in edges]
        if any(_changes_state(physical, edge) for edge in edges) or flows.intersection(downstream):
            flows.add(flow.id)
            # between the operators of one node nothing is evaluated, nor where a stored table is read
            read = flow.operator in replaceable
            results.update(() if read or any(edge.reads.direct for edge in edges) else (flow.node,))
    functions, computed = set(), {physical.operators[number].node for number in recomputed}
    for node in physical.plan.nodes:
        # a table keeps what it refers to beside its rows
        refers = len(node.inputs) > 1 and node.shape.kind == "table"
        for function in physical.plan.functions_of(node):
            in_state = node.keeps_table or (refers and function.role in ("extractor", "mapper"))
            if node.name in results or (in_state and node.name not in computed):
                functions.add((node.name, function.role))
    return frozenset(functions)


def _changes_state(physical: Physical, edge: Edge) -> bool:
    """Whether the operator keeps the rows that come this way; those of a stream that looks tables up pass through.

    Unless they are held back, for a grace.
    """
    operator = physical.operators[edge.target]
    timed = physical.declaration_of(operator).timed(physical.plan)
    if timed is not None and timed.hold is not None:
        return True
    node = physical.plan.by_name[operator.node]
    kinds = [parent.shape.kind for parent in physical.plan.parents(node)]
    return not (edge.side == 0 and len(kinds) > 1 and kinds[0] == "stream" and kinds[1] != "stream")


def explain(physical: Physical) -> str:
    """The topology, a node a line in order of construction, then its levels."""
    return "\n".join(_lines(physical)) + "\n"


def stores_text(physical: Physical) -> str:
    """The stores, one a line, each with what lets its rows go."""
    lines = [
        f"  {name}: {_retention_text(physical, operator, store.schema)}\n"
        for operator in sorted(physical.operators, key=lambda o: (o.level, o.id))
        for name, store in physical.stores_of(operator.id)
    ]
    return "".join(["Stores:\n", *lines] if lines else [])


def _retention_text(physical: Physical, operator: Operator, schema: TableSchema) -> str:
    """For how long a row of a store is kept."""
    node = physical.plan.by_name[operator.node]
    if schema.retention is None:
        is_endless = node.is_endless and not schema.everywhere
        return "a row for each key, without end" if is_endless else "a row for each key, until it is deleted"
    length_ms = physical.declaration_of(operator).retention_ms(physical.plan)
    length = (
        "as long as the rows that they belong to" if length_ms is None else f"{length_text(length_ms)} of stream time"
    )
    if schema.retention.ends is not None:
        return f"versions for {length} behind the next one, and the latest one of each key"
    rows = "windows" if "start" in dict(schema.columns) else "records"
    return f"{rows} for {length}"


def _lines(physical: Physical) -> Iterator[str]:
    plan = physical.plan
    yield f"Topology {plan.application} ({plan.generation.value} semantics)"
    for node in plan.nodes:
        yield f"  {_node_line(node)}"
    yield f"Levels: {physical.levels}"
    for operator in sorted(physical.operators, key=lambda o: (o.level, o.id)):
        yield f"  {_operator_line(operator)}"


def _node_line(node: Node) -> str:
    shape = node.shape
    text = f"{node.stem} {node.name}"
    if node.inputs:
        text += f" <- {', '.join(node.inputs)}"
    details = "".join(f", {name} {value}" for name, value in node.details())
    store = f", store {node.store}" if node.store else ""
    store += "" if node.history_ms is None else f", versioned with a history of {node.history_ms} ms"
    return f"{text}: {shape.kind} of {simple_text(shape.key)} -> {simple_text(shape.value)}{details}{store}"


def _operator_line(operator: Operator) -> str:
    stores = ", ".join(operator.stores)
    return f"level {operator.level}: {operator.stem} {operator.node} (keeps {stores})"
