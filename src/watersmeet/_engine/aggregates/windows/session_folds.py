"""The aggregates of sessions: what each record makes of those that it merges (docs/semantics, section 14).

A record begins with a new aggregate, merges the sessions that it meets into it, and adds its value. Records that each
go on with what the one before made are a chain, which is folded at once; a chain that begins with several sessions
waits for those to be folded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from watersmeet._engine.aggregates.fold import FoldKernel
from watersmeet._engine.aggregates.raising import RAISED, placed, survivors
from watersmeet._engine.aggregates.windows.chains import Links, States, fold_chains
from watersmeet._engine.aggregates.windows.sessions import Merged
from watersmeet._engine.arrays import Bools, Int64s
from watersmeet._engine.rows.columns import gather, valid


def fold_sessions(
    fold: FoldKernel, merged: Merged, keys: pa.Array, values: pa.Array, stored: pa.Array, ends: Bools | None = None
) -> tuple[States, dict[int, Exception]]:
    """(the state of each session, the records for which a function raises, where that is outlived).

    Parameters
    ----------
    keys, values : of each record.
    stored : the states of the stored sessions.
    ends : records that make no session, since a function raises for them; None: there are none.
    """
    failed: dict[int, Exception] = {}
    rows = np.flatnonzero(~merged.late)
    states = States.of_stored(fold, stored, len(merged.start))
    links = Links(merged.known + rows, rows, merged.head[rows], merged.level[rows], merged.end[rows])

    def begun(heads: Int64s) -> pa.Array:
        return _begun(fold, merged, keys, states, heads, failed)

    raised = fold_chains(fold, links, states, keys, values, begun, merged.count == 1, ends)
    return states, raised | failed


def _begun(
    fold: FoldKernel, merged: Merged, keys: pa.Array, states: States, heads: Int64s, failed: dict[int, Exception]
) -> pa.Array:
    """The first state of each chain: none, the one session that it continues, or several that are merged.

    Parameters
    ----------
    failed : takes the heads for which that raises, where it is outlived.
    """
    ranked = dict(_by_rank(merged, heads))
    begun = states.of(ranked.pop(0))
    for number, sessions in sorted(ranked.items()):
        theirs = states.of(sessions)
        rows = np.flatnonzero(valid(theirs) & valid(begun))
        at = pa.array(rows)
        several = _Several(fold, keys.take(pa.array(heads[rows])), begun.take(at), theirs.take(at), number == 1)
        fine, both = several.merged(heads[rows], failed)
        pointers = np.arange(len(begun), dtype=np.int64)
        pointers[rows[fine]] = len(begun) + np.arange(len(fine))
        begun = gather(pa.concat_arrays([begun, *both]), pointers)
    return begun


@dataclass(frozen=True)
class _Several:
    """Sessions that records merge, by two.

    Parameters
    ----------
    keys : of the records.
    one, other : what they have merged, and what comes to it.
    first : whether that is no more than a session, which is merged into a new aggregate before.
    """

    fold: FoldKernel
    keys: pa.Array
    one: pa.Array
    other: pa.Array
    first: bool

    def merged(self, records: Int64s, failed: dict[int, Exception]) -> tuple[Int64s, list[pa.Array]]:
        """(those that can be merged, what comes of it); `failed` takes the other records."""
        try:
            return np.arange(len(records)), [self.whole()]
        except RAISED as error:
            if not self.fold.outlives:
                raise placed(error, self.fold.owner) from None
        fine, made, raised = survivors(lambda some: self._some(pa.array(some)).whole(), len(records))
        failed |= {int(records[at]): error for at, error in raised.items()}
        return fine, made

    def whole(self) -> pa.Array:
        """All of them merged."""
        one = self.fold.resume(self.keys, self.one) if self.first else self.one
        return self.fold.merge(self.keys, one, self.other)

    def _some(self, at: pa.Array) -> _Several:
        return replace(self, keys=self.keys.take(at), one=self.one.take(at), other=self.other.take(at))


def _by_rank(merged: Merged, heads: Int64s) -> Iterator[tuple[int, Int64s]]:
    """(n, the n-th session that each of these records merges, -1 for none)."""
    first = np.searchsorted(merged.by, heads)
    session = np.append(merged.session, -1)
    for number in range(max(1, int(merged.count[heads].max(initial=0)))):  # two at most, where all is of one domain
        yield number, np.where(merged.count[heads] > number, session[np.minimum(first + number, len(merged.by))], -1)
