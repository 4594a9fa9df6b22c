"""Calls outputs of the user's own: on the driver, or as the mapInArrow function of a task.

An error of such an output is raised as a `SinkError` with the line of its own file; a batch that it already has is left
out.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa

from watersmeet._worker import task
from watersmeet._worker.batch_plan import older
from watersmeet._worker.process import give_back, settle
from watersmeet.errors import SinkError
from watersmeet.io.outputs import BatchInfo, Output

T = TypeVar("T")
CALLED = "rows bigint"
_LONGEST = 500


@dataclass(frozen=True)
class OwnOutputWriter:
    """An output of the user's own.

    Parameters
    ----------
    output : as he wrote it.
    name : the output's name.
    identity : names the application and its checkpoint.
    """

    output: Output
    name: str
    identity: str

    def writer(self, task: int | None) -> str:
        """Who writes: the driver (None), or a task."""
        return self.identity if task is None else f"{self.identity}-{task}"

    def write(self, rows: pa.Table, batch: int, task: int | None = None) -> None:
        """Write rows of a batch, unless there are none, or the output has the batch.

        Raises
        ------
        SinkError : the output raises.
        ConfigError : it has later batches.
        """
        if not rows.num_rows:
            return
        writer = self.writer(task)
        last = asked(self, batch, writer)
        if last is not None and last > batch:
            raise older(f"output {self.name!r}: batch {batch} is to be written, batch {last} is in")
        if last is None or last < batch:
            _on_their_line(self, "write", batch, lambda: self.output.write(rows, BatchInfo(batch, writer, task)))


def asked(own: OwnOutputWriter, batch: int, writer: str) -> int | None:
    """The last batch that the output says it has of a writer's; None: it does not know.

    Parameters
    ----------
    batch : that it is asked for.
    """
    return _on_their_line(own, "last_batch", batch, lambda: own.output.last_batch(writer))


@dataclass(frozen=True)
class WriteOwn:
    """mapInArrow function: has the output write a task's rows, and says how many these were.

    Parameters
    ----------
    own : the output.
    batch : number of the batch.
    """

    own: OwnOutputWriter
    batch: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read all rows, write them, and yield one row."""
        settle()
        held = [rows for rows in batches if len(rows)]
        if held:
            self.own.write(pa.Table.from_batches(held), self.batch, task.partition())
        yield pa.RecordBatch.from_pydict({"rows": pa.array([sum(map(len, held))], pa.int64())})
        give_back()


def _on_their_line(own: OwnOutputWriter, method: str, batch: int, call: Callable[[], T]) -> T:
    try:
        return call()
    except Exception as error:
        kind = type(own.output)
        file = getattr(getattr(getattr(kind, method), "__code__", None), "co_filename", None)
        frames = traceback.extract_tb(error.__traceback__)
        # the last line of the output's own file; what it calls is somebody else's
        found = next((each for each in reversed(frames) if each.filename == file), frames[-1])
        said = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]
        raise SinkError(
            f"The output {own.name!r} raised {said}",
            given=f"{kind.__name__}.{method}, line {found.lineno} of {found.filename}, batch {batch}",
            hint="Remove the cause, then start again with the same checkpoint: the batch runs again, with the same "
            "rows and the same number.",
        ) from error
