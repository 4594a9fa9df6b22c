"""Why a row is as it is: the question, checked, and answered from a checkpoint and its journal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from watersmeet._plan.dead_letters import without_dead_letters
from watersmeet._plan.explain import explain
from watersmeet._plan.operators.lending import with_lent_tables
from watersmeet._plan.physical import Physical
from watersmeet._plan.rewrite import rewrite
from watersmeet._spark.checkpoint.checkpoint import started_in
from watersmeet._spark.checkpoint.files import Folder
from watersmeet._spark.checkpoint.pattern_topics import KnownTopics
from watersmeet._spark.journal.read import Journal
from watersmeet._spark.session.check import check_session
from watersmeet._spark.stores.read import read_state
from watersmeet.errors import ConfigError
from watersmeet.provenance.answer import Why
from watersmeet.provenance.causes import MOST_TRIED, Found, causes_of
from watersmeet.provenance.records import in_sequence, inlets_of
from watersmeet.provenance.replay import AskedRow
from watersmeet.provenance.selection import selected
from watersmeet.testing.in_process import Local, NotInProcess, local

_HINT = "Ask the topology that the query was started with."


def why(spark: SparkSession, checkpoint: str, physical: Physical, table: str, key: Any) -> Why:
    """The input records that a table's row comes from; see `Topology.why`.

    Raises
    ------
    ConfigError : there is no journal, no such table, the key is of another type, or the topology is another one.
    """
    check_session(spark, "topology.why(spark, checkpoint=...)")
    begun = started_in(Folder(spark, checkpoint))
    written = rewrite(without_dead_letters(physical.plan))
    if not begun.facts.topology.startswith(explain(written)):
        raise ConfigError("The checkpoint belongs to another topology.", given=checkpoint, hint=_HINT)
    journal = Journal.of(begun.place)
    # of the same batch, while the query runs; an unknown table and a key of another type end here
    frame = read_state(spark, checkpoint, table, batch=journal.committed, keys=[key])
    stored = frame.collect()
    ready = replayable(spark, physical)
    if table not in ready.stores:
        raise ConfigError(
            f"The table {table!r} cannot be explained: it is no table by key or window.",
            hint=f"Tables: {', '.join(sorted(ready.stores)) or 'none'}.",
        )
    kept = ready.stores[table]
    topics = KnownTopics.read(begun).topics if physical.plan.patterns else {}
    history = in_sequence(journal, ready, inlets_of(physical.plan, topics))
    rows = tuple({name: row[name] for name in row.asDict() if name != "key"} for row in stored)
    row = AskedRow(kept, kept.order_of(key))
    steps = selected(ready, row, history)
    found = causes_of(ready, row, history, steps)
    if steps is not None and not _is_same(found, rows):
        found = causes_of(ready, row, history)
    first = journal.batches[0]
    notes = tuple(_notes(journal, found, rows))
    given = (table, key, journal.committed, rows, found.causes, first.number, first.ended_ms, notes)
    return Why(*given, frame.schema, physical.plan, kept.context.operator.node)


def replayable(spark: SparkSession, physical: Physical) -> Local:
    """The topology, ready for a replay.

    Raises
    ------
    ConfigError : it cannot be replayed in this process.
    """
    check_session(spark, "topology.start(spark, checkpoint=...)")
    if physical.by_wall:
        raise ConfigError(
            "A topology with timers of the wall clock cannot be explained: a replay has another clock.",
            given="timers by the wall clock",
            hint="Leave explain= out, or use timers by event time.",
        )
    # each operator gets all its rows, as what is asked goes by the operators above a table
    apart = with_lent_tables(physical.with_one_domain(), lambda operator: operator.id)
    ready = local(spark, apart, shards=1, headers=physical.plan.headers)
    if isinstance(ready, NotInProcess):
        raise ConfigError(
            f"The topology cannot be explained: it does not run in this process, since {ready.why}.",
            given=ready.why,
            hint="Leave explain= out. docs/functions.md says which functions run without Spark.",
        )
    return ready


def _notes(journal: Journal, found: Found, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The gaps of the journal that matter for the row, as text."""
    first, last = journal.batches[0].number, journal.batches[-1].number
    is_same = _is_same(found, rows)
    made = f"{'; '.join(repr(value) for _, value in found.row) or 'nothing':.200}"
    if last < journal.committed:
        yield f"The journal ends with batch {last}; the row is of batch {journal.committed}."
    if first > 0 and not found.tried:
        yield f"No record of the journal came to the row: it stood so before the journal began, with batch {first}."
    elif first > 0 and not is_same:
        yield (
            f"The row stood so before the journal began, with batch {first}, or earlier records have a part in it: "
            f"those of the journal alone make {made}."
        )
    elif first > 0:
        yield f"The journal begins with batch {first}: earlier records are not named."
    elif journal.is_complete and not is_same:
        yield (
            f"The replay makes another row: {made}. It has one time for all partitions of the inputs, or its functions "
            "have changed."
        )
    if not found.one_by_one:
        yield (
            f"More than {MOST_TRIED} records may have a part in the row: all are named, and none was left out to see "
            "whether it has."
        )


def _is_same(found: Found, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a replay makes the rows that the table has."""
    return _values(rows) == sorted(repr(value) for _, value in found.row)


def _values(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(repr(row["value"]) for row in rows)
