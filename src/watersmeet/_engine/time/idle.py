"""Time that goes on while the input rests, where the option `idle_after` asks for it.

A domain rests when for so long no record has told its time. From then on its time is the last one that
records told, plus the wall clock that has gone by since. That clock comes in rows of a source of the query, with
offsets in the checkpoint, and never from a worker's clock: so a replayed batch gives the same. Written by the packs,
read by `times`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.rows.columns import ints
from watersmeet._engine.state.runs import State

CLOCK = -1
"""srcpart of what the wall clock tells, among the times of the sources."""

_QUIET = "quiet"


def clock_row(wall: int, *, piped: bool = False) -> pa.Table:
    """The wall clock for every shard of an operator that keeps time, in ms; `piped`: in a test driver."""
    names = ("order_ts", "time") if piped else ("order_ts",)
    return pa.table({"srcpart": pa.array([CLOCK])} | {name: pa.array([wall]) for name in names})


def split(told: pa.Table | None) -> tuple[pa.Table | None, int | None]:
    """The times of the sources, and what the wall clock shows; None where there are none."""
    if told is None:
        return None, None
    clock = ints(told, "srcpart") == CLOCK
    if not clock.any():
        return told, None
    return told.filter(pa.array(~clock)), int(ints(told, "order_ts")[clock].max())


@dataclass(frozen=True)
class Quiet:
    """Since when each domain is quiet.

    Parameters
    ----------
    since : what the wall clock showed when records last told the domain's time; -1 until it is known.
    time : the domain's time then.
    """

    since: Int64s
    time: Int64s

    @classmethod
    def of(cls, state: State, domains: Int64s, time: Int64s) -> Quiet:
        """As the last batch left it; `time` for domains that are new."""
        stored = state.get_scalar(_QUIET, {})
        # one a domain
        rows = [stored.get(str(d), [-1, t]) for d, t in zip(domains, time.tolist(), strict=True)]
        since, times = np.array(rows, dtype=np.int64).reshape(-1, 2).T
        return cls(since, times)

    def after(self, fresh: Bools, time: Int64s, wall: int | None) -> Quiet:
        """After a batch in which records told `time` to the `fresh` domains and the clock showed `wall`."""
        shown = -1 if wall is None else wall
        since = np.where(fresh | (self.since < 0), shown, self.since)
        return Quiet(since, np.where(fresh, time, self.time))

    def moved(self, end: Int64s, wall: int | None, idle_after: int) -> Int64s:
        """The domains' times after the batch, those that rest moved on."""
        if wall is None:
            return end
        passed = wall - self.since
        return np.where((self.since >= 0) & (passed >= idle_after), np.maximum(end, self.time + passed), end)

    def store(self, state: State, domains: Int64s) -> None:
        """Keep it for the next batch."""
        pairs = np.stack([self.since, self.time], axis=1).tolist()
        # one a domain
        state.set_scalar(_QUIET, {str(d): pair for d, pair in zip(domains.tolist(), pairs, strict=True)})
