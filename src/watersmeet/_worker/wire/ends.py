"""End rows: how a task that writes to the outside knows that it has seen all its rows.

When a stage above fails, or its task is killed, Spark merely closes the pipe to the Python worker below, and
Arrow reads a closed pipe as an orderly end: a function that then commits what it got commits half a batch.
So the last Python stage before a sink closes its output with two end rows, in batches of their own. Spark
looks for a failure above before each batch that it passes on, and at most one is under way when the failure
comes: who sees the second end row has seen everything. Rows that are written straight have ends of another kind
(`wire`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

LAST = -2
"""Value of the second end row, which makes the rows whole; of the first one it is -1."""


def end_rows(schema: pa.Schema, column: str) -> Iterator[pa.RecordBatch]:
    """The two end rows: -1 and -2 in the integer column `column`, null in all others."""
    for value in (-1, LAST):
        arrays = [
            pa.array([value], field.type) if field.name == column else pa.nulls(1, field.type) for field in schema
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
