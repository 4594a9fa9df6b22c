"""Checks of a table before a query writes it: its columns, its writer, and its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from watersmeet._worker.batch_plan import BatchPlan, Marker, is_in
from watersmeet.errors import ConfigError, CorruptData, SinkError
from watersmeet.io.databases import TableTarget


@dataclass(frozen=True)
class Mark:
    """The state of a table.

    Parameters
    ----------
    writer : who writes it.
    batch : number of the last batch that it has; -1: none.
    plan : of that batch, as text; "": an earlier watersmeet has written it.
    """

    writer: str
    batch: int
    plan: str = ""


class Marked(Protocol):
    """A table that says who writes it."""

    def is_empty(self) -> bool:
        """Whether it has no rows."""

    def mark(self) -> Mark | None:
        """The mark of the table; None: nobody has written it."""

    def set_mark(self, mark: Mark) -> None:
        """Write down what it has."""


@dataclass(frozen=True)
class GivenColumn:
    """A column that a table has.

    Parameters
    ----------
    name : its name, in the topology's capitals where that has it too.
    kind : its type, as the database calls it; "": none.
    is_required : whether no row may be without it.
    """

    name: str
    kind: str
    is_required: bool


def check_columns(
    target: TableTarget,
    wanted: Sequence[tuple[str, str]],
    given: Iterable[GivenColumn],
    fits: Callable[[str, str], bool],
    statement: str,
) -> None:
    """Compare a table with what is to be written.

    Parameters
    ----------
    wanted : name and type of each column that is to be written.
    given : the table's columns.
    fits : whether a column of one type keeps values of another as they are.
    statement : what would make the table.

    Raises
    ------
    ConfigError : it does not fit.
    """
    kinds, ours = {column.name: column.kind for column in given}, {name for name, _ in wanted}
    wrong = []
    for name, kind in wanted:
        if name not in kinds:
            wrong.append(f"{name} ({kind}) is missing")
        elif not fits(kinds[name], kind):
            wrong.append(f"{name} is {kinds[name] or 'of no type'}, and the topology writes {kind}")
    required = [column.name for column in given if column.is_required and column.name not in ours]
    wrong += [f"{name} must not be null, and the topology does not give it" for name in required]
    if wrong:
        raise ConfigError(
            f"The columns of {target!r} are not those of the topology.",
            given=f"{target!r}: {'; '.join(wrong)}",
            hint=f"Change the table (ALTER TABLE), or write another one. The topology's table is: {statement}",
        )


def take_over(table: Marked, target: TableTarget, identity: str, planned: int | None) -> None:
    """Make a query the one that writes a table, if it is not.

    Parameters
    ----------
    identity : names the application and its checkpoint.
    planned : number of the last batch that the checkpoint has a plan of; -1: none; None: not known.

    Raises
    ------
    ConfigError : it has rows of somebody else's, or lacks batches of the checkpoint.
    CorruptData : it has batches that the checkpoint has not.
    """
    mark = table.mark()
    if mark is None or mark.writer != identity:
        if not target.adopt:
            _check_history(table, target, planned)
        table.set_mark(Mark(identity, -1))
    elif planned is not None and mark.batch > planned:
        raise CorruptData(
            "The table has later batches than the checkpoint: new batches with their numbers would not be written.",
            given=f"{target!r}: batch {mark.batch} is there, the last one planned is {planned}",
            hint="Restore the newest checkpoint; or begin with a new one and an empty table.",
        )


def check_writer(mark: Mark | None, target: TableTarget, identity: str) -> Mark:
    """The columns of a table that this query still writes.

    Raises
    ------
    SinkError : another one has taken it over.
    """
    if mark is None or mark.writer != identity:
        raise SinkError(
            "Another query has taken the table over.",
            given=f"{target!r}: it is marked as written by {'nobody' if mark is None else 'another one'}",
            hint="A table has one writer: stop one of the two queries, or give each a table of its own.",
        )
    return mark


def has_batch(mark: Mark, target: TableTarget, batch: int, plan: BatchPlan) -> bool:
    """Whether a table has a batch, made of this plan.

    Raises
    ------
    ConfigError : it has a later batch, or this one with another plan.
    """
    return is_in(Marker.of(mark.batch, mark.plan), batch, plan, repr(target))


def _check_history(table: Marked, target: TableTarget, planned: int | None) -> None:
    adopt = f"or take it as it is: wm.{type(target).__name__}(..., adopt=True)."
    if not table.is_empty():
        raise ConfigError(
            "The table has rows of others than this query: it could not delete them.",
            given=repr(target),
            hint=f"Empty it; {adopt}",
        )
    if planned is not None and planned >= 0:
        raise ConfigError(
            "The table is behind the checkpoint: rows that no longer change would be missing.",
            given=f"{target!r}: it is empty, the last batch planned is {planned}",
            hint=f"Start with a new checkpoint, {adopt}",
        )
