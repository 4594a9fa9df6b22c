"""The writer of one kind of output: the checks before a start, and the passes over a batch.

Each kind has a file of its own here, and a line in `kinds.KINDS`; nothing else knows of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import SinkNode
from watersmeet._spark.dataflow.compile import CompiledFrame
from watersmeet._spark.dataflow.selection import Selection
from watersmeet._spark.fencing.asked import always
from watersmeet._spark.session.origins import unnamed
from watersmeet._worker.batch_plan import UNKNOWN, BatchPlan
from watersmeet._worker.writers.driver_commit import Written
from watersmeet.io.kafka import Kafka

EVERY_BATCH = 2**62
"""As the last batch that may have been run before: nothing is known of any."""


@dataclass(frozen=True)
class Chosen:
    """An output, and its part of the frame.

    Parameters
    ----------
    number : its place among the outputs.
    node : its Sink node.
    target : as the user named it.
    selection : its rows and columns.
    """

    number: int
    node: Any
    target: Any
    selection: Selection


@dataclass(frozen=True, repr=False)
class Given:
    """The facts of a start for its outputs.

    Parameters
    ----------
    compiled : the frame of all outputs' rows.
    identity : names the application and its checkpoint; what Kafka's groups and transactional ids begin with.
    kafka : the connection.
    written : what the checkpoint says of earlier starts; None: nothing is to be checked.
    guard : raises where the checkpoint is another query's.
    """

    compiled: CompiledFrame
    identity: str
    kafka: Kafka | None = None
    written: Written | None = None
    guard: Callable[[], None] = always

    @property
    def frame(self) -> DataFrame:
        """The frame of all outputs' rows."""
        return self.compiled.frame

    @property
    def spark(self) -> SparkSession:
        """The user's session; a batch has one of its own."""
        return self.compiled.frame.sparkSession

    @property
    def planned(self) -> int:
        """Number of the last batch that may have been run before."""
        return EVERY_BATCH if self.written is None else self.written.planned


@dataclass(frozen=True)
class OutputBatch:
    """A batch that is written.

    Parameters
    ----------
    number : its number.
    plan : what it is made of.
    guard : raises where the checkpoint is another query's.
    took : is given the seconds of each transaction, and how often a transactional id was taken over for it.
    """

    number: int
    plan: BatchPlan = UNKNOWN
    guard: Callable[[], None] = always
    took: Callable[[float, int], None] = lambda seconds, takeovers: None


class Pass(ABC):
    """Reads each batch's frame once, and writes what some outputs get of it.

    Attributes
    ----------
    turn : those of a lower turn come first; else they go by the place of their first output.
    number : that place.
    """

    turn: ClassVar[int] = 3
    number: int = 0

    @property
    def leaves_rows(self) -> bool:
        """Whether it may stop before the end of the rows: then the levels' state would not be saved by it."""
        return False

    def begin(self) -> None:  # noqa: B027  most have nothing to take over
        """Take over what is written to: everything has been checked, and the checkpoint is this query's.

        Raises
        ------
        WatersmeetError : it cannot be.
        """

    @abstractmethod
    def write(self, frame: DataFrame, batch: OutputBatch) -> None:
        """Write a batch; run again, it leaves the same output once, as far as the kind can.

        Parameters
        ----------
        frame : all outputs' rows, or wire rows.
        """

    def close(self) -> None:  # noqa: B027  most have nothing to close
        """Called when the query has ended."""


@dataclass(frozen=True)
class OnePass(Pass):
    """A pass for one output.

    Parameters
    ----------
    chosen : the output.
    """

    chosen: Chosen

    @property
    def number(self) -> int:  # type: ignore[override]
        """See `Pass`."""
        return self.chosen.number


class OutputKind(ABC):
    """One kind of output."""

    def check(self, spark: SparkSession, targets: Sequence[Any], *, alone: bool) -> None:  # noqa: B027  see above
        """Raise, or warn, before anything is done at a start.

        Parameters
        ----------
        alone : whether it may be Spark's own sink (`Plan.one_writer`).
        """

    def can_be_direct(self, spark: SparkSession, plan: Plan, sinks: Sequence[SinkNode]) -> bool:
        """Whether these outputs, all of a plan, can be written from wire rows, without making rows of Spark's first."""
        return False

    def direct(self, given: Given, nodes: Sequence[SinkNode]) -> Pass:
        """The writer of wire rows, if the outputs can be written from these.

        Parameters
        ----------
        nodes : by their numbers in the exits.
        """
        raise NotImplementedError

    def alone(self, given: Given, chosen: Chosen, query_name: str | None) -> DataStreamWriter | None:
        """Spark's own sink, where the only output is one."""
        return None

    @abstractmethod
    def passes(self, given: Given, chosen: Sequence[Chosen]) -> Sequence[Pass]:
        """The writer of the outputs of this kind, checked.

        Raises
        ------
        WatersmeetError : something does not fit.
        """


@unnamed()
def in_order(frame: DataFrame) -> DataFrame:
    """Wire rows by label, as what writes them needs them. A sorted task has read its last row before it gives one."""
    return frame.sortWithinPartitions("label")
