"""The aggregates of sessions: what each record makes of those that it merges (docs/semantics, section 14).

A record begins with a new aggregate, merges the sessions that it meets into it, and adds its value. Records that each
go on with what the one before made are a chain, which is folded at once; a chain that begins with several sessions
waits for those to be folded.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from millpond._engine.aggregates.fold import Fold
from millpond._engine.aggregates.windows.chains import Links, States, fold_chains
from millpond._engine.aggregates.windows.sessions import Merged
from millpond._engine.arrays import Int64s
from millpond._engine.rows.columns import gather, valid


def fold_sessions(fold: Fold, merged: Merged, keys: pa.Array, values: pa.Array, stored: pa.Array) -> States:
    """The state of each session.

    Parameters
    ----------
    keys, values : of each record.
    stored : the states of the stored sessions.
    """
    rows = np.flatnonzero(~merged.late)
    states = States.of_stored(fold, stored, len(merged.start))
    links = Links(merged.known + rows, rows, merged.head[rows], merged.level[rows], merged.end[rows])

    def begun(heads: Int64s) -> pa.Array:
        return _begun(fold, merged, keys, states, heads)

    fold_chains(fold, links, states, keys, values, begun, merged.count == 1)
    return states


def _begun(fold: Fold, merged: Merged, keys: pa.Array, states: States, heads: Int64s) -> pa.Array:
    """What each chain begins with: nothing, the one session that it goes on with, or several that are merged."""
    ranked = dict(_by_rank(merged, heads))
    begun = states.of(ranked.pop(0))
    for number, sessions in sorted(ranked.items()):
        theirs = states.of(sessions)
        rows = np.flatnonzero(valid(theirs) & valid(begun))
        at = pa.array(rows)
        mine, one, theirs = keys.take(pa.array(heads[rows])), begun.take(at), theirs.take(at)
        one = fold.resume(mine, one) if number == 1 else one
        both = fold.merge(mine, one, theirs)
        pointers = np.arange(len(begun), dtype=np.int64)
        pointers[rows] = len(begun) + np.arange(len(rows))
        begun = gather(pa.concat_arrays([begun, both]), pointers)
    return begun


def _by_rank(merged: Merged, heads: Int64s) -> Iterator[tuple[int, Int64s]]:
    """(n, the n-th session that each of these records merges, -1 for none)."""
    first = np.searchsorted(merged.by, heads)
    session = np.append(merged.session, -1)
    for number in range(max(1, int(merged.count[heads].max(initial=0)))):  # two at most, where all is of one domain
        yield number, np.where(merged.count[heads] > number, session[np.minimum(first + number, len(merged.by))], -1)
