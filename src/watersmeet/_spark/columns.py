"""Columns as expressions: Spark's analysed plan of a frame, read from its JSON.

Law 8: the one module that uses what PySpark has of the JVM. It is not there on Spark Connect, and may be another in the
next version; then, and where the plan holds what is not known here, a column stays `Unread`, with the reason, and Spark
evaluates it.
"""

from __future__ import annotations

import json
import pickle
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property, lru_cache, partial, reduce
from itertools import chain
from operator import or_
from typing import Any

import pyarrow as pa
from py4j.protocol import register_input_converter
from pyspark.errors import AnalysisException, utils
from pyspark.logger import PySparkLogger
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import ArrowUDFType
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    UserDefinedType,
    VariantType,
)

from watersmeet._engine.expressions.program import ELEMENT, EXPLODES, PART, PLACE
from watersmeet._engine.expressions.python_calls import ERROR, PLAIN, VALUE, PlainCall
from watersmeet._engine.expressions.texts import CASED, CASES, IGNORED
from watersmeet._engine.expressions.tree import VARIABLE, Call, Expression, Literal, Operand, type_of
from watersmeet._engine.rows import with_nulls
from watersmeet._worker.formats.arrow_types import arrow_type
from watersmeet.errors import FunctionError
from watersmeet.functions import Function, unwrap

# Plain Python functions of values (`wm.python`) as functions of Columns.
#
# The Column holds a UDF over Arrow, which the level knows by what it calls (`plain_call`), and evaluates itself. Where
# Spark evaluates the stage for another function's sake, the UDF gives errors as values, and the Column raises those
# that are asked for.


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
    name = getattr(unwrap(function), "__name__", "function")
    call = PlainCall(function, with_nulls(arrow_type(kind)), name)
    fields = [StructField(VALUE, kind), StructField(ERROR, StringType())]
    with warnings.catch_warnings():
        # it asks for hints of types, which nothing but a function has
        warnings.simplefilter("ignore", UserWarning)
        udf: Any = F.arrow_udf(call, StructType(fields), ArrowUDFType.SCALAR)

    def apply(*columns: Column) -> Any:
        outcome = udf(*columns)
        value = F.when(outcome[ERROR].isNull(), outcome[VALUE]).otherwise(F.raise_error(outcome[ERROR]))
        return tuple(value[field.name] for field in kind.fields) if pair and isinstance(kind, StructType) else value

    return apply


def plain_call(udf: Any) -> PlainCall | None:
    """The function that a UDF in Spark's plan calls, if it is a plain function of ours.

    Parameters
    ----------
    udf : the expression in the JVM.
    """
    try:
        function, _ = pickle.loads(bytes(udf.func().command().unsafeArray()))
    except Exception:  # a UDF of the user's may be anything, and of a large one Spark keeps another form
        return None
    return function.own if isinstance(function, PlainCall) else None


# The value of a constant expression, as Spark computes it, without a job, and without Spark's planner.
#
# Law 8: the JVM is asked for it where the session shows it, which takes a tenth of a second; else Spark plans a query,
# which takes seconds in a new session. The values are the same.


def text_of(spark: SparkSession, constant: Column) -> str:
    """A text.

    Parameters
    ----------
    spark : the session; its settings apply.
    constant : a Column of text that reads no row.
    """
    frame = spark.range(1).select(constant)
    try:
        expression = frame._jdf.queryExecution().analyzed().expressions().apply(0)
        return str(expression.eval(None).toString())
    except Exception:  # whatever a session says that shows no plans, or an expression that waits for the planner
        (row,) = frame.collect()
        return str(row[0])


# The results of `upper` and `lower` for each character, from Spark: its tables and language are those of its JVM.
#
# The level's own are these, so that both make the same of a text. Where a language has rules of its own for neighbours
# (Greek, Turkish, Azeri, Lithuanian), Spark keeps these functions.

_PLANES = (0, 1, 14)
"""In the others no letters with a case can be."""
_WITHOUT_CASE = ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xAC00, 0xD7A4), (0xD800, 0xF900))
"""Ideographs, syllables of Hangul, surrogates and places for private use: there will never be letters among them."""
_PROBES = {"Upper": "\u03af i\u0307 i", "Lower": "I \u00cc \u012e\u0301 \u0130"}
_USUAL = {"Upper": "\u038a I\u0307 I", "Lower": "i \u00ec \u012f\u0301 i\u0307"}
"""What all languages make of these but those with rules for neighbours."""


