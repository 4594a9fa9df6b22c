"""Kernels that are functions of plain values (`tree.plain`), called for each row without null arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from watersmeet._engine.expressions.tree import Call, array, plain


def by_row(call: Call, arguments: Sequence[pa.Array], function: Callable[..., Any]) -> pa.Array:
    """The results of a function for the plain values of each row; null where one of them is null."""
    columns = [plain(argument) for argument in arguments]
    if len(columns) == 1:
        (values,) = columns
        results = [None if value is None else function(value) for value in values]
    else:
        results = [None if None in row else function(*row) for row in zip(*columns, strict=True)]
    return array(results, call.type)


def by_whole_row(call: Call, arguments: Sequence[pa.Array], function: Callable[..., Any]) -> pa.Array:
    """The same, called for every row: null is None."""
    columns = [plain(argument) for argument in arguments]
    return array([function(*row) for row in zip(*columns, strict=True)], call.type)
