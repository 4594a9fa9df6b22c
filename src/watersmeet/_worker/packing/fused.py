"""The steps of a level on results that do not leave it: it makes the stage's columns, and packs the rows.

Law 4: where a function is evaluated changes speed, never a result.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from watersmeet._engine.exchange.routing import Outlet
from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.expressions.program import Program
from watersmeet._engine.expressions.reduced import Fields
from watersmeet._engine.rows.columns import without
from watersmeet._worker.formats.arrow_types import loosened
from watersmeet._worker.formats.dead_letters import of_peek
from watersmeet._worker.packing.packing import fitted_column
from watersmeet._worker.wire.dead_letters import DeadLetterWriter
from watersmeet._worker.wire.peeks import PeekCall, show


@dataclass(frozen=True)
class StageColumns:
    """The columns that a stage's functions begin with.

    Parameters
    ----------
    operator : number of the results' operator.
    renamed : (name of the result column, name in the stage).
    schema : names and types in the stage; what results have not is null.
    """

    operator: int
    renamed: tuple[tuple[str, str], ...]
    schema: pa.Schema

    def of(self, results: pa.Table) -> pa.Table:
        """The results in these columns, beside those of their positions."""
        names = dict(self.renamed)
        rows = results.rename_columns([names.get(name, name) for name in results.column_names])
        given = set(rows.column_names)
        for wanted in self.schema:
            if wanted.name not in given:
                rows = rows.append_column(wanted.name, fitted_column(None, wanted.type, len(rows)))
        rows = rows.append_column("root", pa.array(np.full(len(rows), self.operator, dtype=np.int32)))
        rows = rows.append_column(f"root:{self.operator}", pa.array(np.ones(len(rows), dtype=np.bool_)))
        return loosened(rows)


@dataclass(frozen=True)
class Fused:
    """How an operator's results go on without leaving its level.

    Parameters
    ----------
    outlets : where they go.
    columns, program : what the stage makes of them; None where they go as they are.
    peeks : functions to be shown rows.
    fields : of the results' columns that are structs, the numbers of the fields that this reads.
    outlives : whether a row for which a function raises ends, and does not fail the query.
    """

    outlets: tuple[Outlet, ...]
    columns: StageColumns | None = None
    program: Program = field(default_factory=Program)
    peeks: tuple[PeekCall, ...] = ()
    fields: Fields = field(default_factory=dict)
    outlives: bool = False

    @property
    def broadcasts_bounds(self) -> bool:
        """Whether every shard gets the time bounds of results."""
        return any(outlet.route.bounds_port is not None for outlet in self.outlets)

    def rows(self, results: pa.Table, node: str, drops: DeadLetterWriter) -> pa.Table:
        """The results with all that functions make of them.

        Parameters
        ----------
        node, drops : the node of the results, and the writer of rows that end.

        Raises
        ------
        EvaluationError : a function has no value for a row, which is not to end for that.
        Exception : a function that is shown rows raises it, likewise.
        """
        if self.columns is None:
            return results
        given = self.columns.of(results)
        try:
            rows = self.program(given)
        except EvaluationError:
            if not self.outlives:
                raise
            failed = self.program.failing(given)
            drops.failed(node, results, failed, f"In a function behind {node}.")
            results = without(results, failed)
            given = without(given, failed)
            rows = self.program(given)
        raised: dict[int, Exception] = {}
        show(rows, self.peeks, node, raised if self.outlives else None)
        if raised:
            raised = self.program.given(rows, raised)
            errors = {row: of_peek(error) for row, error in raised.items()}
            drops.failed(node, results, errors, f"Behind {node}.")
            rows = self.program(without(given, raised))
        return rows
