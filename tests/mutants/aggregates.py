"""The mutants of aggregates without windows, and of suppress; see `test_mutants`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from watersmeet._engine.aggregates import contributions, folds
from watersmeet._engine.aggregates.folds import ArrayFold, CogroupedFunctions, Folded
from watersmeet._engine.operators import suppress
from watersmeet._plan.operators import aggregates

Patch = pytest.MonkeyPatch


def adds_before_it_subtracts(patch: Patch) -> None:
    """A grouped table's new value is added before the old one is taken back."""
    run = ArrayFold.run

    def wrong(self: Any, work: Any) -> Any:
        if work.olds is None:
            return run(self, work)
        twice = np.repeat(np.arange(len(work)), 2)
        adds, at = pa.array(np.arange(len(twice)) % 2 == 0), pa.array(twice)
        values, olds = (each.take(at) for each in (work.values, work.olds))
        values, olds = pc.if_else(adds, values, None), pc.if_else(adds, None, olds)
        done = run(self, replace(work, starts=work.starts * 2, values=values, olds=olds, ts=work.ts[twice]))
        return Folded(done.states, done.before[::2], done.after[1::2], done.ts[1::2])

    patch.setattr(ArrayFold, "run", wrong)


def nothing_is_taken_back(patch: Patch) -> None:
    """What leaves a group stays in its aggregate."""
    work = contributions._work

    def without_olds(*arguments: Any) -> Any:
        made = work(*arguments)
        return made if made.olds is None else replace(made, olds=pa.nulls(len(made), made.olds.type))

    patch.setattr(contributions, "_work", without_olds)


def time_falls_back(patch: Patch) -> None:
    """A result has its record's timestamp, also where the aggregate has seen a later one."""
    patch.setattr(folds, "result_times", lambda work, before: work.ts)


def begins_anew_each_batch(patch: Patch) -> None:
    """What state holds of an aggregate is not read."""
    of = contributions.StandingAggregates.of

    def nothing(found: Any, by: Any) -> Any:
        standing = of(found, by)
        return replace(standing, states=pa.nulls(len(standing.states), by.state))

    patch.setattr(contributions.StandingAggregates, "of", nothing)


def last_of_the_batch_only(patch: Patch) -> None:
    """Of a key's changes in a batch only the last one is sent, as with the record cache."""
    sent = contributions.sent
    patch.setattr(contributions, "sent", lambda operator, *rest: sent(replace(operator, cached=True), *rest))


def one_function_for_all_streams(patch: Patch) -> None:
    """Cogrouped streams are all folded by the first one's function."""
    init = CogroupedFunctions.__init__

    def first_only(self: Any, how: Any, state: Any) -> None:
        init(self, replace(how, adders=how.adders[:1] * len(how.adders)), state)

    patch.setattr(CogroupedFunctions, "__init__", first_only)


def _put(patch: Patch, changed: Callable[..., tuple[Any, ...]]) -> None:
    """Entries of suppress are held back otherwise: `changed` gives other arguments."""
    put = suppress.HeldChanges.put

    def wrong(self: Any, held: Any, *arguments: Any) -> None:
        put(self, held, *changed(self, *arguments))

    patch.setattr(suppress.HeldChanges, "put", wrong)


def sends_what_came_first(patch: Patch) -> None:
    """Of the changes that are held back the first one is sent."""
    _put(patch, lambda self, begin, last, old, before, due: (begin, begin, old, before, due))


def each_change_waits_anew(patch: Patch) -> None:
    """An entry waits from its last change on, not from its first one."""

    def later(self: Any, begin: Any, last: Any, old: Any, before: Any, due: Any) -> tuple[Any, ...]:
        return begin, last, old, before, np.maximum(due, self.events.ts[last] + self.params.wait - 1)

    _put(patch, later)


def old_is_the_last_ones(patch: Patch) -> None:
    """The old value of what is sent is that before its last change, not that before its first one."""
    _put(patch, lambda self, begin, last, old, _, due: (begin, last, old, self.events.own[last], due))


def waits_a_moment_more(patch: Patch) -> None:
    """A change goes a moment behind the end of its wait."""
    wait: Any = aggregates.SuppressNode._wait
    patch.setattr(aggregates.SuppressNode, "_wait", property(lambda node: wait.fget(node) + 1))


def forgets_what_waits(patch: Patch) -> None:
    """A change begins an entry of its own although one of an earlier batch waits."""
    stored = suppress.HeldChanges.stored

    def none(self: Any, pairs: Any) -> Any:
        found = stored(self, pairs)
        return replace(found, due=np.full(len(pairs), suppress.NEVER), place=np.full(len(pairs), -1))

    patch.setattr(suppress.HeldChanges, "stored", none)


def tombstones_are_final(patch: Patch) -> None:
    """The tombstones of windows that are gone are sent as final results."""
    patch.setattr(suppress, "valid", lambda column: np.ones(len(column), dtype=np.bool_))


OF_AGGREGATES = [
    (adds_before_it_subtracts, "table_aggregate"),
    (nothing_is_taken_back, "table_aggregate"),
    (time_falls_back, "stream_aggregate"),
    (begins_anew_each_batch, "stream_aggregate"),
    (last_of_the_batch_only, "stream_aggregate"),
    (one_function_for_all_streams, "cogroup"),
    (sends_what_came_first, "suppress"),
    (each_change_waits_anew, "suppress"),
    (old_is_the_last_ones, "suppress, then filter"),
    (waits_a_moment_more, "suppress"),
    (forgets_what_waits, "suppress"),
    (tombstones_are_final, "session until it closes"),
]
