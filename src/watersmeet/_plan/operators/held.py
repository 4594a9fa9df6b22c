"""The table of rows that an operator holds back until time lets them go (`_engine/time/held_rows.py`)."""

from __future__ import annotations

from typing import Any

from watersmeet._plan.operators.spec import NUMBER, STAMP, Named, Retention, TableSchema


def held_schema(name: str, key: Any, columns: Named, *, replaced: bool) -> TableSchema:
    """The declaration of such a table.

    Parameters
    ----------
    key, columns : the key's type, and what is held beside key and timestamp.
    replaced : whether a row takes the place of the one with the same key, due time and domain; else rows are only
        added.
    """
    numbers = (("due", NUMBER), ("arrival", NUMBER), ("domain", NUMBER), STAMP)
    return TableSchema(
        name,
        (("key", key), *numbers, *columns),
        identity=("key", "due", "domain") if replaced else (),
        order=("due",) if replaced else ("due", "arrival"),
        retention=Retention("due", "domain"),
        appended=not replaced,
        due=(),
    )
