"""Plain Python functions of values (`wm.python`) as functions of Columns.

The Column holds a UDF over Arrow, which the level knows by what it calls (`plain_call`), and evaluates itself. Where
Spark evaluates the stage for another function's sake, the UDF gives errors as values, and the Column raises those that
are asked for.
"""

from __future__ import annotations

import pickle
import warnings
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.functions import ArrowUDFType
from pyspark.sql.types import DataType, StringType, StructField, StructType

from watersmeet._engine.expressions.plain_calls import ERROR, VALUE, PlainCall
from watersmeet._engine.rows.types import with_nulls
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet.errors import FunctionError
from watersmeet.functions import Function, own


def of_columns(function: Function, kind: DataType, *, pair: bool) -> Function:
    """A plain Python function as one of Columns.

    Parameters
    ----------
    function : of plain values.
    kind : type of its result.
    pair : whether the result is a struct of a key and a value, and a pair of Columns is wanted.
    """
    if pair and (not isinstance(kind, StructType) or len(kind.fields) != 2):
        raise FunctionError(
            f"The mapper must return a key and a value, and returns={kind.simpleString()!r:.80} is no struct of "
            "two fields.",
            hint="wm.python(lambda value: (key, value), 'struct<key: string, value: long>').",
        )
    name = getattr(own(function), "__name__", "function")
    call = PlainCall(function, with_nulls(arrow_type(kind)), name)
    fields = [StructField(VALUE, kind), StructField(ERROR, StringType())]
    with warnings.catch_warnings():
        # it asks for hints of types, which nothing but a function has
        warnings.simplefilter("ignore", UserWarning)
        udf: Any = F.arrow_udf(call, StructType(fields), ArrowUDFType.SCALAR)

    def called(*columns: Column) -> Any:
        made = udf(*columns)
        value = F.when(made[ERROR].isNull(), made[VALUE]).otherwise(F.raise_error(made[ERROR]))
        return tuple(value[field.name] for field in kind.fields) if pair and isinstance(kind, StructType) else value

    return called


def plain_call(udf: Any) -> PlainCall | None:
    """The function that a UDF in Spark's plan calls, if it is a plain function of ours.

    Parameters
    ----------
    udf : the expression in the JVM.
    """
    try:
        called, _ = pickle.loads(bytes(udf.func().command().unsafeArray()))
    except Exception:  # a UDF of the user's may be anything, and of a large one Spark keeps another form
        return None
    return called.own if isinstance(called, PlainCall) else None
