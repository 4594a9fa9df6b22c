"""Joins of a changed topology that share one stored table: those that begin with the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from watersmeet._plan.change.change import Change
from watersmeet._plan.operators.lending import with_lent_tables
from watersmeet._plan.physical import Physical


def lent_as_taken(physical: Physical, change: Change, lies: Callable[[str, str], Any]) -> Physical:
    """The same plan: joins share a table that begins with the same rows.

    Parameters
    ----------
    change : which tables go on.
    lies : where the table of a node and a name lies until now.
    """
    origins = {(each.node, each.table): lies(each.from_node, each.from_table) for each in change.taken}
    return with_lent_tables(physical, lambda operator: origins.get((operator.node, operator.keeps[0].name)))
