"""Which of a topology's functions its state depends on (what would stay in state if they were others)."""

from __future__ import annotations

from collections.abc import Collection

from watersmeet._plan.physical import Edge, Physical


def functions_in_state(physical: Physical, anew: Collection[int] = ()) -> frozenset[tuple[str, str]]:
    """(node, role) of the functions that decide what is kept, or where it is looked for.

    Parameters
    ----------
    anew : ids of operators with state that is computed anew: no function decides over what they have kept.
    """
    stored = {number for number in anew if physical.operators[number].spec.replaceable}
    flows: set[int] = set()
    results: set[str] = set()
    for flow in reversed(physical.flows):  # children before their parents
        edges = [edge for edge in physical.edges if edge.flow == flow.id and edge.target not in anew]
        behind = [child.id for child in physical.flows if child.parent == flow.id]
        behind += [physical.roots[edge.target].id for edge in edges]
        if any(_changes_state(physical, edge) for edge in edges) or flows.intersection(behind):
            flows.add(flow.id)
            # between the operators of one node nothing is evaluated, nor where a stored table is read
            read = flow.operator in stored
            results.update(() if read or any(edge.reads.direct for edge in edges) else (flow.node,))
    found, computed = set(), {physical.operators[number].node for number in anew}
    for node in physical.plan.nodes:
        # a table keeps what it refers to beside its rows
        refers = len(node.inputs) > 1 and node.shape.kind == "table"
        for function in physical.plan.functions_of(node):
            kept = node.keeps_table or (refers and function.role in ("extractor", "mapper"))
            if node.name in results or (kept and node.name not in computed):
                found.add((node.name, function.role))
    return frozenset(found)


def _changes_state(physical: Physical, edge: Edge) -> bool:
    """Whether the operator keeps the rows that come this way; those of a stream that looks tables up pass through.

    Unless they are held back, for a grace.
    """
    operator = physical.operators[edge.target]
    timed = operator.spec.timed(physical.site(operator))
    if timed is not None and timed.hold is not None:
        return True
    node = physical.plan.by_name[operator.node]
    kinds = [parent.shape.kind for parent in physical.plan.parents(node)]
    return not (edge.side == 0 and len(kinds) > 1 and kinds[0] == "stream" and kinds[1] != "stream")
