"""The mutants of joins with tables by key and window; see `test_mutants`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from watersmeet._engine.operators import windowed_table_join
from watersmeet._engine.operators.windowed_table_join import LastResults, SideRows, WindowResults

Patch = pytest.MonkeyPatch
JOIN = windowed_table_join._WindowJoin


def windows_live_for_ever(patch: Patch) -> None:
    """A window joins however long ago its end, grace and keep have passed."""
    patch.setattr(SideRows, "joins", lambda self, rows, event: np.ones(len(rows), dtype=np.bool_))


def windows_die_a_moment_early(patch: Patch) -> None:
    """A window joins no more in the last moment in which it is kept."""
    joins = SideRows.joins
    patch.setattr(SideRows, "joins", lambda self, rows, event: joins(replace(self, end=self.end - 1), rows, event))


def one_window_hears(patch: Patch) -> None:
    """Of the windows of a key the latest one alone meets a change of its row."""
    told = JOIN._results_of_rights

    def last_of_each(self: Any, *rows: Any) -> WindowResults:
        results = told(self, *rows).ordered()
        return results.where(np.append(np.diff(results.event) != 0, True)[: len(results.event)])

    patch.setattr(JOIN, "_results_of_rights", last_of_each)


def windows_in_any_order(patch: Patch) -> None:
    """A change gives its results with the latest window first."""
    ordered = WindowResults.ordered
    patch.setattr(WindowResults, "ordered", lambda self: _turned(ordered(self)))


def _turned(results: WindowResults) -> WindowResults:
    return results.where(np.lexsort((-results.start, results.event)))


def versions_stay(patch: Patch) -> None:
    """A left row is met as it was before, too, when another version of it has come in the same batch."""
    patch.setattr(SideRows, "until", property(lambda self: np.full(len(self), len(self.events))))


def forgets_where_it_pointed(patch: Patch) -> None:
    """A row that turns to another window loses no result of the one before."""
    found = JOIN._partners

    def of_new_rows(self: Any, rows: Any, event: Any) -> Any:
        return found(self, np.where(np.append(self.left.event, -1)[rows] == event, rows, -1), event)

    patch.setattr(JOIN, "_partners", of_new_rows)


def old_results_are_forgotten(patch: Patch) -> None:
    """What stood before a batch is no old value of its results."""
    patch.setattr(LastResults, "_keep", lambda self, results, domain: None)


OF_WTABLES = [
    (windows_live_for_ever, "wtable_table"),
    (windows_die_a_moment_early, "wtable_table"),
    (one_window_hears, "wtable_table"),
    (windows_in_any_order, "wtable_table"),
    (versions_stay, "wtable_table"),
    (forgets_where_it_pointed, "table_wtable"),
    (old_results_are_forgotten, "wtable_table, then filter"),
]
