"""The input records of a batch, as tasks write them into the journal of a query that explains its tables.

The driver asks with a property of the job, which names the batch's folder; without it nothing is done. A task's file
has its name only when it is whole, and a task that runs again writes the same once more. Plain Arrow (law 5).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from watersmeet._worker import task

PROPERTY = "watersmeet.journal"
"""The job's property that names the folder of the batch."""
SUFFIX = ".arrow"


@dataclass
class JournalFile:
    """The file of a task.

    Parameters
    ----------
    path : where it lies when it is whole.
    """

    path: Path
    _writer: pa.ipc.RecordBatchFileWriter | None = field(default=None)

    @classmethod
    def begun(cls, roots: Mapping[int, str], *, snapshot: bool) -> JournalFile | None:
        """The file for rows of these sources; None where nobody asks for it."""
        folder = task.job_property(PROPERTY)
        if not folder:
            return None
        kind = "snapshot" if snapshot else "records"
        return cls(Path(folder) / f"{kind}-{min(roots, default=0)}-{task.partition()}{SUFFIX}")

    @property
    def _beside(self) -> Path:
        return self.path.with_suffix(f".{task.attempt_id()}.new")

    def write(self, rows: pa.Table) -> None:
        """Put rows behind those already there."""
        if self._writer is None:
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            self._writer = pa.ipc.new_file(str(self._beside), rows.schema, options=options)
        self._writer.write_table(rows)

    def end(self) -> None:
        """Give the file its name, if there were rows."""
        if self._writer is not None:
            self._writer.close()
            os.replace(self._beside, self.path)
