"""Users' functions as text: the result of Spark's analysis of their Columns.

The text is the same at every start of the same program under one version of Spark, so that a checkpoint can tell that a
function has changed; other versions may spell the same expression otherwise. The body of a Python UDF is not in it:
Spark knows a UDF by its name.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import UserFunction
from watersmeet._spark.columns import empty_frame, projection_text, without_origins
from watersmeet._spark.session import overridden

_WHOLE = {"spark.sql.debug.maxToStringFields": str(2**31 - 1)}
# PySpark numbers the variables of lambdas as they come, Spark numbers what it has named
_VARIABLE = re.compile(r"\blambda (\w+?)(?:_\d+)?#(\d+)L?")
_NUMBERED = re.compile(r"(?<=\))#\d+L?")


def function_texts(spark: SparkSession, plan: Plan) -> dict[str, dict[str, str]]:
    """The analysed expressions of each node's functions: by node's name, then by role (predicate, joiner, ...).

    A function that gives a pair has the two, one under the other. Nodes without functions are left out.
    """
    functions = [(node.name, function) for node in plan.nodes for function in plan.functions_of(node)]
    texts: dict[str, dict[str, str]] = {}
    for (name, function), text in zip(functions, _texts(spark, [function for _, function in functions]), strict=True):
        texts.setdefault(name, {})[function.role] = text
    return texts


def expression_texts(frame: DataFrame, columns: Sequence[Column]) -> list[str]:
    """What Spark's analysis has made of columns of a frame, with the numbers that it gives to what it has named.

    Each is empty where the plan does not show it by itself, as those of window functions.
    """
    if not columns:
        return []
    # no text of the user's can be taken for the end of a column
    mark = secrets.token_hex(8)
    names = [f"column{number}_{mark}" for number in range(len(columns))]
    view = f"watersmeet_{mark}"
    spark = frame.sparkSession
    ends = r", ".join(rf"(.*) AS {name}#\d+L?" for name in names)
    with overridden(spark, _WHOLE):
        selected = frame.select(*[c.alias(name) for c, name in zip(columns, names, strict=True)])
        if read := re.fullmatch(rf"Project \[{ends}\]", projection_text(selected), re.DOTALL):
            return list(read.groups())
        selected.createOrReplaceTempView(view)
        try:
            explanation = str(spark.sql(f"EXPLAIN EXTENDED SELECT * FROM {view}").collect()[0][0])
        finally:
            spark.catalog.dropTempView(view)
    analysed = explanation.partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
    below = analysed.partition(f"+- View (`{view}`, ")[2]
    read = re.match(rf"[^\n]*\n *\+- Project \[{ends}\]\n", below, re.DOTALL)
    return list(read.groups()) if read else [""] * len(columns)


def operand_columns(operands: Mapping[str, DataType]) -> StructType:
    """Schema of a frame with a function's operands as columns."""
    return StructType([StructField(name, kind) for name, kind in operands.items()])


@without_origins()
def _texts(spark: SparkSession, functions: Sequence[UserFunction]) -> list[str]:
    """The texts of all functions, of which Spark is asked once."""
    mark = secrets.token_hex(8)
    kinds: dict[str, DataType] = {}
    columns: list[Column] = []
    owners: list[int] = []
    for number, function in enumerate(functions):
        names = {f"{name}_{number}_{mark}": kind for name, kind in function.operands}
        kinds |= names
        result = function.function(*map(F.col, names))
        for column in result if isinstance(result, tuple) else (result,):
            columns.append(column)
            owners.append(number)
    frame = empty_frame(spark, operand_columns(kinds))
    operand = re.compile(rf"_\d+_{mark}(?:#\d+L?)?")
    texts = [_stable(operand.sub("", text)) for text in expression_texts(frame, columns)]
    return ["\n".join(t for t, owner in zip(texts, owners, strict=True) if owner == n) for n in range(len(functions))]


def _stable(text: str) -> str:
    """The text without what is another number at every start."""
    order: dict[str, int] = {}
    renumbered = _VARIABLE.sub(lambda m: f"lambda {m[1]}#{order.setdefault(m[2], len(order))}", text)
    return _NUMBERED.sub("", renumbered)
