"""The processors of an operator in one batch: one, or several that share stores; each with its context and timers."""

from __future__ import annotations

from typing import Any

from watersmeet._engine.aggregates.raising import placed
from watersmeet._engine.operators.processors.calls import CallContext
from watersmeet._plan.operators.process import MemberParams
from watersmeet.errors import FunctionError


class Member:
    """One processor.

    Parameters
    ----------
    params : its own.
    calls : what its methods get.
    operator : its name in errors.

    Attributes
    ----------
    processor : the user's object.
    """

    def __init__(self, params: MemberParams, calls: CallContext, operator: str) -> None:
        self.params, self.calls, self._operator = params, calls, operator
        try:
            self.processor = params.make()
        except Exception as error:
            raise self.raised(error, "__init__") from None
        self.called("init", calls)

    def close(self) -> None:
        """End."""
        self.calls.at(None, None, None)
        self.called("close")

    def called(self, method: str, *given: Any) -> None:
        """Call a method if there is one."""
        called = getattr(self.processor, method, None)
        if called is None:
            return
        try:
            called(*given)
        except Exception as error:
            raise self.raised(error, method) from None

    def raised(self, error: Exception, method: str) -> Exception:
        """The error with which the query fails if a method raises."""
        return placed(self.said(error, method), self._operator)

    def said(self, error: Exception, method: str) -> Exception:
        """The error of a method, with its place."""
        if isinstance(error, FunctionError):
            return error
        where, called = _line(error), self.params.called
        return FunctionError(
            f"The processor {called} raises in {method}: {type(error).__name__}: {error!s:.300}",
            given=f"{called}.{method}{where}",
        )


def _line(error: Exception) -> str:
    """The user's own line."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        line = f", {trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return line
