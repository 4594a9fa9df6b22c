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

    def raised(self, error: Exception, method: str, **key: Any) -> Exception:
        """The error with which the query fails if a method raises; `key`: for which one, if it is called for one."""
        if isinstance(error, FunctionError):
            return placed(error, self._operator)
        said = self.said(error, method)
        at = f"{said.given}; key {key['key']!r:.120}" if key else said.given
        return placed(FunctionError(said.message, given=at, hint=self._hint(method)), self._operator)

    def said(self, error: Exception, method: str) -> FunctionError:
        """The error of a method, with its place."""
        if isinstance(error, FunctionError):
            return error
        where, called = _line(error), self.params.called
        return FunctionError(
            f"The processor {called} raises in {method}: {type(error).__name__}: {error!s:.300}",
            given=f"{called}.{method}{where}",
        )

    def _hint(self, method: str) -> str:
        if method == "process":
            return (
                'To go on without such records: on_error="skip" or on_error=wm.DeadLetter("topic"), of the builder '
                f"or of builder.policies({self._operator!r}, ...). Or catch the exception in process."
            )
        return (
            f"Catch the exception in {method}, and start again: the batch is then repeated. on_error= decides about "
            "records in process alone."
        )


def _line(error: Exception) -> str:
    """The user's own line."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        line = f", {trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return line