def case_options(name: str) -> tuple[tuple[str, str], ...]:
    """Options of a call of Upper or Lower for the level; none where the call is Spark's.

    Nothing runs but a constant's evaluation.
    """
    spark = SparkSession.getActiveSession()
    return () if spark is None else _options(spark, name)


@lru_cache(maxsize=4)
def _options(spark: SparkSession, name: str) -> tuple[tuple[str, str], ...]:
    if _convert_case(spark, name, [_PROBES[name]]) != [_USUAL[name]]:
        return ()
    characters = _characters()
    changed = [
        character + converted
        for character, converted in zip(characters, _convert_case(spark, name, characters), strict=True)
        if character != converted
    ]
    options = ((CASES, "\n".join(changed)),)
    if name == "Upper":
        return options
    around = [prefix + character + "Σ" for prefix in ("", "A") for character in characters]
    results = _convert_case(spark, name, around)
    initial, inner = results[: len(characters)], results[len(characters) :]
    cased = [character for character, result in zip(characters, initial, strict=True) if result[-1] == "ς"]
    either = [character for character, result in zip(characters, inner, strict=True) if result[-1] == "ς"]
    return (*options, (CASED, "".join(cased)), (IGNORED, "".join(sorted(set(either) - set(cased)))))


def _characters() -> list[str]:
    points = chain.from_iterable(range(plane << 16, plane + 1 << 16) for plane in _PLANES)
    without = chain.from_iterable(range(*block) for block in _WITHOUT_CASE)
    return [chr(point) for point in sorted({*points}.difference(without, [ord("\n")]))]


def _convert_case(spark: SparkSession, name: str, texts: Sequence[str]) -> list[str]:
    function = {"Upper": F.upper, "Lower": F.lower}[name]
    return text_of(spark, function(F.lit("\n".join(texts)))).split("\n")


