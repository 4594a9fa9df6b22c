"""Questions that an output answers for itself, and outputs of the user's own.

Vocabulary: nobody else asks which output something is. One table (`_spark/sinks/kinds.py`) maps its class to the
writer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from watersmeet.errors import TopologyError
from watersmeet.io.formats import Format, FormatName

if TYPE_CHECKING:
    import pyarrow as pa

    from watersmeet.functions import FunctionBackend

WrittenBy = Literal["driver", "tasks"]
Names = tuple[str, str]
"""Of two outputs, the earlier one first."""
KeyTexts = Callable[[], tuple[str, str]]
"""Types and formats of two outputs' keys, as text."""


class SinkTarget(ABC):  # noqa: B024  an output of files or a function answers none of it otherwise
    """The target of an output: it answers the questions of the plan, the start and the checkpoint.

    Attributes
    ----------
    shown : what a picture of the topology calls it.
    keeps_rows : whether it keeps a row for each key, as a table does; only tables are then written to it.
    """

    shown: ClassVar[str] = ""
    keeps_rows: ClassVar[bool] = False

    @property
    def default_name(self) -> str | None:
        """The output's name where the user gives none; None: he has to give one."""
        return None

    @property
    def topic(self) -> str | None:
        """The Kafka topic that it is; None: it is none. Outputs of one topic leave in one order (law 2)."""
        return None

    @property
    def is_placed(self) -> bool:
        """Whether a function of the user's says which partition each record goes to."""
        return False

    @property
    def feeds_back(self) -> bool:
        """Whether the topology may read what it writes there."""
        return False

    @property
    def formats(self) -> Mapping[str, Format | FormatName | None]:
        """Formats of the parts of a record that are written as bytes; None: by type. Nothing: rows are kept as such."""
        return {}

    @property
    def claim(self) -> Hashable | None:
        """The place that it writes to: outputs of one claim must fit each other (`check_beside`). None: no claim."""
        return None

    def check_types(self, functions: FunctionBackend, key: Any, value: Any) -> None:  # noqa: B027  it need not be said
        """Raise unless it can write keys and values of these types; called on the line that writes to it.

        Raises
        ------
        TopologyError : it cannot.
        """

    def check_beside(self, other: Any, names: Names, keys: KeyTexts) -> None:  # noqa: B027  it need not be said
        """Raise unless it goes together with an earlier output of the same claim.

        Raises
        ------
        TopologyError : it does not.
        """

    def recorded(self, *, alone: bool) -> Mapping[str, Any]:
        """The record of it in a checkpoint, as JSON, besides its name.

        Parameters
        ----------
        alone : whether it may be Spark's own sink: the topology's only output, and no input by a pattern.
        """
        return {}


@dataclass(frozen=True)
class BatchInfo:
    """Which batch an output of one's own is given.

    Parameters
    ----------
    number : of the batch; the first is 0. A batch that is run again has its number, and the same rows.
    writer : who writes: a name that no other query and no other task has, the same at every start.
    task : number of the task that writes; None: the driver does.
    """

    number: int
    writer: str
    task: int | None = None


class Output(ABC):
    """An output of your own, as a class with one method.

    `table.to(HttpOutput(url), name="http")`: `write` gets the rows of each batch, records of a stream or changes of a
    table. By itself it is at least once: a batch that failed, or that the driver did not live to commit, is run again,
    with the same number and the same rows, and `write` is called again. It is exactly once where writing a row again
    changes nothing, as under a key. Or where what it writes to keeps `batch.writer` and `batch.number`, in one
    transaction with the rows, and `last_batch` answers the number: watersmeet then leaves out the batches that are
    there, and refuses a checkpoint that is older than the output.

    Attributes
    ----------
    written_by : "driver" calls `write` once for each batch, with all its rows, which have to fit into the driver's
        memory; "tasks" has each task of the last exchange call it with its own, in the workers: the object is pickled.
    keeps_rows : whether it keeps a row for each key: then a stream is refused, which is no table.

    Examples
    --------
    >>> class Printed(Output):
    ...     def write(self, rows, batch):
    ...         print(batch.number, rows.select(["key", "value"]).to_pylist())
    >>> Printed().written_by
    'driver'
    """

    written_by: ClassVar[WrittenBy] = "driver"
    keeps_rows: ClassVar[bool] = False

    @abstractmethod
    def write(self, rows: pa.Table, batch: BatchInfo) -> None:
        """Write rows; when it returns, they must be safe.

        Parameters
        ----------
        rows : columns key, value (null: a tombstone), timestamp, sequence, and headers where a topic keeps them. Each
            key's rows stand in order, and all of them are in one call. It is not called without rows.
        batch : the number of their batch.

        Raises
        ------
        Exception : whatever it likes: the query fails with a `SinkError` that names the line, nothing of the batch
            is committed, and the next start runs it again.
        """

    def last_batch(self, writer: str) -> int | None:
        """The number of the last batch of this writer's that the output has; -1: none. None: that is not known.

        It is asked at the start, and before each `write`, on the same machine as that.

        Parameters
        ----------
        writer : as `BatchInfo` has it.
        """
        return None

    def check_types(self, key: pa.DataType, value: pa.DataType) -> None:  # noqa: B027  it need not be said
        """Raise unless keys and values of these types can be written; called on the line of `to(...)`.

        Raises
        ------
        TopologyError : they cannot.
        """

    def check(self) -> None:  # noqa: B027  it need not be said
        """Raise unless the output can be reached; called at each start, on the driver.

        Raises
        ------
        ConfigError : it cannot.
        """


@dataclass(frozen=True)
class OwnOutput(SinkTarget):
    """An output of the user's own, as a sink target: so his class may have any names that it likes."""

    output: Output

    shown = "own output"

    def __post_init__(self) -> None:
        given: object = self.output.written_by
        if given not in get_args(WrittenBy):
            raise TopologyError(
                f"Unknown written_by={given!r:.80}.",
                given=f"class {type(self.output).__name__}",
                hint='Take written_by = "driver", or "tasks".',
            )

    def __repr__(self) -> str:
        return f"{type(self.output).__name__}(...)"

    @property
    def keeps_rows(self) -> bool:  # type: ignore[override]
        """See `SinkTarget`."""
        return self.output.keeps_rows

    def check_types(self, functions: FunctionBackend, key: Any, value: Any) -> None:
        self.output.check_types(functions.as_arrow(key), functions.as_arrow(value))
