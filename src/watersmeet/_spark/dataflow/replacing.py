"""Levels that compute tables anew: run once, over the state that a changed topology has taken over.

Each shard of an operator that has a part in it gets a row of its own, on which it begins. A replaced table's shards
send the rows that differ, as wire rows for their own side: these leave the levels, and the query's first batch reads
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from watersmeet._engine.operators.anew import differing_rows, run_anew
from watersmeet._engine.state.runs import State
from watersmeet._plan.change.replaced import Anew, Difference
from watersmeet._plan.operators.spec import RAISED
from watersmeet._plan.physical import Physical
from watersmeet._spark.dataflow.compile import compile_levels
from watersmeet._spark.dataflow.layout import SparkLayout
from watersmeet._spark.dataflow.processor import DEFAULT_CACHE, LevelOperators, LevelProcessor, in_blobs, passed_on
from watersmeet._spark.sources.scans import Scan
from watersmeet._worker.wire.common import Common
from watersmeet._worker.wire.dead_letters import DeadLetterWriter
from watersmeet._worker.wire.measures import Tally, WireRow
from watersmeet._worker.wire.wire import Labels, output_port
from watersmeet.errors import FunctionError

BEGIN = 2**31 - 2
"""Port of the row that tells a shard to begin."""
COUNTS = 2**31 - 3
"""Port of how many rows of a shard differ, as JSON."""


class ReplacingProcessor(LevelProcessor):
    """Computes operators of one level anew, and compares tables; other operators of the level do nothing.

    Parameters
    ----------
    roles : by the id of the operator, what it does.
    options : as of every level; results are packed where they are made.
    """

    def __init__(
        self, roles: Mapping[int, Anew | Difference], operators: LevelOperators, common: Common, **options: Any
    ) -> None:
        super().__init__(operators, common, cache_root=options["cache_root"], gathers=False, passes_ends=False)
        self._roles = roles

    def ran(self, label: int, given: Iterator[tuple[int, bytes]], state_of: Callable[[], State]) -> Iterator[WireRow]:
        target, shard = self._common.labels.place(label)
        context, role = self._operators.settings.get(target), self._roles.get(target)
        if context is None:
            yield from passed_on(label, given)
            return
        if role is None:
            return
        rows = self._inputs(target, ((port, content) for port, content in given if port != BEGIN))
        inputs = rows.get(target, {})
        if isinstance(role, Difference):
            counts, tables = differing_rows(context, role, inputs, state_of())
            yield label, COUNTS, json.dumps(asdict(counts)).encode(), 0
            yield from in_blobs(tables, label, role.port)
            return
        drops, tally, fused = DeadLetterWriter(), Tally(), self._operators.fused.get(target)
        results = run_anew(context, role, inputs, state_of(), drops)
        if fused is None:
            yield from in_blobs(results, label, output_port(target))
        else:
            for table in results:
                yield from self._fused_rows(table, fused, shard, context, drops, tally)
        _refuse_raised(drops)


def _refuse_raised(drops: DeadLetterWriter) -> None:
    """Raise where a function has failed: a row would be gone that nobody has deleted."""
    for (node, reason), count in drops.items():
        if reason == RAISED and count:
            raise FunctionError(
                f"A function of {node!r} raises for {count} rows of a table that replace= computes anew.",
                given=node,
                hint="on_error= holds for records, and not for a table's rows: correct the function.",
            )


def replacing_frame(
    physical: Physical,
    begun: DataFrame,
    inputs: Sequence[Scan],
    spread: tuple[Labels, int],
    roles: Mapping[int, Anew | Difference],
) -> DataFrame:
    """The wire rows that leave the levels.

    Parameters
    ----------
    begun : wire rows that tell shards to begin.
    inputs : the rows of tables that are read.
    spread : the labels, and the number of tasks.
    """
    labels, tasks = spread
    layout = SparkLayout(
        labels=labels,
        tasks=tasks,
        cache_root=DEFAULT_CACHE,
        headers=physical.plan.headers,
        cases=False,
        observe=lambda frame, *_: frame,
        processor=partial(ReplacingProcessor, dict(roles)),
    )
    return compile_levels(physical, begun, inputs, layout)
