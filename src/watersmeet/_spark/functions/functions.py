"""Users' functions as Spark Columns: their types are asked of Spark when the topology is built.

Law 4: a schema error surfaces on the user's own line. Each function is applied once to an empty DataFrame of
the right types and analysed; nothing runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from watersmeet._engine.databases.columns import columns_of
from watersmeet._engine.expressions.errors import EvaluationError
from watersmeet._engine.expressions.evaluate import RowsOfArrays, unsupported
from watersmeet._engine.expressions.evaluated import Evaluated
from watersmeet._engine.expressions.tree import Operand
from watersmeet._engine.rows.first_values import of_type, typed
from watersmeet._engine.rows.python_values import python_values
from watersmeet._engine.rows.types import with_nulls
from watersmeet._spark.analysis.analysed_plan import Unread, layers_of
from watersmeet._spark.analysis.analysis import analysed, flaw_of
from watersmeet._spark.analysis.plain_functions import of_columns
from watersmeet._spark.functions.records import RecordFunctions
from watersmeet._spark.functions.refusals import ARGUMENT, Arguments, boolean_hint, field_refusal, refusal_of
from watersmeet._spark.functions.slips import Slip, method_slip, name_slip, slip_of, text_slip, value_slip
from watersmeet._spark.functions.source_positions import place_of, place_of_function
from watersmeet._worker.formats.arrow_types import arrow_type, spark_type
from watersmeet._worker.formats.formats import check_writable, describe_format, format_for
from watersmeet._worker.formats.json_types import nullable
from watersmeet.errors import ConfigError, FunctionError, WatersmeetError
from watersmeet.functions import Function, names_of, own
from watersmeet.io.databases import TableTarget
from watersmeet.io.formats import Format

_SHOWN = 200
_OF_KEYS = ("key selector", "key mapper", "key extractor", "foreign key extractor", "result key")
"""Roles of functions that give keys."""


class ColumnFunctions(RecordFunctions):
    """The function backend of ordinary topologies."""

    def source_types(self, origin: Any, given: str) -> tuple[DataType, DataType]:
        """Types of a topic's formats, or of the columns that key and value of a DataFrame name."""
        from watersmeet._spark.sources.kinds import reading_of

        if any(isinstance(Format.of(form).schema, str) for form in origin.formats.values()):
            session()  # Spark parses the schema
        key_type, value_type = reading_of(origin).types(origin)
        _check_key(key_type, f"keys of {given!r}")
        return key_type, value_type

    def value_type(self, function: Function, arguments: Sequence[DataType], role: str) -> DataType:
        """Type of the Column that `function` returns.

        Raises
        ------
        FunctionError : it fails, returns no Column, or names what is not there.
        """
        (kind,) = self._analyse(function, arguments, role, count=1)
        if role in _OF_KEYS:
            _check_key(kind, f"keys that the {role} gives")
        return kind

    def pair_type(self, function: Function, arguments: Sequence[DataType], role: str) -> tuple[DataType, DataType]:
        """Types of the (key, value) pair of Columns that `function` returns."""
        key, value = self._analyse(function, arguments, role, count=2)
        _check_key(key, f"keys that the {role} gives")
        return key, value

    def element_type(self, function: Function, arguments: Sequence[DataType], role: str) -> DataType:
        """Element type of the array Column that `function` returns."""
        (kind,) = self._analyse(function, arguments, role, count=1, elements=True)
        if not isinstance(kind, ArrayType):
            raise FunctionError(
                f"The {role} must return an array, not {kind.simpleString():.{_SHOWN}}.",
                hint="Wrap it in F.array(...); a text becomes one with F.split(text, ',').",
            )
        return kind.elementType

    def element_pair(self, element: DataType, role: str) -> tuple[DataType, DataType]:
        """Types of the two fields of the array's structs."""
        if not isinstance(element, StructType) or len(element.fields) != 2:
            raise FunctionError(
                f"The {role} must return an array of structs of a key and a value.",
                given=element.simpleString(),
                hint="F.array(F.struct(key, value), ...); flat_map_values keeps the key.",
            )
        key, value = (field.dataType for field in element.fields)
        _check_key(key, f"keys that the {role} gives")
        return key, value

    def where_they_run(self, physical: Any) -> Sequence[str]:
        """A line for each function: in the level, or by Spark, and then why."""
        from watersmeet._spark.dataflow.function_engines import planned_engines
        from watersmeet._spark.sinks.sinks import can_be_direct

        spark = SparkSession.getActiveSession()
        if spark is None or not any(map(physical.plan.functions_of, physical.plan.nodes)):
            return ()
        return tuple(planned_engines(spark, physical, direct_sinks=can_be_direct(spark, physical.plan)))

    def check_outlived(self, physical: Any) -> None:
        """Raise where `on_error` is to outlive a function that Spark evaluates, which fails its task."""
        from watersmeet._spark.dataflow.function_engines import check_outlived
        from watersmeet._spark.sinks.sinks import can_be_direct

        spark = SparkSession.getActiveSession()
        if spark is not None:
            check_outlived(spark, physical, direct_sinks=can_be_direct(spark, physical.plan))

    def plain(self, function: Function, returns: Any, role: str, *, pair: bool = False) -> Function:
        """A plain Python function of values as one of Columns."""
        return of_columns(function, self.named_type(returns), pair=pair)

    def check_predicate(self, function: Function, arguments: Sequence[DataType], role: str) -> None:
        """Raise unless `function` returns a boolean Column."""
        kind = self.value_type(function, arguments, role)
        if not isinstance(kind, BooleanType):
            raise FunctionError(
                f"The {role} must return a condition, not {kind.simpleString():.{_SHOWN}}.", hint=boolean_hint(kind)
            )

    def combined_type(self, prefix: DataType, suffix: DataType) -> DataType:
        """A struct of `prefix` and `suffix`."""
        return StructType([StructField("prefix", prefix, True), StructField("suffix", suffix, True)])

    def combined_parts(self, key: Column) -> tuple[Column, Column]:
        """(prefix, suffix) of a combined key."""
        return key["prefix"], key["suffix"]

    def record(self, key: Column, parts: Mapping[str, Column | None]) -> Column:
        """A struct Column."""
        return F.struct(*((F.lit(True) if part is None else part).alias(name) for name, part in parts.items()))

    def windowed_type(self, key: DataType) -> DataType:
        """A struct of `key`, `start` and `end`."""
        fields = (("key", key), ("start", LongType()), ("end", LongType()))
        return StructType([StructField(name, kind, True) for name, kind in fields])

    def key_of_windowed(self, kind: DataType) -> DataType:
        """Type of the field `key`."""
        assert isinstance(kind, StructType), "keys of windowed aggregates are structs"
        return kind["key"].dataType

    def window_type(self) -> DataType:
        """A struct of `start` and `end`."""
        return StructType([StructField(name, LongType(), True) for name in ("start", "end")])

    def windowed_parts(self, key: Column) -> tuple[Column, Column]:
        """(key, struct of start and end)."""
        return key["key"], self.record(key, {name: key[name] for name in ("start", "end")})

    def field(self, record: Column, name: str) -> Column:
        """A field of structs."""
        return record[name]

    def initial(self, initializer: Function, kind: DataType | None = None) -> tuple[DataType, Any]:
        """See `FunctionBackend`: of a Column without operands, or of a plain value."""
        given = initializer()
        if kind is not None and not isinstance(given, Column):
            return kind, of_type(given, self.as_arrow(kind))
        if isinstance(given, dict | list | tuple):
            arrow, value = typed(given)
            return self.of_arrow(arrow), value
        column = given if isinstance(given, Column) else F.lit(given)
        (found,) = self._analyse(lambda _: column, [StringType()], "initializer", count=1)
        here = _evaluated(column)
        if here is None:
            here = session().range(1).select(column.alias("value")).toArrow().column("value")
        return found, python_values(here)[0]

    def compiled(self, function: Function, arguments: Sequence[DataType], role: str) -> Function:
        """`function` as one of Arrow arrays: what Spark's analysed plan says of it.

        Raises
        ------
        FunctionError : it holds what only Spark can evaluate, or the plan cannot be read.
        """
        frame = _empty(arguments)
        column = function(*(frame[name] for name in frame.columns))
        *_, layer = layers_of(frame.select("*", column.alias("made")))
        made = layer.get("made", layer.get("", Operand("made", pa.null())))
        why = made.why if isinstance(made, Unread) else unsupported(made)
        if why is None and not isinstance(made, Unread):
            return Evaluated(made, tuple(frame.columns))
        raise FunctionError(
            f"The {role} computes state, and uses functions that only Spark can evaluate.",
            given=f"{why}, in {_columns_text([column])}",
            hint="Write it as a plain Python function of values: wm.python(lambda value, aggregate: ...).",
        )

    def named_type(self, given: Any) -> DataType:
        """A DataType, or one in Spark's words."""
        if isinstance(given, DataType):
            return given
        session()  # Spark parses the type
        try:
            return nullable(DataType.fromDDL(str(given)))
        except (PySparkException, ValueError) as error:
            raise FunctionError(
                f"Unknown type {given!r:.120}.",
                given=repr(given),
                hint='Say it in Spark\'s words: "long", "array<string>".',
            ) from error

    def as_arrow(self, kind: DataType) -> Any:
        """A type as Arrow's."""
        return with_nulls(arrow_type(kind))

    def of_arrow(self, kind: Any) -> DataType:
        """One of Arrow's types as Spark's."""
        return spark_type(kind)

    def written_as(self, form: Format | None, kind: DataType) -> str:
        """Type and format, as text, in which a sink writes keys of type `kind`."""
        return f"{kind.simpleString()} as {describe_format(form or format_for(kind))}"

    def check_written(self, form: Format, kind: DataType, what: str) -> None:
        """Raise unless a format writes values of this type; what a Schema Registry has is asked for at the start."""
        if getattr(form, "registry", None) is None:
            check_writable(form, kind, what)

    def check_columns(self, table: TableTarget, key: DataType, value: DataType) -> None:
        """Raise unless the table has columns for these types."""
        columns_of(table, self.as_arrow(key), self.as_arrow(value))

    def _analyse(
        self, function: Function, arguments: Sequence[DataType], role: str, count: int, *, elements: bool = False
    ) -> list[DataType]:
        """Types of what a function gives; `elements`: the fields of an array's structs go by their places."""
        frame, given = _empty(arguments), Arguments(names_of(function, len(arguments)), arguments)
        columns = [frame[name] for name in frame.columns]
        try:
            result = function(*columns)
        except WatersmeetError:
            raise
        except Exception as error:
            raise _failed(error, role, given, own(function)) from error
        slip = text_slip(own(function), result)
        if slip is not None:
            raise _slipped(role, slip)
        results = _as_columns(result, role, count, function)
        flaw = flaw_of(frame, results)
        if flaw:
            shown = given.with_names(_columns_text(results))
            raise FunctionError(
                f"The {role} {flaw.what}.", given=_placed(shown, function), hint=given.hint_of(flaw, results)
            )
        try:
            # what cannot be null in one expression can in another, and is of the same type
            kinds = [nullable(kind) for kind in analysed(frame, *results)]
        except AnalysisException as error:
            what, hint = refusal_of(error, given)
            raise FunctionError(f"The {role} {what}.", given=_placed("", function), hint=hint) from None
        for kind, column in zip(kinds, results, strict=True):
            inner = kind.elementType if elements and isinstance(kind, ArrayType) else kind
            fields = [each.dataType for each in inner.fields] if elements and isinstance(inner, StructType) else [inner]
            for refused in (field_refusal(each, str(column), given) for each in fields):
                if refused is not None:
                    raise FunctionError(f"The {role} {refused[0]}.", given=_placed("", function), hint=refused[1])
        return kinds