_ANALYSED_PLAN_CONDITIONS = frozenset(
    (
        *("And", "Or", "Not", "IsNull", "IsNotNull", "IsNaN", "In", "EqualTo", "EqualNullSafe", "LessThan"),
        *("LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "StartsWith", "EndsWith", "Contains", "Like"),
    )
)
_NUMBERS = {("GetStructField", "ordinal"), ("GetArrayStructFields", "ordinal"), ("GetArrayStructFields", "numFields")}
"""Parameters that are numbers: in other classes a number says which child it is."""
_ANSI = ("failOnError", "ansiEnabled")


@dataclass(frozen=True)
class Unread:
    """A column that is no expression here."""

    why: str  # what it holds: the name of a class of Spark's, as a rule


_HIDING = ("spark.sql.redaction.string.regex", "spark.redaction.string.regex")
Layer = Mapping[str, Expression | Unread]
"""Columns that one projection adds or replaces, by name."""


def empty_frame(spark: SparkSession, schema: StructType) -> DataFrame:
    """A frame without rows: PySpark's own way would pickle them, and ask the JVM sixty times."""
    try:
        jvm: Any = spark._jvm
        session = spark._jsparkSession
        return DataFrame(
            session.createDataFrame(jvm.java.util.ArrayList(), session.parseDataType(schema.json())), spark
        )
    except Exception:  # whatever a session says that has no JVM beside it
        return spark.createDataFrame([], schema)


def projection_text(frame: DataFrame) -> str:
    """The last step of a frame's analysed plan as text.

    Empty where another session is active, since texts follow the settings of that one, or where a setting hides parts.
    """
    spark = frame.sparkSession
    try:
        active = SparkSession.getActiveSession()
        is_hiding = any(spark.conf.get(name, "") for name in _HIDING)
        if is_hiding or active is None or not active._jsparkSession.equals(spark._jsparkSession):
            return ""
        return str(frame._jdf.queryExecution().analyzed().simpleString(2**31 - 1))
    except Exception:  # as above
        return ""


def streams_in(frame: DataFrame) -> int | None:
    """How many streams a DataFrame is made of; None where the session does not say."""
    try:
        leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
        return sum(bool(leaves.apply(number).isStreaming()) for number in range(leaves.size()))
    except Exception:  # whatever a session says that has no plans to show
        return None


def layers_of(frame: DataFrame) -> tuple[Layer, ...]:
    """The projections that a frame was made by, the first first; one that cannot be read has the column "" alone.

    Nothing runs.
    """
    try:
        plan = frame._jdf.queryExecution().analyzed()
        nodes = json.loads(plan.toJSON())
        ansi = str(frame.sparkSession.conf.get("spark.sql.ansi.enabled")).lower() == "true"
        layers: list[Layer] = []
        for node in nodes[:-1]:
            name = _simple(node)
            if name not in ("Project", "Generate"):
                layers.insert(0, {"": Unread(name)})
                break
            layers.insert(0, _layer(node["projectList"], plan, ansi) if name == "Project" else _explosion(node))
            plan = plan.child()
        return tuple(layers)
    except Exception as error:
        # whatever another version or another kind of Spark does here: the public way is always there
        return ({"": Unread(f"no analysed plan: {type(error).__name__}")},)


def _layer(columns: Sequence[Sequence[Mapping[str, Any]]], plan: Any, ansi: bool) -> Layer:
    layer: dict[str, Expression | Unread] = {}
    listed = plan.projectList()
    for at, nodes in enumerate(columns):
        if _simple(nodes[0]) != "AttributeReference":
            layer[nodes[0]["name"]] = _column(nodes, _Handle(partial(listed.apply, at)), ansi)
    return layer


def _explosion(node: Mapping[str, Any]) -> Layer:
    """The layer that makes rows of a column of lists."""
    explode, *operand = node["generator"]
    names = [attribute["name"] for (attribute,) in node["generatorOutput"]]
    supported = _simple(explode) == EXPLODES and node["outer"] and len(names) == 2 and len(operand) == 1
    if not supported or _simple(operand[0]) != "AttributeReference":
        return {"": Unread(f"{_simple(node)} of {_simple(explode)}")}
    lists = Operand(operand[0]["name"], _arrow(operand[0]["dataType"]))
    kinds = ((PLACE, pa.int32()), (ELEMENT, lists.type.value_type))
    calls = [Call(EXPLODES, (lists,), kind, options=((PART, part),)) for part, kind in kinds]
    return dict(zip(names, calls, strict=True))


def _column(nodes: Sequence[Mapping[str, Any]], handle: _Handle, ansi: bool) -> Expression | Unread:
    try:
        return _PlanReader(nodes, ansi).read(handle)
    except _NotRead as error:
        return Unread(str(error))
    except Exception as error:
        return Unread(f"no analysed plan: {type(error).__name__}")


class _NotRead(Exception):
    """An expression that is not known here."""


class _Handle:
    """An expression in the JVM, which is asked as little as can be."""

    def __init__(self, get: Callable[[], Any]) -> None:
        self._get = get

    @cached_property
    def object(self) -> Any:
        return self._get()

    def child(self, number: int) -> _Handle:
        return _Handle(lambda: self._children.apply(number))

    @cached_property
    def _children(self) -> Any:
        return self.object.children()

    @cached_property
    def type(self) -> pa.DataType:
        return _arrow(json.loads(self.object.dataType().json()))


class _PlanReader:
    """Reads one expression; what it does not know ends it.

    Parameters
    ----------
    nodes : the tree, parents before their children.
    ansi : whether the session's mode is ANSI.
    """

    def __init__(self, nodes: Sequence[Mapping[str, Any]], ansi: bool) -> None:
        self._nodes = nodes
        self._ansi = ansi
        self._at = 0

    def read(self, handle: _Handle) -> Expression:
        """The expression that begins here."""
        node = self._nodes[self._at]
        self._at += 1
        name = _simple(node)
        if name == "AttributeReference":
            return Operand(node["name"], _arrow(node["dataType"]))
        if name == "Literal":
            return Literal(_constant(node, handle))
        if name == VARIABLE:
            return Call(VARIABLE, (), _arrow(node["dataType"]), options=(("id", str(node["exprId"]["id"])),))
        arguments = tuple(self.read(handle.child(number)) for number in range(node["num-children"]))
        if name == "Alias" or (len(arguments) == 1 and "replacement" in node):
            return arguments[0]
        if name == PLAIN:
            function = plain_call(handle.object)
            if function is None:
                raise _NotRead(name)
            return Call(name, arguments, with_nulls(function.type), called=function)
        if name == "CreateArray" and not arguments:
            return Literal(pa.scalar([], pa.list_(pa.field("element", pa.null()))))
        kind = _type(name, node, arguments, handle)
        if name == "Cast" and isinstance(arguments[0], Call) and arguments[0].function == "RaiseError":
            # it has a value of no type
            return replace(arguments[0], type=kind)
        options, ansi = self._options(name, node, handle)
        return Call(name, arguments, kind, ansi, options)

    def _options(self, name: str, node: Mapping[str, Any], handle: _Handle) -> tuple[tuple[tuple[str, str], ...], bool]:
        options: list[tuple[str, str]] = list(case_options(name)) if name in ("Upper", "Lower") else []
        ansi = self._ansi
        for option, value in node.items():
            if option in ("evalMode", "evalContext"):
                # of them the JSON has nothing
                mode = str(handle.object.evalMode())
                ansi = mode == "ANSI"
                options.append(("evalMode", mode))
            elif isinstance(value, bool):
                ansi = value if option in _ANSI else ansi
                options.append((option, str(value).lower()))
            elif isinstance(value, str) and option not in ("class", "dataType"):
                options.append((option, value))
            elif isinstance(value, int) and (name, option) in _NUMBERS:
                options.append((option, str(value)))
            elif value is None:
                # its JSON leaves out what is neither text nor number
                options.append((option, str(getattr(handle.object, option)())))
        return tuple(options), ansi


def _type(name: str, node: Mapping[str, Any], arguments: Sequence[Expression], handle: _Handle) -> pa.DataType:
    if name in _ANALYSED_PLAN_CONDITIONS:
        return pa.bool_()
    if name == "Cast":
        described = node["dataType"]
        if isinstance(described, str) and described.startswith("interval") and not described.endswith("second"):
            # Arrow's type does not say of which parts an interval is, and so not what the cast leaves out
            raise _NotRead(f"Cast to {described}")
        return _arrow(described)
    if name == "LambdaFunction":
        return type_of(arguments[0])
    if name == "GetStructField":
        return type_of(arguments[0]).field(node["ordinal"]).type
    try:
        return handle.type
    except _NotRead:
        raise
    except Exception:
        # a part of an expression that has no type, as the fields that `withField` sets
        return pa.null()


def _constant(node: Mapping[str, Any], handle: _Handle) -> pa.Scalar:
    kind, text = _arrow(node["dataType"]), node["value"]
    if text is None:
        return pa.scalar(None, kind)
    value: Any = text
    if pa.types.is_boolean(kind):
        value = text == "true"
    elif pa.types.is_integer(kind):
        value = int(text)
    elif pa.types.is_floating(kind):
        value = float(text)
    elif pa.types.is_decimal(kind):
        value = Decimal(text)
    elif pa.types.is_temporal(kind) or pa.types.is_binary(kind):
        # days or microseconds, and bytes
        value = handle.object.value()
        value = bytes(value) if pa.types.is_binary(kind) else value
    elif not pa.types.is_string(kind):
        raise _NotRead(f"Literal of {kind}")
    return pa.scalar(value, kind)


def _simple(node: Mapping[str, Any]) -> str:
    name: str = node["class"].rpartition(".")[2]
    return name


def _arrow(described: Any) -> pa.DataType:
    field = {"name": "it", "type": described, "nullable": True, "metadata": {}}
    kind = StructType.fromJson({"type": "struct", "fields": [field]}).fields[0].dataType
    reason = special(kind)
    if reason is not None:
        raise _NotRead(reason)
    return with_nulls(arrow_type(kind))


def special(kind: DataType) -> str | None:
    """The part of the type with another type in Arrow: the kernels would not know its values."""
    if isinstance(kind, VariantType | UserDefinedType) or (isinstance(kind, StringType) and kind != StringType()):
        return f"the type {kind.simpleString()}"
    inner: list[DataType] = []
    if isinstance(kind, StructType):
        inner = [field.dataType for field in kind.fields]
    elif isinstance(kind, ArrayType):
        inner = [kind.elementType]
    elif isinstance(kind, MapType):
        inner = [kind.keyType, kind.valueType]
    return next((reason for reason in map(special, inner) if reason is not None), None)


# Asking Spark about columns: their types, and whether each is a function of one row alone.
#
# Law 1: what a record gives does not depend on its batch, nor on its neighbours there; law 2: a batch that is run again
# writes the same bytes. A column that breaks one of them is found by what Spark lets nowhere but into a projection.

_PYSPARK_LOGS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_CLOCK = re.compile(r"(?<![\w.`])(?<! AS )(?:current_timestamp|now|current_date|localtimestamp|current_time)\(\d*\)")
_SESSION = re.compile(
    r"(?<![\w.`])(?<! AS )(?:current_user|session_user|user|current_schema|current_database|current_catalog)\(\)"
)
_COMPARED_WITH_NULL = re.compile(r" (?:=|<|>|<=|>=) NULL\)")
_SUBQUERY = re.compile(r"(?<![\w.])scalarsubquery\(")


@dataclass(frozen=True)
class Flaw:
    """Why a column is no function of its row alone: what it does, and what to do instead."""

    what: str
    hint: str
    names: tuple[str, ...] = ()
    """Names that Spark takes for a call of a function, without parentheses, where no column is called so."""


_MANY = Flaw(
    "makes several rows of one",
    "Give an array to flat_map or flat_map_values: F.array(...), or the array itself without explode.",
)
_NEIGHBOURS = Flaw(
    "looks at more than one record",
    "A function gets one record at a time, and which others are in its batch is chance: leave aggregates, window "
    "functions and F.window out of it. group_by_key().agg(total=wm.sum(...)) looks at the records of a key, "
    "group_by_key().windowed_by(...) at those of a window.",
)
_OF_SEVERAL = Flaw(
    "joins a Column with a value of Python that Spark has no constant for",
    "Take one field at a time, value['field']; several make a record by F.struct(value['one'], value['other']), values "
    "a list by F.array(F.lit('x')), which F.concat(one, other) joins with another.",
)
_STAR = Flaw(
    "takes all columns, '*'",
    "A function gets its Columns as arguments: name what you want of them. group_by_key().count() counts records.",
)
_CHANCE = Flaw(
    "returns another result at each evaluation",
    "A batch that is run again must write what it wrote: make the value from the record, as F.xxhash64(...) or "
    "F.sha2(...) in place of a random number, F.sha1 in place of a uuid. A UDF that always gives the same must not be "
    "marked asNondeterministic().",
)
_OF_NOW = Flaw(
    "reads the clock",
    "A record must give the same result at each reading: put the time into a field of the record when it is written.",
    ("current_timestamp", "current_date", "current_time"),
)
_OF_SESSION = Flaw(
    "reads who runs the query, and where",
    "A record must give the same result for all users: take it from a field of the record, as value['user'], or "
    "give it "
    "as a constant, F.lit(...).",
    ("user", "current_user", "session_user"),
)
_OF_OTHERS = Flaw(
    "asks a query of its own", "Its result would depend on the batch: read the other data as a table, and join it."
)
_OF_NULL = Flaw(
    "compares with None, which is null for every record and neither true nor false",
    "Write a.isNull() for a == None, a.isNotNull() for a != None; a.eqNullSafe(b) compares what may be null.",
)
_ANALYSIS_CONDITIONS = {
    "INVALID_USAGE_OF_STAR_OR_REGEX": _STAR,
    "UNSUPPORTED_GENERATOR": _MANY,
    "UNSUPPORTED_EXPR_FOR_OPERATOR": _NEIGHBOURS,
    "INVALID_NON_DETERMINISTIC_EXPRESSIONS": _CHANCE,
}


def analysed(frame: DataFrame, *columns: Column) -> list[DataType]:
    """Types of the columns over the frame; nothing runs."""
    with quietly():
        aliased = [column.alias(f"it{number}") for number, column in enumerate(columns)]
        return [field.dataType for field in frame.select(*aliased).schema.fields]


BRIDGE = "py4j"
"""The package by which Python calls Spark's JVM."""


def is_of_java(error: BaseException) -> bool:
    """Whether Java has no method for the arguments that it got."""
    return type(error).__module__.startswith(BRIDGE)


def flaw_of(frame: DataFrame, columns: Sequence[Column]) -> Flaw | None:
    """Why the columns are no functions of a row of the frame alone; None where they are, or fit no frame at all.

    A text constant that reads as a call of the clock or of the session, "now()", is taken for one; so is one that reads
    as a comparison with null.
    """
    present = [column.isNotNull() for column in columns]
    right = frame.sparkSession.range(0).toDF("watersmeet_other")
    with quietly():
        try:
            # Spark takes nothing for the condition of a join but what a pair of rows decides
            frame.join(right, reduce(or_, present))
            texts = frame.select(*present).schema.names
        except AnalysisException as error:
            return _ANALYSIS_CONDITIONS.get((error.getCondition() or "").partition(".")[0])
        except Exception as error:
            # F.window and its like are replaced in projections alone; elsewhere Spark falls over them
            return _NEIGHBOURS if "window" in f"{error}{columns}" else _OF_SEVERAL
    if any(_CLOCK.search(text) for text in texts):
        return _OF_NOW
    if any(_SESSION.search(text) for text in texts):
        return _OF_SESSION
    if any(_COMPARED_WITH_NULL.search(text) for text in texts):
        return _OF_NULL
    return _OF_OTHERS if any(_SUBQUERY.search(text) for text in texts) else None


@contextmanager
def quietly() -> Iterator[None]:
    """While it lasts, analysis errors are raised and not logged as well: PySpark logs them before anybody can catch."""
    # whoever asks for a logger first decides its class, and PySpark logs with arguments that only its own takes
    logs = [PySparkLogger.getLogger(name) for name in _PYSPARK_LOGS]
    states = [log.disabled for log in logs]
    for log in logs:
        log.disabled = True
    try:
        yield
    finally:
        for log, was in zip(logs, states, strict=True):
            log.disabled = was


# Datetimes without a zone, which PySpark reads in the machine's: refused where a function gives them to Spark.
#
# A Column has an instant alone, so they are found on the way to it: by a converter of Py4J's, which sees each literal.

ZONES_WANTED: ContextVar[bool] = ContextVar("zones_wanted", default=False)
"""Whether a user's function is called."""


class NaiveTime(Exception):
    """A datetime without a zone became a literal."""


class _NaiveTimes:
    """A converter of Py4J's that takes what is refused, while a user's function is called."""

    def can_convert(self, value: object) -> bool:
        """Whether it is a datetime without a zone, and those are refused."""
        return ZONES_WANTED.get() and isinstance(value, datetime) and value.utcoffset() is None

    def convert(self, value: object, client: object) -> object:
        """Never."""
        raise NaiveTime(repr(value))


register_input_converter(_NaiveTimes(), prepend=True)


# Columns of watersmeet's own are made without telling Spark which line of Python made them.
#
# For each operation on a column PySpark asks the session for its settings and tells the JVM where in the program it is:
# some ten calls for one. Errors then name that line, which helps where it is the user's. Law 8: this is an internal of
# PySpark's; where it is not there, everything works as before, with more calls.

_ORIGINS_FLAG = "_enable_debugging_cache"
_origins_lock = threading.Lock()
_inside: list[bool | None] = []
"""What the flag is to be again, once for each that is inside: threads may be so at once."""


@contextmanager
def without_origins() -> Iterator[None]:
    """While it lasts, columns get no origin; not for what calls a function of the user's."""
    if not hasattr(utils, _ORIGINS_FLAG):
        yield
        return
    with _origins_lock:
        _inside.append(_inside[0] if _inside else getattr(utils, _ORIGINS_FLAG))
        setattr(utils, _ORIGINS_FLAG, False)
    try:
        yield
    finally:
        with _origins_lock:
            previous = _inside.pop()
            if not _inside:
                setattr(utils, _ORIGINS_FLAG, previous)
