"""Errors of expressions that have no result in ANSI SQL."""

from __future__ import annotations


class EvaluationError(Exception):
    """A value that cannot be computed: Spark would fail with the same condition.

    Parameters
    ----------
    condition : Spark's error condition: DIVIDE_BY_ZERO, ARITHMETIC_OVERFLOW, CAST_INVALID_INPUT, ...
    message : what is wrong, one sentence.
    """

    def __init__(self, condition: str, message: str) -> None:
        self.condition = condition
        self.message = message
        super().__init__(condition, message)

    def __str__(self) -> str:
        return f"[{self.condition}] {self.message}"