def _evaluated(column: Column) -> pa.Array | None:
    """The value of a Column without operands, where it needs no job of Spark's: a session's first one takes seconds."""
    *_, layer = layers_of(_empty([StringType()]).select(column.alias("made")))
    made = layer.get("made", layer.get("", Unread("")))
    if isinstance(made, Unread) or unsupported(made) is not None:
        return None
    try:
        return RowsOfArrays(1, lambda _: pa.nulls(1)).evaluate(made)
    except EvaluationError:
        # Spark says it in its words
        return None


def session() -> SparkSession:
    """The active session.

    Raises
    ------
    ConfigError : there is none; functions of Columns cannot be read without one.
    """
    active = SparkSession.getActiveSession()
    if active is None:
        raise ConfigError(
            "A topology of Spark Columns needs a Spark session.",
            given="no active session",
            hint="Make one first: spark = watersmeet.session(...).",
        )
    return active


def _empty(arguments: Sequence[DataType]) -> DataFrame:
    fields = [StructField(f"{ARGUMENT}{i}", kind) for i, kind in enumerate(arguments)]
    return session().createDataFrame([], StructType(fields))


def _as_columns(result: Any, role: str, count: int, function: Function) -> list[Column]:
    if count == 1:
        if isinstance(result, Column):
            return [result]
        _refuse_method(role, function, result)
        raise FunctionError(
            f"The {role} must return a Column, not {type(result).__name__}: {result!r:.80}.",
            given=_placed("", function),
            hint=f"Write {value_slip(result, count)}.",
        )
    if isinstance(result, tuple) and len(result) == count and all(isinstance(c, Column) for c in result):
        return list(result)
    plain = [each for each in result if not isinstance(each, Column)] if isinstance(result, tuple) else []
    for each in plain:
        _refuse_method(role, function, each)
    more = f" Each is a Column: {value_slip(plain[0], count)}." if plain else ""
    raise FunctionError(
        f"The {role} must return a pair of Columns, not {result!r:.80}.",
        given=_placed("", function),
        hint=f"Return a pair: return key, value; as a lambda: lambda key, value: (key, value).{more}",
    )


