"""Which operators read a table in the state of another one (docs/decisions/0054).

Joins of one level that read one table by one key have the same rows of it at every position. So the first of them
stores the table, and lends it to the others: they have no rows of it of their own, and their shards are the lender's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from watersmeet._plan.physical import Edge, Lent, Operator, Physical


def with_lent_tables(physical: Physical, lies: Callable[[Operator], Any] | None = None) -> Physical:
    """The same plan, tables stored once where that can be.

    Parameters
    ----------
    lies : where the rows of an operator's table lie until now: those that lie apart stay apart. None: nowhere yet.
    """
    lenders: list[Operator] = []
    operators = []
    for operator in physical.operators:
        lent = None
        if operator.spec.borrowed_side is not None:
            fitting = (each for each in lenders if lies is None or lies(each) == lies(operator))
            lent = next((found for each in fitting if (found := _lent(physical, each, operator)) is not None), None)
            if lent is None:
                lenders.append(operator)
        operators.append(replace(operator, lent=lent))
    return replace(physical, operators=tuple(operators))


def lent_as_recorded(physical: Physical, addresses: Mapping[str, Mapping[str, Sequence[int]]]) -> Physical:
    """The same plan, tables stored once where a checkpoint has them once, or not yet.

    Parameters
    ----------
    addresses : of each node's tables, the labels under which they lie.
    """

    def lies(operator: Operator) -> tuple[int, ...]:
        return tuple(addresses.get(operator.node, {}).get(operator.keeps[0].name, ()))

    return with_lent_tables(physical, lies)


def _lent(physical: Physical, lender: Operator, borrower: Operator) -> Lent | None:
    """How the borrower reads the lender's table; None if the two tables differ in rows, level or columns."""
    side = lender.spec.borrowed_side
    pair = lender, borrower
    alike = [(each.spec, each.level, each.shared_root, *(replace(t, name="") for t in each.keeps)) for each in pair]
    theirs, mine = (_edges(physical, each, side) for each in pair)
    if side is None or alike[0] != alike[1] or not mine or list(map(_rows_of, theirs)) != list(map(_rows_of, mine)):
        return None
    shifts = {(physical.flows[own.flow].slot, own.path - edge.path) for edge, own in zip(theirs, mine, strict=True)}
    return Lent(lender.id, side, *shifts.pop()) if len(shifts) == 1 else None


def _edges(physical: Physical, operator: Operator, side: int | None) -> list[Edge]:
    return sorted((e for e in physical.inputs_of(operator) if e.side == side), key=lambda edge: edge.flow)


def _rows_of(edge: Edge) -> Edge:
    """The edge without its id, path and target: two edges that are then equal send the same rows."""
    return replace(edge, id=0, path=0, target=0)
