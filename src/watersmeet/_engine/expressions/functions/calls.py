"""Calls that leave SQL: plain Python functions of values, and errors that somebody raises on purpose."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.expressions.functions.texts import constant
from watersmeet._engine.expressions.kernel import Kernel, LazyKernel
from watersmeet._engine.expressions.plain_calls import PLAIN, PlainCall
from watersmeet._engine.expressions.plain_values import plain
from watersmeet._engine.expressions.tree import Call
from watersmeet._engine.expressions.vectors import shaped

_RAISES = "RaiseError"


def fits(call: Call) -> bool:
    """See `kernel`."""
    if call.function == _RAISES:
        return isinstance(constant(call.arguments[0]), str)
    return isinstance(call.called, PlainCall)


def _called(call: Call, arguments: list[pa.Array]) -> pa.Array:
    assert isinstance(call.called, PlainCall), "the call fits"
    return shaped(call.called.values(arguments), call.type)


def _raised(call: Call, arguments: list[pa.Array]) -> pa.Array:
    """It is evaluated for the rows alone that ask for it, and has a value for none."""
    if not len(arguments[0]):
        return pa.nulls(0, call.type)
    (told,) = plain(arguments[1].slice(0, 1))
    text = ", ".join(str(value) for _, value in told) if told is not None else "null"
    raise EvaluationError(str(constant(call.arguments[0])), text)


KERNELS: Mapping[str, Kernel] = {PLAIN: _called, _RAISES: _raised}
LAZY: Mapping[str, LazyKernel] = {}
