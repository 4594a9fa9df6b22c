"""bool_and and bool_or: whether a condition holds of all records, or of any."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.aggregates.declared import AnyAggregate, Function, OfOne, Types, Use
from watersmeet.errors import TopologyError
from watersmeet.names import answered_as


class _Boolean(OfOne):
    """Base of `bool_and` and `bool_or`."""

    def types(self, use: Use) -> Types:
        if not pt.is_boolean(use.argument):
            raise TopologyError(
                f"The aggregate {self.name} takes conditions, and its argument is {use.argument}.",
                hint=f"Compare: wm.{self.name}(lambda value: value['field'] > 0).",
            )
        kept = pa.struct([("true", pa.int64()), ("false", pa.int64())]) if use.takes_back else pa.bool_()
        return kept, pa.bool_()

    @classmethod
    def example(cls, of: str = "value['field']") -> str:
        return f"wm.{cls.name}(lambda value: {of} > 0)"


@dataclass(frozen=True, repr=False)
class BoolAnd(_Boolean):
    """See `bool_and`."""

    stem = name = "bool_and"


@dataclass(frozen=True, repr=False)
class BoolOr(_Boolean):
    """See `bool_or`."""

    stem = name = "bool_or"


@answered_as(BoolAnd.use())
def bool_and(argument: Function) -> AnyAggregate:
    """Whether a condition holds of all records of which it is not null; null of none, as Spark's `bool_and`."""
    return BoolAnd(argument)


@answered_as(BoolOr.use())
def bool_or(argument: Function) -> AnyAggregate:
    """Whether a condition holds of any record; null where it is null of all, as Spark's `bool_or`."""
    return BoolOr(argument)
