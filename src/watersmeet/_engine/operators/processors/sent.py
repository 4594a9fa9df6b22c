"""The records that a processor sends in one slice, as results in order of position.

Records sent for a record, and by timers that fire directly after it, are results of that record, numbered. Records of
timers that time lets go have the positions of these timers (`places`), as all released rows do (`time.released`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Int64s
from watersmeet._engine.operator import Events, OperatorContext
from watersmeet._engine.operators.processors.timer_positions import BEFORE_ALL, Place, TimerPositions
from watersmeet._engine.rows.columns import AT_FIRST, LET_GO, position_columns
from watersmeet._engine.rows.position import merged
from watersmeet._engine.rows.sizes import Picked, in_pieces
from watersmeet._engine.time.released import in_order
from watersmeet._engine.time.times import Times
from watersmeet._plan.operators.process import MemberParams, ProcessParams

Sent: TypeAlias = list[tuple[Any, Any, Any, int]]
"""Records that were sent, in the order in which they were: place, key, value and timestamp of each.

The place is an event, by its number; or the timer's place, domain, group, and the number of its processor.
"""


@dataclass(frozen=True)
class SentResults:
    """How results are made of what a slice sends.

    Parameters
    ----------
    context, events, times, places : of the batch.
    """

    context: OperatorContext
    events: Events
    times: Times
    places: TimerPositions

    def of(self, by_event: Sent, by_timer: Sent, hashes: Int64s, keys: pa.Array) -> Iterator[pa.Table]:
        """The results, in order of position; `hashes`, `keys`: of the slice's groups."""
        both = self._of_events(by_event), self._of_timers(by_timer, hashes, keys)
        yield from merged(*both, position_columns(self.context.slots))

    def _values(self, key: Sequence[Any], value: Sequence[Any], member: Int64s) -> pa.Array:
        members = self.context.params(ProcessParams).members
        if len(members) == 1:
            return _of_member(members[0], key, value)
        # of several that share stores each has two fields of its own
        parts: dict[str, pa.Array] = {}
        for number, each in enumerate(members):
            own = member == number
            given = ([row if mine else None for row, mine in zip(column, own, strict=True)] for column in (key, value))
            parts |= {f"is{number}": pa.array(own), f"v{number}": _of_member(each, *given)}
        return pa.StructArray.from_arrays(list(parts.values()), names=list(parts))

    def _of_events(self, sent: Sent) -> Iterator[pa.Table]:
        if not sent:
            return
        place, key, value, stamp = zip(*sent, strict=True)
        event = np.array(place, dtype=np.int64)
        values = self._values(key, value, self.events.side[event])
        yield from self.of_records(event, values, np.array(stamp, dtype=np.int64))

    def of_records(self, event: Int64s, values: pa.Array, stamp: Int64s) -> Iterator[pa.Table]:
        """The results of records, by the event that each stands behind; those of one event in their order."""
        order = np.argsort(event, kind="stable")
        event, ts = event[order], stamp[order]
        out: dict[str, pa.Array | Picked] = self.events.meta(event, ts)
        operator, rows = self.context.operator, np.arange(len(event), dtype=np.int64)
        fresh = np.append(True, event[1:] != event[:-1])[: len(event)]
        number = rows - np.maximum.accumulate(np.where(fresh, rows, 0))
        out[f"p{operator.slot}"] = pa.array(number * operator.fan)
        yield from in_pieces(out | {"value": Picked(values, order)})

    def _of_timers(self, sent: Sent, hashes: Int64s, keys: pa.Array) -> Iterator[pa.Table]:
        if not sent:
            return
        place, key, value, stamp = zip(*sent, strict=True)
        parts = [np.array(column, dtype=np.int64) for column in zip(*map(_numbers, place), strict=True)]
        stands, now, turn, domain, group, member = parts
        rows = pa.table(
            {
                "ts": pa.array(stamp, pa.int64()),
                "hash": pa.array(hashes[group]),
                "arrival": pa.array(np.arange(len(group), dtype=np.int64)),
                "domain": pa.array(self.times.number(domain)),
                "key": keys.take(pa.array(group)),
            }
        )
        # what the wall clock lets go stands before all of them
        movers = [np.append(at, own) for at, own in zip((AT_FIRST, LET_GO, 0), self.times.movers, strict=True)]
        order, out = in_order(self.context, rows, movers, np.where(stands == BEFORE_ALL, 0, stands + 1), now, turn)
        yield from in_pieces(out | {"value": Picked(self._values(key, value, member), order)})


def _of_member(member: MemberParams, key: Sequence[Any], value: Sequence[Any]) -> pa.Array:
    """The records that one processor sends."""
    values = pa.array(value, member.sent_value)
    if member.sent_key is None:
        return values
    keys = pa.array(key, member.sent_key)
    fields = [pa.field("key", member.sent_key), pa.field("value", member.sent_value)]
    return pa.StructArray.from_arrays([keys, values], fields=fields)


def _numbers(place: tuple[Place, int, int, int]) -> tuple[Any, ...]:
    (stands, now, turn, _), domain, group, member = place
    return stands, now, turn, domain, group, member
