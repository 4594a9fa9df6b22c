"""count: how many records, or how many values."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from watersmeet.aggregates.declared import AnyAggregate, Function, OfOne, Types, Use
from watersmeet.names import answered_as


@dataclass(frozen=True, repr=False)
class Count(OfOne):
    """See `count`."""

    stem = name = "count"
    # what is grouped has it as a method, too
    in_agg = None

    def types(self, use: Use) -> Types:
        return pa.int64(), pa.int64()

    @classmethod
    def example(cls, of: str = "value['field']") -> str:
        return "wm.count()"


@answered_as(Count.use())
def count(argument: Function | None = None) -> AnyAggregate:
    """The number of records, or of records with an argument that is not null: a long."""
    return Count(argument)
