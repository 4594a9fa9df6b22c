"""first and last: the values that came first and last."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.aggregates.declared import AnyAggregate, Function, OfOne, Types, Use
from watersmeet.errors import TopologyError
from watersmeet.names import answered_as


class _Edge(OfOne):
    """Base of `first` and `last`."""

    def types(self, use: Use) -> Types:
        if use.takes_back:
            raise TopologyError(
                f"A grouped table has no {self.name} value, as wm.{self.name} wants it: its rows come and go.",
                hint="Use wm.min or wm.max, or group the stream of its changes: table.to_stream().group_by(...).",
            )
        return use.argument, use.argument


@dataclass(frozen=True, repr=False)
class First(_Edge):
    """See `first`."""

    stem = name = "first"


@dataclass(frozen=True, repr=False)
class Last(_Edge):
    """See `last`."""

    stem = name = "last"


@answered_as(First.use())
def first(argument: Function) -> AnyAggregate:
    """The value that came first; of a grouped stream only."""
    return First(argument)


@answered_as(Last.use())
def last(argument: Function) -> AnyAggregate:
    """The value that came last; of a grouped stream only."""
    return Last(argument)
