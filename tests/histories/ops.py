"""Operators of random histories, written by hand."""

from __future__ import annotations

from proof.histories import Op, Ref


def op(kind: str, *inputs: int, **params: object) -> Op:
    """An operator that reads the first outputs of others, given by their numbers."""
    return Op(kind, tuple(Ref(number) for number in inputs), params)


def windowed(left: int, right: int, how: str, before: int, after: int, grace: int) -> Op:
    """A windowed join of two streams, given by their numbers."""
    return op("stream_stream", left, right, how=how, before=before, after=after, grace=grace)