def _refuse_method(role: str, function: Function, result: Any) -> None:
    slip = method_slip(own(function), result)
    if slip is not None:
        raise _slipped(role, slip)


def _failed(error: Exception, role: str, arguments: Arguments, function: Function) -> FunctionError:
    """The error for a function that raised one when it was called with Columns."""
    slip = name_slip(error) or method_slip(function, error) or slip_of(error)
    if slip is not None:
        return _slipped(role, slip)
    place = place_of(error)
    return FunctionError(
        f"The {role} failed when it was called with Columns: {type(error).__name__}: {_first_line(error)}.",
        given=place,
        hint=f"It is called once, with Columns, when the topology is built. {arguments.hint}",
    )


def _slipped(role: str, slip: Slip) -> FunctionError:
    return FunctionError(f"The {role} {slip.what}.", given=slip.place, hint=slip.hint)


def _placed(shown: str, function: Function) -> str | None:
    """The given value, and where the user's function begins."""
    place = place_of_function(own(function))
    return "; ".join(filter(None, (shown, "" if place is None else str(place)))) or None


def _check_key(kind: DataType, what: str) -> None:
    """Raise unless two keys of the type are either the same or not."""
    if _unordered(kind):
        raise FunctionError(
            f"The {what} cannot be compared.",
            given=kind.simpleString(),
            hint="A map has no order: make a key of its entries, as F.sort_array(F.map_entries(...)), or of a field.",
        )


def _unordered(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_unordered(field.dataType) for field in kind.fields)
    return _unordered(kind.elementType) if isinstance(kind, ArrayType) else isinstance(kind, MapType | VariantType)


def _columns_text(columns: Sequence[Column]) -> str:
    return ", ".join(str(column).removeprefix("Column<'").removesuffix("'>") for column in columns)[:_SHOWN]


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n")[0]
