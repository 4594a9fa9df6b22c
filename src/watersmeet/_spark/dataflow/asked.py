"""Programs that Spark runs in the middle of a level of this process: a small query over the rows at hand.

So the test driver keeps its levels, stores and clocks in its own process, whatever functions a topology has (law 4:
where a function is evaluated changes no result). Workers never do this: there Spark evaluates between two levels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.expressions.program import GIVEN, Program
from watersmeet._spark.session import settings
from watersmeet._worker.formats.arrow_types import arrow_schema
from watersmeet._worker.formats.json_types import nullable


@dataclass(frozen=True)
class NotFused:
    """Why Spark evaluates the functions of a stage.

    Parameters
    ----------
    column : the stage's column that has to be Spark's; empty where it is not one alone.
    why : what is not known in the level: the name of a class of Spark's, as a rule.
    """

    column: str
    why: str


@dataclass(frozen=True)
class Question:
    """What Spark is asked for.

    Parameters
    ----------
    spark : the session.
    schema : of the frame that the functions begin with.
    over : makes the frame with all columns of it.
    columns : those that are wanted, with their types.
    why : why the level cannot make them.
    """

    spark: SparkSession
    schema: StructType
    over: Callable[[DataFrame], DataFrame]
    columns: StructType
    why: NotFused

    def answer(self, rows: pa.Table) -> pa.Table:
        """The columns, and the number of the row that each row of them was made of."""
        numbers = pa.array(np.arange(len(rows), dtype=np.int64))
        given = rows.select(self.schema.names).cast(arrow_schema(self.schema)).append_column(GIVEN, numbers)
        # a struct that is null has nulls where a field itself never is: neither Arrow's cast nor a row knows that
        wanted = StructType([StructField(GIVEN, LongType()), *(_with_nulls(each) for each in self.columns)])
        with settings.overridden(self.spark, settings.AT_START):
            frame = self.spark.createDataFrame(given, StructType([*self.schema, wanted[GIVEN]]))
            columns = [F.col(each.name).cast(each.dataType).alias(each.name) for each in wanted]
            return self.over(frame).select(columns).toArrow().cast(arrow_schema(wanted))


def _with_nulls(field: StructField) -> StructField:
    return StructField(field.name, nullable(field.dataType), True)


@dataclass(frozen=True)
class AskedProgram(Program):
    """A program with columns that Spark makes.

    Parameters
    ----------
    question : what it is asked.
    """

    question: Question = field(kw_only=True)

    @property
    def why(self) -> NotFused:
        """Why the level cannot make the columns."""
        return self.question.why

    @property
    def idle(self) -> bool:
        """See base class."""
        return False

    @property
    def reads(self) -> tuple[str, ...]:
        """See base class: all columns."""
        return tuple(self.question.schema.names)

    @property
    def explodes(self) -> bool:
        """See base class: it may."""
        return True

    def __call__(self, rows: pa.Table) -> pa.Table:
        """See base class; what Spark raises goes out as it is."""
        made = self.question.answer(rows)
        found = rows.take(made.column(GIVEN))
        for name in made.column_names:
            at = found.schema.get_field_index(name)
            column = made.column(name)
            found = found.set_column(at, name, column) if at >= 0 else found.append_column(name, column)
        return found

    def failing(self, rows: pa.Table) -> Mapping[int, EvaluationError]:  # type: ignore[override]
        """See base class: Spark says of no row that it fails alone."""
        return {}
