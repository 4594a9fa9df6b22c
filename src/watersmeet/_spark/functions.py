"""Users' functions as Spark Columns: their types are asked of Spark when the topology is built.

Law 4: a schema error surfaces on the user's own line. Each function is applied once to an empty DataFrame of
the right types and analysed; nothing runs.
"""

from __future__ import annotations

import ast
import builtins
import dis
import linecache
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from inspect import getclosurevars
from itertools import islice
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import AnalysisException, ParseException, PySparkException, PySparkTypeError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from watersmeet._engine.database_rows import columns_of
from watersmeet._engine.expressions.evaluate import RowsOfArrays, unsupported
from watersmeet._engine.expressions.program import Evaluated
from watersmeet._engine.expressions.tree import Call, EvaluationError, Operand, type_of
from watersmeet._engine.rows import WITH_ZONE, of_type, python_values, typed, with_nulls
from watersmeet._spark.columns import (
    ZONES_WANTED,
    Flaw,
    NaiveTime,
    Unread,
    analysed,
    empty_frame,
    flaw_of,
    is_of_java,
    layers_of,
    of_columns,
)
from watersmeet._spark.formats import RECORD_TYPE
from watersmeet._worker.ended_rows import HEADERS
from watersmeet._worker.formats.arrow_types import arrow_type, spark_type
from watersmeet._worker.formats.formats import check_writable, describe_format, format_for
from watersmeet._worker.formats.json import nullable
from watersmeet.aggregates.declaration import AnyAggregate
from watersmeet.errors import ConfigError, FunctionError, WatersmeetError, did_you_mean, is_others, user_traces
from watersmeet.functions import Function, belonging, is_plain, names_of, unwrap
from watersmeet.hints import answered
from watersmeet.io.databases import TableTarget
from watersmeet.io.formats import Format, meant_type

# Words of Python with another word among Columns: builtins, methods of texts and dictionaries, libraries.

CONDITIONS = {
    "if": "F.when(condition, one).otherwise(other)",
    "while": "F.when(condition, one).otherwise(other); what is repeated, F.transform(array, function)",
    "assert": "filter(predicate) before, or F.when(condition, one).otherwise(other)",
    "and": "& between conditions, each in brackets: (a > 1) & (b < 2); | for or, ~ for not",
    "or": "| between conditions, each in brackets: (a > 1) | (b < 2); & for and, ~ for not; F.coalesce(a, b) for the "
    "first that is not null",
    "not": "~(a > 1)",
    "a < b < c": "a.between(low, high), or (low < a) & (a < high)",
    "&": "brackets around each condition, as & and | bind more than a comparison: (a > 1) & (b < 2)",
    "in": "a.isin('x', 'y'); of an array F.array_contains(array, 'x'), of a text a.contains('x')",
    "bool": "a condition: a.isNotNull(), a != 0",
    "is": "a.isNull(), a.isNotNull(), F.coalesce(a, b), or F.when(a.isNull(), one).otherwise(other)",
}
"""By the word that needs a truth value."""
_EACH = (
    "F.transform(array, lambda each: ...), F.filter(array, lambda each: ...), or flat_map_values for a record of each"
)
ITERATION = _EACH
BUILTINS = {
    "abs": "F.abs(a)",
    "all": "& between conditions, or F.forall(array, lambda each: ...)",
    "any": "| between conditions, or F.exists(array, lambda each: ...)",
    "bool": CONDITIONS["bool"],
    "bytes": "F.encode(a, 'UTF-8')",
    "chr": "F.char(a)",
    "dict": "F.struct(a.alias('name'), ...) for a record, F.create_map(key, value) for a map",
    "divmod": "F.floor(a / b), and a % b",
    "enumerate": "F.posexplode is of rows; of an array F.transform(array, lambda each, number: ...)",
    "filter": "F.filter(array, lambda each: ...)",
    "float": "a.cast('double')",
    "format": "F.format_string('%s', a)",
    "hash": "F.xxhash64(a)",
    "hex": "F.hex(a)",
    "int": "a.cast('long')",
    "isinstance": "the type of an input, which is value_type of a stream or table: a Column has one type",
    "iter": _EACH,
    "len": "F.length(a) of a text, F.size(a) of an array or map",
    "list": f"F.array(a, b) makes an array; of what an array has: {_EACH}",
    "map": _EACH,
    "max": "F.greatest(a, b); of an array F.array_max(array)",
    "min": "F.least(a, b); of an array F.array_min(array)",
    "ord": "F.ascii(a)",
    "pow": "F.pow(a, b)",
    "range": "F.sequence(start, stop)",
    "reversed": "F.reverse(a)",
    "round": "F.round(a, 2)",
    "set": "F.array_distinct(array)",
    "sorted": "F.array_sort(array)",
    "str": "a.cast('string')",
    "sum": "a + b; of an array F.aggregate(array, F.lit(0), lambda total, each: total + each)",
    "tuple": "F.struct(a, b)",
    "zip": "F.arrays_zip(a, b)",
}
OPERATORS: dict[type[ast.operator], str] = {
    ast.FloorDiv: "F.floor(a / b)",
    ast.BitXor: "a.bitwiseXOR(b), or F.pow(a, b) for a power",
    ast.LShift: "F.shiftleft(a, 2)",
    ast.RShift: "F.shiftright(a, 2)",
    ast.Add: "F.concat(one, other), also of arrays: F.concat(array, F.array(a))",
}
METHODS = {
    "alias": "a.alias('name')",
    "append": "F.array_append(array, a)",
    "apply": "F.transform(array, lambda each: ...), or F.udf(function, 'type')(a)",
    "asDict": "value['field'], one of its fields; the record is the Column itself",
    "assign": "value.withField('field', value['other'] * 2): the record with one more field",
    "capitalize": "F.initcap(a)",
    "copy": "the Column itself; with another field: value.withField('name', ...)",
    "count": "F.size(array), or F.length(a)",
    "date": "F.to_date(a)",
    "decode": "F.decode(a, 'UTF-8')",
    "else_": "F.when(condition, one).otherwise(other)",
    "encode": "F.encode(a, 'UTF-8')",
    "extend": "F.concat(one, other)",
    "fillna": "F.coalesce(a, F.lit(0))",
    "find": "F.instr(a, 'x'), which counts from 1",
    "format": "F.format_string('%s', a)",
    "get": "value['field'], or of a map F.element_at(map, key); with a default: F.coalesce(value['field'], F.lit(...))",
    "index": "F.instr(a, 'x'), which counts from 1; of an array F.array_position(array, x)",
    "insert": "F.array_insert(array, 1, a)",
    "isalnum": "a.rlike('^[A-Za-z0-9]+$')",
    "isalpha": "a.rlike('^[A-Za-z]+$')",
    "isdigit": "a.rlike('^[0-9]+$')",
    "isna": "a.isNull()",
    "isnumeric": "a.rlike('^[0-9]+$')",
    "isoformat": "F.date_format(a, \"yyyy-MM-dd'T'HH:mm:ss\")",
    "items": "F.map_entries(map); the fields of a struct are value['field']",
    "join": "F.array_join(array, ',')",
    "keys": "F.map_keys(map)",
    "len": "F.length(a)",
    "ljust": "F.rpad(a, 10, ' ')",
    "lstrip": "F.ltrim(a)",
    "notna": "a.isNotNull()",
    "pop": "value.dropFields('name'), or F.slice(array, 1, n)",
    "remove": "F.array_remove(array, a)",
    "replace": "F.replace(a, F.lit('old'), F.lit('new')), or F.regexp_replace(a, 'old', 'new')",
    "rjust": "F.lpad(a, 10, ' ')",
    "rstrip": "F.rtrim(a)",
    "sort": "F.array_sort(array)",
    "split": "F.split(a, ',')",
    "str": "F.upper(a), F.lower(a), ...: the functions of pyspark.sql.functions",
    "strftime": "F.date_format(a, 'yyyy-MM-dd')",
    "strip": "F.trim(a)",
    "timestamp": "F.unix_millis(a), F.unix_seconds(a)",
    "title": "F.initcap(a)",
    "total_seconds": "F.unix_seconds(one) - F.unix_seconds(other)",
    "update": "value.withField('name', ...)",
    "values": "F.map_values(map)",
    "weekday": "F.weekday(a)",
    "withField": "value.withField('field', F.lit(1)): first the name, a text, then a Column",
    "withColumn": "value.withField('field', value['other'] * 2): the record with one more field",
    "zfill": "F.lpad(a, 10, '0')",
}
LIBRARIES = {
    "json.loads": "F.from_json(text, 'id long'); or read the topic with value=wm.json('id long, name string')",
    "json.dumps": "F.to_json(struct); an output is written as JSON with value=wm.json()",
    "math.fabs": "F.abs(a)",
    "math.fsum": BUILTINS["sum"],
    "math.isnan": "F.isnan(a)",
    "numpy.where": "F.when(condition, one).otherwise(other)",
    "numpy.maximum": "F.greatest(a, b)",
    "numpy.minimum": "F.least(a, b)",
    "numpy.isnan": "F.isnan(a)",
    "numpy.array": "F.array(a, b)",
    "re.match": "a.rlike('^pattern'), F.regexp_extract(a, 'pattern', 1)",
    "re.fullmatch": "a.rlike('^pattern$'), F.regexp_extract(a, 'pattern', 1)",
    "re.search": "a.rlike('pattern'), F.regexp_extract(a, 'pattern', 1)",
    "re.findall": "F.regexp_extract_all(a, F.lit('pattern'))",
    "re.sub": "F.regexp_replace(a, 'pattern', 'new')",
    "re.split": "F.split(a, 'pattern')",
    "base64.b64encode": "F.base64(a)",
    "base64.b64decode": "F.unbase64(a)",
    "pandas.to_datetime": "F.to_timestamp(a)",
    "pandas.to_numeric": "a.cast('double')",
    "pandas.isna": "a.isNull()",
    "pandas.notna": "a.isNotNull()",
    "urllib.parse.urlparse": "F.parse_url(a, F.lit('HOST'))",
    "urllib.parse.quote": "F.url_encode(a)",
    "urllib.parse.unquote": "F.url_decode(a)",
    "datetime.fromtimestamp": "F.timestamp_seconds(a), F.timestamp_millis(a)",
    "datetime.utcfromtimestamp": "F.timestamp_seconds(a), F.timestamp_millis(a)",
    "datetime.strptime": "F.to_timestamp(a, 'yyyy-MM-dd')",
    "datetime.fromisoformat": "F.to_timestamp(a)",
    "datetime.datetime": "F.make_timestamp(year, month, day, hour, minute, second)",
    "datetime.date": "F.make_date(year, month, day)",
    "datetime.timedelta": "F.make_dt_interval(days, hours)",
    "decimal.Decimal": "a.cast('decimal(10,2)')",
    "hashlib.md5": "F.md5(a)",
    "hashlib.sha1": "F.sha1(a)",
    "hashlib.sha256": "F.sha2(a, 256)",
    "hashlib.sha512": "F.sha2(a, 512)",
    "zlib.crc32": "F.crc32(a)",
    "operator.itemgetter": "value['field']",
}
"""By module and name."""
WITH_FIELD = "value.withField('field', value['field'] * 2), which is the record with that field anew, and return it"
_OF_MANY = ("sum", "mean", "max", "min", "count", "median", "std", "var")
ANYTHING = "the functions of pyspark.sql.functions; what they do not have, F.udf(function, 'type')(value['field'])"


def of_builtin(name: str) -> str | None:
    return BUILTINS.get(name)


def of_method(name: str) -> str:
    """The replacement of a method of a Python value."""
    if name in METHODS:
        return METHODS[name]
    if name in _OF_MANY:
        aggregate = {"mean": "avg"}.get(name, name)
        return (
            f"an aggregate of grouped records: group_by_key().agg(total=wm.{aggregate}(lambda value: value['field']))"
        )
    return _of_same_name(name) or ANYTHING


def of_library(name: str) -> str:
    """The replacement of a function of a library, as `module.function`."""
    module, _, function = name.rpartition(".")
    if name in LIBRARIES:
        return LIBRARIES[name]
    if module in ("math", "numpy", "cmath", "statistics", "hashlib", "builtins"):
        return _of_same_name(function) or ANYTHING
    return next((cure for qualified, cure in LIBRARIES.items() if qualified.rpartition(".")[2] == function), ANYTHING)


def _of_same_name(name: str) -> str | None:
    """Spark's function of the same name, if there is one."""
    return f"F.{name}(a)" if callable(getattr(F, name, None)) and not name.startswith("_") else None


# Where in the user's source something was done: the text of the expression, and the word of Python around it.

_LONGEST = 120


@dataclass(frozen=True)
class SourcePlace:
    """An expression of the user's."""

    # file, line: where it stands
    file: str
    line: int
    text: str = ""  # as it is written; empty where there is no source
    node: ast.AST | None = None  # its tree
    above: tuple[ast.AST, ...] = ()  # the nodes around it, the nearest first
    names: dict[str, Any] = field(default_factory=dict, repr=False)  # what names stand for there

    def __str__(self) -> str:
        return f"line {self.line} of {self.file}"


def place_of(error: BaseException) -> SourcePlace | None:
    """Where the user's own code raised an error, or called what did."""
    traces = user_traces(error)
    return _place(traces[-1].tb_frame, traces[-1].tb_lasti, traces[-1].tb_lineno) if traces else None


def place_of_function(function: Callable[..., Any]) -> SourcePlace | None:
    """Where a function of the user's begins; None for one that has no source."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if not isinstance(code, CodeType) or is_others(code.co_filename):
        return None
    return SourcePlace(code.co_filename, code.co_firstlineno)


def _place(frame: FrameType, instruction: int, line: int) -> SourcePlace:
    code = frame.f_code
    start, end, left, right = next(islice(code.co_positions(), instruction // 2, None))
    names = {**frame.f_globals, **frame.f_locals}
    tree = _tree(code.co_filename)
    if tree is None or start is None or end is None or left is None or right is None:
        return SourcePlace(code.co_filename, line, names=names)
    chain = _around(tree, (start, left), (end, right))
    if not chain:
        return SourcePlace(code.co_filename, line, names=names)
    lines = linecache.getlines(code.co_filename)
    text = ast.get_source_segment("".join(lines), chain[0]) or ""
    return SourcePlace(code.co_filename, start, short_text(text), chain[0], tuple(chain[1:]), names)


@lru_cache(maxsize=8)
def _tree_of(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def _tree(file: str) -> ast.Module | None:
    lines = linecache.getlines(file)
    return _tree_of("".join(lines)) if lines else None


def _around(tree: ast.AST, start: tuple[int, int], end: tuple[int, int]) -> list[ast.AST]:
    """The nodes that hold a piece of source, the smallest first."""
    chain: list[ast.AST] = []
    node: ast.AST | None = tree
    while node is not None:
        chain.insert(0, node)
        node = next((child for child in ast.iter_child_nodes(node) if _holds(child, start, end)), None)
    return [part for part in chain if not isinstance(part, ast.Module)]


def _holds(node: ast.AST, start: tuple[int, int], end: tuple[int, int]) -> bool:
    if not hasattr(node, "lineno"):
        # arguments and comprehensions have no place of their own, but what is in them has
        return any(_holds(child, start, end) for child in ast.iter_child_nodes(node))
    last = (node.end_lineno or 0, node.end_col_offset or 0)  # type: ignore[attr-defined]
    return (node.lineno, node.col_offset) <= start and end <= last  # type: ignore[attr-defined]


def short_text(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else f"{flat[:_LONGEST]}..."


# Functions of the user's that treat a Column as a value of Python: what was written, and what to write instead.
#
# A Column stands for the values of all records, which are not there while a topology is built. So Python's `if`, `len`,
# `json.loads` and `.upper()` find nothing to work with; each error has words of its own.

_TRUTH = "CANNOT_CONVERT_COLUMN_INTO_BOOL"
_IN = "CANNOT_APPLY_IN_FOR_COLUMN"
_COLUMN = re.compile(r"\bColumn\b|'Column'")
_LOOKUP = "F.create_map(F.lit(key), F.lit(value), ...)[a], or F.element_at(array, a); for a record F.struct(...)"
_AS_TEXT = re.compile(r"Column<\\*'")


@dataclass(frozen=True)
class Slip:
    """The mistake, as the end of a sentence that begins with the function's role; its place; and the cure."""

    # what, hint: texts
    what: str
    hint: str
    place: SourcePlace | None = None  # in the user's source, where that is known


def slip_of(error: BaseException) -> Slip | None:
    """The mistake of a function with a Column that ended with this error; None if the error is about something else."""
    place = place_of(error)
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    if condition == _IN:
        return _slip(place, "uses `in` on", CONDITIONS["in"])
    if condition == "NOT_SAME_TYPE" and "startPos" in str(error):
        return _slip(place, "cuts", "F.substring(a, 1, 3) of a text, F.slice(array, 1, 3) of an array")
    if condition == _TRUTH:
        return _of_truth(place)
    call = _call(place)
    if call is not None and not is_of_java(error):
        slip = _of_call(place, call)
        if slip is not None:
            return slip
    if _COLUMN.search(str(error)) is None:
        return None
    if place is not None and isinstance(place.node, ast.BinOp) and type(place.node.op) in OPERATORS:
        return _slip(place, "uses an operator of Python on", OPERATORS[type(place.node.op)])
    if "iterable" in str(error) or condition == "NOT_ITERABLE":
        return _slip(place, "iterates over", ITERATION)
    if isinstance(error, TypeError) and re.search(r"unhashable|indices", str(error)):
        return _slip(place, "looks up by", _LOOKUP)
    if isinstance(error, TypeError) and "item deletion" in str(error):
        return _slip(place, "deletes a field of", "value.dropFields('field'), which is the record without that field")
    if place is not None and isinstance(place.node, ast.Dict) and None in place.node.keys:
        return _slip(place, "unpacks", WITH_FIELD)
    if isinstance(error, TypeError) and "item assignment" in str(error):
        return _slip(place, "sets a field of", WITH_FIELD)
    return _slip(place, "gives Python", ANYTHING)


def text_slip(function: Callable[..., Any], result: Any) -> Slip | None:
    """Where a result has the text of a Column in it, which an f-string or `str` has made."""
    # of a Column what is within `Column<'...'>`
    text = result if isinstance(result, str) else str(result)[8:] if isinstance(result, Column) else ""
    if not _AS_TEXT.search(text):
        return None
    cure = "F.format_string('%s clicks', a), or F.concat(a.cast('string'), F.lit(' clicks')); alone a.cast('string')"
    mistake = "makes a text of a Column (an f-string, str or %), which is the Column's name and no value"
    return Slip(mistake, f"Write {cure}.", place_of_function(function))


def identity_slip(function: Callable[..., Any]) -> Slip | None:
    """Where a function asks whether an argument, or what it takes from it, is None or of a class: a Column never is."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or is_others(code.co_filename):
        return None
    tree = _tree(code.co_filename) or ast.Module([], [])
    names = code.co_varnames[: code.co_argcount]
    asked = {*names[: len(names) - len(function.__defaults__ or ())]}
    spans = [each for each in code.co_positions() if None not in each and each[:1] + each[2:3] != each[1:2] + each[3:]]
    around = [node for a, b, c, d in spans for node in _around(tree, (a or 0, c or 0), (b or 0, d or 0))]
    kinds = (ast.Lambda, ast.FunctionDef)
    own_nodes = (node for node in around if isinstance(node, kinds) and [a.arg for a in node.args.args] == [*names])
    for node in ast.walk(next(own_nodes, ast.Module([], []))):
        word = _asked_for(node, asked)
        if word is not None:
            place = SourcePlace(code.co_filename, getattr(node, "lineno", 0), short_text(ast.unparse(node)))
            return _slip(place, f"uses Python's {word} on", {**BUILTINS, **CONDITIONS}[word])
    return None


def _asked_for(node: ast.AST, asked: Collection[str]) -> str | None:
    """The word with which a node asks for the class or the identity of one of these names, or of a part of it."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot):
        word, whole = "is", node.left
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance" and node.args:
        word, whole = "isinstance", node.args[0]
    else:
        return None
    while isinstance(whole, ast.Subscript | ast.Attribute | ast.Call):
        whole = whole.func if isinstance(whole, ast.Call) else whole.value
    return word if isinstance(whole, ast.Name) and whole.id in asked else None


def name_slip(error: BaseException) -> Slip | None:
    """Where a name of `pyspark.sql.functions` was misspelt."""
    if isinstance(error, AttributeError) and error.obj is F and error.name:
        near = get_close_matches(error.name, dir(F), n=3)
        hint = f"Did you mean {' or '.join(f'F.{name}' for name in near)}?" if near else f"Use {ANYTHING}."
        return Slip(f"uses F.{error.name}, which pyspark.sql.functions does not have", hint, place_of(error))
    return None


def method_slip(function: Callable[..., Any], outcome: Any) -> Slip | None:
    """Where a field was read by the name of a method of Column, which is found first: `value.name`.

    Parameters
    ----------
    function : the user's.
    outcome : what it gave in place of Columns, or the error that it raised.
    """
    is_about_it = isinstance(outcome, MethodType | bool)
    if isinstance(outcome, Exception):
        is_about_it = re.search(r"\b(method|function)\b|should be (a )?Column", str(outcome)) is not None
    name = next(_uncalled_methods(getattr(function, "__code__", None)), None) if is_about_it else None
    if name is None:
        return None
    mistake = f"reads .{name}, which is a method of Spark's Column and not the field {name!r}"
    return Slip(mistake, f"Write value[{name!r}].", place_of_function(function))


def _uncalled_methods(code: Any) -> Iterator[str]:
    """Methods of Column that a function names without calling them."""
    if not isinstance(code, CodeType):
        return
    for instruction in dis.get_instructions(code):
        # since Python 3.12 LOAD_ATTR loads what is called too, and says so in its lowest bit
        is_called = sys.version_info >= (3, 12) and (instruction.arg or 0) & 1
        if instruction.opname == "LOAD_ATTR" and not is_called and callable(getattr(Column, instruction.argval, None)):
            yield instruction.argval
    for constant in code.co_consts:
        yield from _uncalled_methods(constant)


def _slip(place: SourcePlace | None, mistake: str, cure: str, snippet: str | None = None) -> Slip:
    text = snippet if snippet is not None else (place.text if place is not None else "")
    sentence = f"{mistake} a Column" + (f": {text}" if text else "")
    return Slip(f"{sentence}, which has no value while the topology is built", f"Write {cure}.", place)


def _of_truth(place: SourcePlace | None) -> Slip:
    """The answer where Python asks whether a Column is true."""
    if place is None or place.node is None:
        every = "F.when(condition, one).otherwise(other) for if, & for and, | for or, ~ for not, isin for in"
        return _slip(place, "uses Python's if, and, or, not or in on", every)
    call = _call(place)
    if call is not None:
        slip = _of_call(place, call)
        if slip is not None:
            return slip
    child: ast.AST = place.node
    for node in (place.node, *place.above):
        word = _word(node, child)
        if word is not None:
            text = _node_text(node, place)
            mistake = "compares more than" if word == "&" else f"uses Python's {word} on"
            return _slip(place, mistake, CONDITIONS[word], text)
        child = node
    return _slip(place, "asks for the truth of", CONDITIONS["bool"])


def _word(node: ast.AST, child: ast.AST) -> str | None:
    """The word of Python that asks what stands within a node for its truth."""
    if isinstance(node, ast.Compare):
        if any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            return "in"
        if any(
            isinstance(operand, ast.BinOp) and isinstance(operand.op, ast.BitAnd | ast.BitOr)
            for operand in node.comparators
        ):
            return "&"
        return "a < b < c" if len(node.ops) > 1 else None
    if isinstance(node, ast.BoolOp):
        return "and" if isinstance(node.op, ast.And) else "or"
    if isinstance(node, ast.UnaryOp):
        return "not" if isinstance(node.op, ast.Not) else None
    kinds: tuple[tuple[type[ast.AST], str], ...] = ((ast.IfExp, "if"), (ast.If, "if"), (ast.While, "while"))
    kinds += ((ast.Assert, "assert"), (ast.comprehension, "if"))
    return next((word for kind, word in kinds if isinstance(node, kind)), None)


def _node_text(node: ast.AST, place: SourcePlace) -> str:
    """A node as text; of a statement, its condition."""
    if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
        word = "if" if isinstance(node, ast.If | ast.IfExp) else type(node).__name__.lower()
        return short_text(f"{word} {ast.unparse(node.test)}")
    return short_text(ast.unparse(node)) if isinstance(node, ast.expr) else place.text


def _call(place: SourcePlace | None) -> ast.Call | None:
    """The call that ended with the error, or with an argument that did."""
    if place is None or place.node is None:
        return None
    return place.node if isinstance(place.node, ast.Call) else None


def _of_call(place: SourcePlace | None, call: ast.Call) -> Slip | None:
    assert place is not None
    name, function = _callee(call, place)
    if _is_collection(call, place):
        return _slip(place, "looks up by", _LOOKUP)
    if isinstance(function, Column) or (function is None and isinstance(call.func, ast.Attribute)):
        method = call.func.attr if isinstance(call.func, ast.Attribute) else name
        if method in ("cast", "astype"):
            return _slip(place, "casts", "cast('long'), cast('double'), cast('string'): types in Spark's words")
        return _slip(place, f"calls .{method}() of", of_method(method))
    module = getattr(function, "__module__", None) or ""
    if name in vars(builtins) and (function is getattr(builtins, name)):
        cure = of_builtin(name)
        return None if cure is None else _slip(place, f"gives Python's {name}", cure)
    if function is None or module.startswith(("pyspark", "watersmeet")) or not _is_library(function, call, place):
        return None
    return _slip(place, f"gives {name}", of_library(name))


def _callee(call: ast.Call, place: SourcePlace) -> tuple[str, Any]:
    """(name, its value) of the called object; None: unknown without running it."""
    if isinstance(call.func, ast.Name):
        name = call.func.id
        function = place.names.get(name, getattr(builtins, name, None))
        module = getattr(function, "__module__", "") or ""
        return (name if module in ("", "builtins") else f"{module.lstrip('_')}.{name}"), function
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        owner = place.names.get(call.func.value.id)
        if isinstance(owner, ModuleType | type):
            return f"{owner.__name__}.{call.func.attr}", getattr(owner, call.func.attr, None)
    return "", None


def _is_collection(call: ast.Call, place: SourcePlace) -> bool:
    """Whether a method of a collection of Python's is called, as `prices.get(value["item"])`."""
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        return isinstance(place.names.get(call.func.value.id), dict | list | set)
    return False


def _is_library(function: Any, call: ast.Call, place: SourcePlace) -> bool:
    """Whether what is called is a library's, and not a function of the user's own."""
    return not (isinstance(call.func, ast.Name) and getattr(function, "__code__", None) is not None) or _library(
        function
    )


def _library(function: Any) -> bool:
    return (getattr(function, "__module__", "") or "") not in ("__main__", "")


def value_slip(result: Any, role: str) -> str:
    """The cure for a result that is no Column, of a function in this role."""
    if role == "predicate" and not isinstance(result, bool) and isinstance(result, str | int | float | None):
        return "a condition of Columns: value['field'] > 5, a == 'text'; a function with def needs its return"
    if result is None:
        return "F.lit(None).cast('string') for null; a function with def needs its return"
    if isinstance(result, dict):
        return f"F.struct({', '.join(_field(key, item) for key, item in result.items())}) for a record"
    if isinstance(result, tuple):
        return "F.struct(a.alias('one'), b.alias('other')) for a record; only map and group_by of a table take a pair"
    if isinstance(result, list | set):
        return "F.array(a, b) for an array"
    if isinstance(result, bool):
        return (
            f"a condition of Columns: value['field'] > 5, a.isNull() for `is None`, a.isNotNull() for its opposite, "
            f"F.lit({result!r}) for a constant; a Column has one type, which is value_type of a stream or table"
        )
    if isinstance(result, str | int | float):
        return f"F.lit({result!r}) for a constant"
    if isinstance(result, AnyAggregate):
        return "group_by_key().agg(total=wm.sum(lambda value: ...)): an aggregate is of grouped records"
    if callable(result):
        name = getattr(result, "__name__", "function")
        return f"F.{name}(a): the function's result, not the function" if hasattr(F, name) else "the function's result"
    return "F.lit(...) for a constant, F.struct(...) for a record"


def _field(key: Any, value: Any) -> str:
    text = str(value)[8:-2] if isinstance(value, Column) else f"F.lit({value!r})"
    expression = f"v['{key}']" if isinstance(value, Column) else text
    return f"{expression}.alias({key!r})"


# What Spark's analysis refuses, in the words of the user's own program: by the names of the function's parameters.
#
# Spark sees the arguments under names of the package's; nobody wrote these, so nobody is shown them.

ARGUMENT = "argument"
"""What the columns of arguments are called, with their numbers behind it."""
_ARGUMENT = re.compile(rf"{ARGUMENT}(\d+)")
_MADE_UP = re.compile(r"col(\d+)")
_SHOWN = 200


@dataclass(frozen=True)
class Arguments:
    """The arguments of a function."""

    names: Sequence[str]  # of its parameters, as the user called them
    kinds: Sequence[DataType]  # their types

    def with_names(self, text: str) -> str:
        """A text of Spark's, by these names."""
        text = re.sub(r"lambdafunction\((.*?)(?:, namedlambdavariable\(\))+\)", r"\1", text)
        text = text.replace("namedlambdavariable()", "each element")
        return _ARGUMENT.sub(lambda match: self._name(int(match[1])), text)

    def _name(self, number: int) -> str:
        return self.names[number] if number < len(self.names) else f"{ARGUMENT}{number}"

    def with_field(self, name: str) -> str | None:
        """The first argument, by the last, that has a field of this name."""
        pairs = zip(reversed(self.names), reversed(self.kinds), strict=False)
        return next(
            (parameter for parameter, kind in pairs if isinstance(kind, StructType) and name in kind.names), None
        )

    def hint_of(self, flaw: Flaw, columns: Sequence[Column]) -> str:
        """The hint for a flaw: how to read a field with a name that Spark takes for a function, if there is one."""
        for name in flaw.names:
            has = self.with_field(name)
            if has is not None and any(re.search(rf"(?<![\w.]){name}\b(?!\()", str(column)) for column in columns):
                return f"Spark takes {name!r} for a function; the field is {has}[{name!r}], an argument's: take that."
        return flaw.hint

    @property
    def listed(self) -> str:
        return "; ".join(
            f"{name}: {kind.simpleString():.{_SHOWN}}" for name, kind in zip(self.names, self.kinds, strict=False)
        )

    @property
    def hint(self) -> str:
        return f"It gets {self.listed}."


Refusal = tuple[str, str]
"""(what is wrong, as the end of a sentence that begins with the function's role; hint)"""


def refusal_of(error: AnalysisException, arguments: Arguments) -> Refusal:
    """What Spark's analysis said."""
    condition = (error.getCondition() or "").partition(".")[0]
    parameters: Mapping[str, str] = error.getMessageParameters() or {}
    handler = _KNOWN.get(condition)
    return _generic(error, arguments) if handler is None else handler(error, {**parameters}, arguments)


def _unresolved(error: AnalysisException, parameters: Mapping[str, str], arguments: Arguments) -> Refusal:
    name = parameters.get("objectName", "").strip("`")
    mistake = f"names a column, {name!r} (as F.col({name!r}) does), and gets its Columns as arguments"
    if name in arguments.names:
        return mistake, f"Take the argument itself: {name} in place of F.col({name!r})."
    has = arguments.with_field(name)
    if has is not None:
        return mistake, f"Take it from its argument: {has}[{name!r}]."
    return mistake, f"Take it from an argument, such as value['field']; a text is F.lit({name!r}). {arguments.hint}"


def _no_field(error: AnalysisException, parameters: Mapping[str, str], arguments: Arguments) -> Refusal:
    name, fields = parameters.get("fieldName", "").strip("`"), re.findall(r"`([^`]+)`", parameters.get("fields", ""))
    hint = did_you_mean(name, fields, f"The fields are {', '.join(fields)}.", form=repr)
    if name == "*":
        hint = "All fields and one more: value.withField('field', ...), or each by its name: F.struct(value['a'], ...)."
    return f"reads the field {name!r}, which is not there: there are {', '.join(fields)}", hint


def _no_fields(error: AnalysisException, parameters: Mapping[str, str], arguments: Arguments) -> Refusal:
    base, kind = arguments.with_names(parameters.get("base", "")).strip('"'), parameters.get("other", "").strip('"')
    name = base.rpartition(".")[2]
    has = f" It is a field of {arguments.with_field(name)}." if arguments.with_field(name) else ""
    text = "A text that holds JSON is read with value=wm.json('id long, name string') where the topic is read, or with "
    text += "F.from_json(text, 'id long'); a part of a text is F.substring(text, 1, 3)."
    hint = text if kind == "STRING" else f"Only structs, arrays and maps have fields: take {base} itself."
    return f"takes a field of {base}, which is no struct but {kind}", f"{hint}{has} {arguments.hint}"


def _foreign(error: AnalysisException, parameters: Mapping[str, str], arguments: Arguments) -> Refusal:
    names = parameters.get("missingAttributes", "").replace('"', "")
    return (
        f"takes a column of another DataFrame: {names}",
        f"A function has its arguments alone: read the other DataFrame as a table, and join it. {arguments.hint}",
    )


def _routine(error: AnalysisException, parameters: Mapping[str, str], arguments: Arguments) -> Refusal:
    from pyspark.sql import functions as F

    name = parameters.get("routineName", "").strip("`")
    hint = did_you_mean(name, dir(F), "It takes functions that Spark has.")
    return f"calls {name!r}, which Spark does not have", hint


def _mismatch(error: AnalysisException, parameters: Mapping[str, str], arguments: Arguments) -> Refusal:
    text = arguments.with_names(_message(error))
    if "Cannot drop all fields" in text:
        return (
            "drops all fields of a struct",
            f"Keep one of them; a null is F.lit(None).cast('string'). {arguments.hint}",
        )
    if "should all be the same type" in text and "STRUCT<" in text:
        return (
            f"does not fit its arguments. {text}",
            "Give the fields of each struct the same names: F.array(F.struct(a.alias('key'), b.alias('value')), "
            f"F.struct(c.alias('key'), d.alias('value'))). {arguments.hint}",
        )
    if re.search(r"\(.* \+ .*\).*not \"STRING\"", text):
        return (
            f"does not fit its arguments. {text}",
            f"Texts are joined by F.concat(value['field'], F.lit('text')). {arguments.hint}",
        )
    if "aggregate(" in text and "The third parameter" in text:
        return (
            f"does not fit its arguments. {text}",
            f"The start has the type of the sum: F.lit(0).cast('long') in place of F.lit(0). {arguments.hint}",
        )
    if "STRUCT<" not in text and re.search(r"\(.* [+-] .*\).*\b(TIMESTAMP|DATE)\b|date_(add|sub)\(", text):
        return (
            f"does not fit its arguments. {text}",
            "A time is moved by an interval: value['at'] + F.make_dt_interval(mins=F.lit(5)), and two times are apart "
            f"by F.unix_seconds(a) - F.unix_seconds(b). {arguments.hint}",
        )
    return (
        f"does not fit its arguments. {text}",
        f"Take a field of the argument, or cast it: value['field'].cast('double'). {arguments.hint}",
    )


def _over(error: AnalysisException, parameters: Mapping[str, str], arguments: Arguments) -> Refusal:
    name = parameters.get("funcName", "").strip('"')
    return (
        f"looks at more than one record: {name} is a window function",
        "A function gets one record at a time: group_by_key().agg(...), or aggregate(...), look at those of a key.",
    )


def _generic(error: AnalysisException, arguments: Arguments) -> Refusal:
    return f"does not fit its arguments. {arguments.with_names(_message(error))}", arguments.hint


def _message(error: Exception) -> str:
    """Spark's sentence, without its code."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = re.sub(r"^\[[\w.]+\]\s*", "", lines[0].strip()) if lines else type(error).__name__
    return re.sub(r"\s*SQLSTATE: \w+;?.*$", "", text).rstrip(".")


_KNOWN: dict[str, Callable[[AnalysisException, Mapping[str, str], Arguments], Refusal]] = {
    "UNRESOLVED_COLUMN": _unresolved,
    "FIELD_NOT_FOUND": _no_field,
    "INVALID_EXTRACT_BASE_FIELD_TYPE": _no_fields,
    "MISSING_ATTRIBUTES": _foreign,
    "UNRESOLVED_ROUTINE": _routine,
    "DATATYPE_MISMATCH": _mismatch,
    "WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE": _over,
}
"""By Spark's condition."""


def field_refusal(kind: DataType, text: str, arguments: Arguments) -> Refusal | None:
    """Why the fields of a result are not to be: one has a name that nobody wrote, or two have one.

    Parameters
    ----------
    kind : the result's type.
    text : the Column as text.
    """
    argument_names = {
        name for argument_kind in arguments.kinds for struct in _structs(argument_kind) for name in struct.names
    }
    for struct in _structs(kind):
        for number, name in enumerate(struct.names, start=1):
            argument = _ARGUMENT.fullmatch(name)
            made_up = _MADE_UP.fullmatch(name)
            if argument is not None and name not in argument_names:
                if re.search(r"(?<![\w'])\*(?![\w'])", text) and "struct(*)" in text:
                    return (
                        "takes all columns, '*', and gets its Columns as arguments",
                        f"Name what you want: F.struct({_first(arguments)}, ...).",
                    )
                return _unnamed(arguments.with_names(name), arguments.with_names(name))
            counted = made_up is not None and int(made_up[1]) == number and name not in argument_names
            if counted and "struct(" in text and not re.search(rf"AS `?{name}\b|'{name}'", text):
                return _unnamed(name, "name")
        twice = next((n for n in struct.names if [label.lower() for label in struct.names].count(n.lower()) > 1), None)
        if twice is not None and not any(
            _has_twice(inner) for argument_kind in arguments.kinds for inner in _structs(argument_kind)
        ):
            last = [n for n in struct.names if n.lower() == twice.lower()][-1]
            return (
                f"makes two fields of one name: {last!r}",
                "Give one of them another name: F.struct(a, b.alias('other')). Names differ by more than their case.",
            )
    return None


def _unnamed(name: str, alias: str) -> Refusal:
    return (
        f"makes a field that nobody has named: {name!r}",
        f"Give each field a name: F.struct(a, F.upper(b).alias({alias!r})).",
    )


def _first(arguments: Arguments) -> str:
    last, kind = arguments.names[-1], arguments.kinds[-1]
    return f"{last}[{kind.names[0]!r}]" if isinstance(kind, StructType) and kind.names else last


def _has_twice(struct: StructType) -> bool:
    return len({name.lower() for name in struct.names}) < len(struct.names)


def _structs(kind: DataType) -> Iterator[StructType]:
    """The structs of a type, with those within."""
    if isinstance(kind, StructType):
        yield kind
        for member in kind.fields:
            yield from _structs(member.dataType)
    elif isinstance(kind, ArrayType):
        yield from _structs(kind.elementType)
    elif isinstance(kind, MapType):
        yield from _structs(kind.keyType)
        yield from _structs(kind.valueType)


def boolean_hint(kind: DataType) -> str:
    if isinstance(kind, StringType):
        return "Return a boolean Column: value['field'] == 'text', or value['field'].isNotNull()."
    return "Return a boolean Column: value['field'] > 0, or value['field'].isNotNull()."


# Users' functions that give times, as functions of milliseconds since 1970.

_USUAL = "F.to_timestamp(value['field'])"
_MADE = {
    "integer": "value['seconds'].cast('long') * 1000",
    "double": "(value['seconds'] * 1000).cast('long')",
    "timestamp_ntz": "value['field'].cast('timestamp'), which goes by the session's time zone",
    "date": "value['field'].cast('timestamp'), which goes by the session's time zone",
}
"""How a time is made of what a function gives, by the name of its type."""


def in_milliseconds(function: Function, kind: DataType, role: str, count: int) -> Function:
    """A function that gives times of this type as one of milliseconds.

    Parameters
    ----------
    count : of its arguments.
    """
    if isinstance(kind, LongType):
        return function
    if not isinstance(kind, TimestampType):
        place = place_of_function(unwrap(function))
        raise FunctionError(
            f"The {role} must return a time, not {kind.simpleString():.200}.",
            given=None if place is None else str(place),
            hint=f"A time is a timestamp, or a long of milliseconds since 1970: {_MADE.get(kind.typeName(), _USUAL)}.",
        )

    def converted(*columns: Column) -> Column:
        return F.unix_millis(function(*columns))

    return belonging(converted, function, names_of(function, count))


# Checks of users' functions of Columns besides their types: that they return times, headers, names of topics.


class RecordFunctions(ABC):
    """What `ColumnFunctions` answers of records: their times and headers, and what functions see of them."""

    @abstractmethod
    def value_type(self, function: Function, arguments: Sequence[DataType], role: str) -> DataType:
        """See `FunctionBackend`."""

    def record_type(self) -> DataType:
        return RECORD_TYPE

    def milliseconds(self, function: Function, arguments: Sequence[DataType], role: str) -> Function:
        """`function`, which gives a timestamp or a long of milliseconds, as one of milliseconds."""
        return in_milliseconds(function, self.value_type(function, arguments, role), role, len(arguments))

    def chosen_topic(
        self, function: Function, arguments: Sequence[DataType], topics: Sequence[str]
    ) -> Mapping[str, Function]:
        """See `FunctionBackend`."""
        role = "topic selector"
        kind = self.value_type(function, arguments, role)
        if not isinstance(kind, StringType):
            raise FunctionError(
                f"The {role} must return a name, not {kind.simpleString():.200}.",
                hint="Return a text for each record: lambda value: F.concat(F.lit('orders-'), value['country']).",
            )

        def topic_name(*columns: Column) -> Column:
            name = function(*columns)
            message = F.concat(F.lit("No topic of topics= has this name: "), F.coalesce(name, F.lit("null")))
            refused = F.raise_error(F.concat(message, F.lit(f"; there are {', '.join(topics)}.")))
            return F.when(name.isin(*topics), name).otherwise(refused)

        return {topic: _as_predicate(topic_name, function, topic, len(arguments)) for topic in topics}

    def headers(self, function: Function, arguments: Sequence[DataType], role: str) -> Function:
        """`function`, which gives an array of structs of a text and bytes, as one of headers."""
        kind = self.value_type(function, arguments, role)
        entry = kind.elementType if isinstance(kind, ArrayType) else None
        kinds = [member.dataType for member in entry.fields] if isinstance(entry, StructType) else []
        if kinds != [StringType(), BinaryType()]:
            raise FunctionError(
                f"The {role} must return headers, not {kind.simpleString():.200}.",
                hint="Headers are an array of structs of a text and bytes: F.array(F.struct(F.lit('id').alias('key'), "
                "value.cast('binary').alias('value'))), or F.concat(record['headers'], F.array(...)).",
            )

        def as_headers(*columns: Column) -> Column:
            result: Column = function(*columns).cast(HEADERS)
            return result

        return belonging(as_headers, function, names_of(function, len(arguments)))


def _as_predicate(selector: Function, function: Function, topic: str, count: int) -> Function:
    def is_topic(*columns: Column) -> Column:
        result: Column = selector(*columns) == topic
        return result

    return belonging(is_topic, function, names_of(function, count))


_OF_KEYS = ("key selector", "key mapper", "key extractor", "foreign key extractor", "result key", "on")
"""Roles of functions that give keys."""


class ColumnFunctions(RecordFunctions):
    """The function backend of ordinary topologies."""

    def source_types(self, origin: Any, given: str) -> tuple[DataType, DataType]:
        """Types of a topic's formats, or of the columns that key and value of a DataFrame name."""
        from watersmeet._spark.sources.sources import reading_of

        if any(isinstance(Format.of(form).schema, str) for form in origin.formats.values()):
            session()  # Spark parses the schema
        key_type, value_type = reading_of(origin).types(origin)
        _check_key(key_type, f"keys of {given!r}")
        return key_type, value_type

    def value_type(self, function: Function, arguments: Sequence[DataType], role: str) -> DataType:
        """Type of the Column that `function` returns."""
        (kind,) = self._analyse(function, arguments, role, count=1)
        if role in _OF_KEYS:
            _check_key(kind, "values of on=" if role == "on" else f"keys that the {role} gives")
        return kind

    def pair_type(self, function: Function, arguments: Sequence[DataType], role: str) -> tuple[DataType, DataType]:
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
        from watersmeet._spark.dataflow.fusion import planned_engines

        spark = SparkSession.getActiveSession()
        if spark is None or not any(map(physical.plan.functions_of, physical.plan.nodes)):
            return ()
        return tuple(planned_engines(spark, physical))

    def separate_lookups(self, physical: Any) -> frozenset[str]:
        """Names of the lookups behind others that take a level, since Spark evaluates functions between the two."""
        from watersmeet._spark.dataflow.fusion import separate_lookups

        spark = SparkSession.getActiveSession()
        chains = any(operator.head is not None for operator in physical.operators)
        return frozenset() if spark is None or not chains else separate_lookups(spark, physical)

    def check_on_error(self, physical: Any) -> None:
        """Raise where `on_error` tolerates errors of a function that Spark evaluates, which fails its task."""
        from watersmeet._spark.dataflow.fusion import check_on_error

        spark = SparkSession.getActiveSession()
        if spark is not None:
            check_on_error(spark, physical)

    def plain(self, function: Function, returns: Any, role: str, *, pair: bool = False) -> Function:
        """The plain Python function as one of Columns.

        Raises
        ------
        FunctionError : it uses an object that cannot be pickled, or `returns` is no type.
        """
        written = unwrap(function)
        error = pickling_error(written)
        if error is not None:
            raise FunctionError(
                f"Spark sends the {role} to its workers, and cannot pickle {_unpicklable(written)}: {error}.",
                hint="Make such an object within the function, or at its first call.",
            )
        return of_columns(function, self.named_type(returns), pair=pair)

    def check_predicate(self, function: Function, arguments: Sequence[DataType], role: str) -> None:
        """Raise unless `function` returns a boolean Column."""
        kind = self.value_type(function, arguments, role)
        if not isinstance(kind, BooleanType):
            raise FunctionError(
                f"The {role} must return a condition, not {kind.simpleString():.{_SHOWN}}.", hint=boolean_hint(kind)
            )

    def combined_type(self, prefix: DataType, suffix: DataType) -> DataType:
        return StructType([StructField("prefix", prefix, True), StructField("suffix", suffix, True)])

    def combined_parts(self, key: Column) -> tuple[Column, Column]:
        return key["prefix"], key["suffix"]

    def record(self, key: Column, parts: Mapping[str, Column | None]) -> Column:
        return F.struct(*((F.lit(True) if part is None else part).alias(name) for name, part in parts.items()))

    def windowed_type(self, key: DataType) -> DataType:
        fields = (("key", key), ("start", LongType()), ("end", LongType()))
        return StructType([StructField(name, kind, True) for name, kind in fields])

    def key_of_windowed(self, kind: DataType) -> DataType:
        assert isinstance(kind, StructType), "keys of windowed aggregates are structs"
        return kind["key"].dataType

    def window_type(self) -> DataType:
        return StructType([StructField(name, LongType(), True) for name in ("start", "end")])

    def windowed_parts(self, key: Column) -> tuple[Column, Column]:
        return key["key"], self.record(key, {name: key[name] for name in ("start", "end")})

    def field(self, record: Column, name: str) -> Column:
        return record[name]

    def where_null(self, operand: Column, value: Column, default: Column | None = None) -> Column:
        return F.when(operand.isNull(), value).otherwise(F.lit(None) if default is None else default)

    def initial(self, initializer: Function, kind: DataType | None = None) -> tuple[DataType, Any]:
        """See `FunctionBackend`: of a Column without operands, or of a plain value."""
        result = initializer()
        if kind is not None and not isinstance(result, Column):
            return kind, of_type(result, self.as_arrow(kind))
        if isinstance(result, dict | list | tuple):
            arrow, value = typed(result)
            return self.of_arrow(arrow), value
        column = result if isinstance(result, Column) else F.lit(result)
        (data_type,) = self._analyse(lambda _: column, [StringType()], "initializer", count=1)
        constant = _evaluated(column)
        if constant is None:
            constant = session().range(1).select(column.alias("value")).toArrow().column("value")
        return data_type, python_values(constant)[0]

    def compiled(self, function: Function, arguments: Sequence[DataType], role: str) -> Function:
        """`function` as one of Arrow arrays: what Spark's analysed plan says of it."""
        frame = _empty(arguments)
        with _zones_wanted(role, function):
            column = function(*(frame[name] for name in frame.columns))
        *_, layer = layers_of(frame.select("*", column.alias("made")))
        expression = layer.get("made", layer.get("", Operand("made", pa.null())))
        reason = expression.why if isinstance(expression, Unread) else unsupported(expression)
        if reason is None and not isinstance(expression, Unread):
            return Evaluated(expression, tuple(frame.columns))
        raise FunctionError(
            f"The {role} computes state, and uses functions that only Spark can evaluate.",
            given=f"{reason}, in {_columns_text([column])}",
            hint="Write it as a plain Python function of values: wm.python(lambda value, aggregate: ...).",
        )

    def named_type(self, given: Any) -> DataType:
        """The type that a DataType, or a text of Spark's, names."""
        if isinstance(given, DataType):
            return given
        session()  # Spark parses the type
        try:
            return nullable(DataType.fromDDL(str(given)))
        except (PySparkException, ValueError) as error:
            raise FunctionError(f"Unknown type {given!r:.120}.", hint=_type_hint(given)) from error

    def as_arrow(self, kind: DataType) -> Any:
        return with_nulls(arrow_type(kind))

    def of_arrow(self, kind: Any) -> DataType:
        return spark_type(kind)

    def written_as(self, form: Format | None, kind: DataType) -> str:
        """Type and format, as text, in which a sink writes keys of type `kind`."""
        return f"{kind.simpleString()} as {describe_format(form or format_for(kind))}"

    def check_written(self, form: Format, kind: DataType, what: str) -> None:
        """Raise unless a format writes values of this type; what a Schema Registry has is asked for at the start."""
        if getattr(form, "registry", None) is None:
            check_writable(form, kind, what)

    def check_columns(self, table: TableTarget, key: DataType, value: DataType) -> None:
        columns_of(table, self.as_arrow(key), self.as_arrow(value))

    def _analyse(
        self, function: Function, arguments: Sequence[DataType], role: str, count: int, *, elements: bool = False
    ) -> list[DataType]:
        """Types of what a function gives; `elements`: the fields of an array's structs go by their places."""
        frame, signature = _empty(arguments), Arguments(names_of(function, len(arguments)), arguments)
        columns = [frame[name] for name in frame.columns]
        try:
            with _zones_wanted(role, function):
                result = function(*columns)
        except WatersmeetError:
            raise
        except Exception as error:
            raise _failed(error, role, signature, unwrap(function)) from error
        slip = text_slip(unwrap(function), result) or (None if is_plain(function) else identity_slip(unwrap(function)))
        if slip is not None:
            raise _slipped(role, slip)
        results = _as_columns(result, role, count, function)
        flaw = flaw_of(frame, results)
        if flaw:
            text = signature.with_names(_columns_text(results))
            raise FunctionError(
                f"The {role} {flaw.what}.", given=_with_place(text, function), hint=signature.hint_of(flaw, results)
            )
        try:
            # what cannot be null in one expression can in another, and is of the same type
            kinds = [nullable(kind) for kind in analysed(frame, *results)]
        except AnalysisException as error:
            mistake, hint = refusal_of(error, signature)
            raise FunctionError(f"The {role} {mistake}.", given=_with_place("", function), hint=hint) from None
        refused = _drop_refusal(frame, results) if any("drop_field(" in str(column) for column in results) else None
        if refused is not None:
            raise FunctionError(f"The {role} {refused[0]}.", given=_with_place("", function), hint=refused[1])
        for kind, column in zip(kinds, results, strict=True):
            inner = kind.elementType if elements and isinstance(kind, ArrayType) else kind
            fields = (
                [member.dataType for member in inner.fields] if elements and isinstance(inner, StructType) else [inner]
            )
            for refused in (field_refusal(field_type, str(column), signature) for field_type in fields):
                if refused is not None:
                    raise FunctionError(f"The {role} {refused[0]}.", given=_with_place("", function), hint=refused[1])
        return kinds


def _drop_refusal(frame: DataFrame, columns: Sequence[Column]) -> Refusal | None:
    """Why fields are dropped in vain, where they are: Spark says nothing of one that is not there."""
    *_, layer = layers_of(frame.select(*(column.alias(f"made{n}") for n, column in enumerate(columns))))
    waiting = [expression for expression in layer.values() if isinstance(expression, Call)]
    while waiting:
        call = waiting.pop()
        waiting += [argument for argument in call.arguments if isinstance(argument, Call)]
        if call.function == "UpdateFields":
            names = [member.name.lower() for member in type_of(call.arguments[0])]
            for change in call.arguments[1:]:
                assert isinstance(change, Call)
                name = str(change.option("name"))
                if change.function == "DropField" and name.lower() not in names:
                    hint = did_you_mean(name, names, f"The fields are {', '.join(names)}.", form=repr)
                    return f"drops the field {name!r}, which is not there: there are {', '.join(names)}", hint
                names = [field_name for field_name in names if field_name != name.lower()]
                names += [name.lower()] if change.function == "WithField" else []
    return None


@contextmanager
def _zones_wanted(role: str, function: Function) -> Iterator[None]:
    """While it lasts, the function of this role gets an error for datetimes without a zone."""
    token = ZONES_WANTED.set(True)
    try:
        yield
    except NaiveTime as naive:
        what = f"The {role} compares or makes a time without a zone, which depends on the machine: {naive}."
        raise FunctionError(what, given=_with_place("", function), hint=WITH_ZONE) from None
    finally:
        ZONES_WANTED.reset(token)


def _type_hint(declared: Any) -> str:
    name = declared.__name__ if isinstance(declared, type) else str(declared).lower()
    meant = meant_type(name)
    return "Say it in Spark's words: " + ('"long", "array<string>".' if meant is None else f'did you mean "{meant}"?')


def _evaluated(column: Column) -> pa.Array | None:
    """The value of a Column without operands, where it needs no job of Spark's: a session's first one takes seconds."""
    *_, layer = layers_of(_empty([StringType()]).select(column.alias("made")))
    expression = layer.get("made", layer.get("", Unread("")))
    if isinstance(expression, Unread) or unsupported(expression) is not None:
        return None
    try:
        return RowsOfArrays(1, lambda _: pa.nulls(1)).evaluate(expression)
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
            hint="Make one first: spark = watersmeet.session(...).",
        )
    return active


def _empty(arguments: Sequence[DataType]) -> DataFrame:
    fields = [StructField(f"{ARGUMENT}{i}", kind) for i, kind in enumerate(arguments)]
    return empty_frame(session(), StructType(fields))


def _as_columns(result: Any, role: str, count: int, function: Function) -> list[Column]:
    if count == 1:
        if isinstance(result, Column):
            return [result]
        _refuse_method(role, function, result)
        raise FunctionError(
            f"The {role} must return a Column, not {type(result).__name__}: {result!r:.80}.",
            given=_with_place("", function),
            hint=f"Write {value_slip(result, role)}.",
        )
    if isinstance(result, tuple) and len(result) == count and all(isinstance(c, Column) for c in result):
        return list(result)
    plain = [value for value in result if not isinstance(value, Column)] if isinstance(result, tuple) else []
    for value in plain:
        _refuse_method(role, function, value)
    detail = f" Each is a Column: {value_slip(plain[0], role)}." if plain else ""
    raise FunctionError(
        f"The {role} must return a pair of Columns, not {result!r:.80}.",
        given=_with_place("", function),
        hint=f"Return a pair: return key, value; as a lambda: lambda key, value: (key, value).{detail}",
    )


def _refuse_method(role: str, function: Function, result: Any) -> None:
    slip = method_slip(unwrap(function), result)
    if slip is not None:
        raise _slipped(role, slip)


def _failed(error: Exception, role: str, arguments: Arguments, function: Function) -> FunctionError:
    """The error for a function that raised one when it was called with Columns."""
    slip = name_slip(error) or method_slip(function, error) or slip_of(error)
    if slip is not None:
        return _slipped(role, slip)
    place = place_of(error)
    if isinstance(error, PySparkTypeError) and "returnType" in str(error):
        return FunctionError(
            f"The {role} makes a UDF with a type that Spark does not know: {_said(place, error)}.",
            given=place,
            hint="Types are in Spark's words: F.udf(function, 'string'), or a DataType.",
        )
    if isinstance(error, ParseException):
        return FunctionError(
            f"The {role} names a type or an expression that Spark cannot read: {_said(place, error)}.",
            given=f"{_message(error)}; {place}",
            hint="Types are in Spark's words: cast('long'), cast('string'), cast('array<string>').",
        )
    if is_of_java(error):
        return FunctionError(
            f"The {role} gives a function of Spark an argument that it does not take: {_said(place, error)}.",
            given=place,
            hint=f"A constant may have to be a Column, F.lit(5), or of another type. {arguments.hint}",
        )
    if isinstance(error, TypeError) and "struct() got an unexpected keyword" in str(error):
        return FunctionError(
            f"The {role} gives F.struct a field by its name: {_said(place, error)}.",
            given=place,
            hint=f"A Column has its name by alias: F.struct(value['field'].alias('name')). {arguments.hint}",
        )
    return FunctionError(
        f"The {role} failed when it was called with Columns: {type(error).__name__}: {_first_line(error)}.",
        given=place,
        hint=f"It is called once, with Columns, when the topology is built. {arguments.hint}",
    )


def pickling_error(value: object) -> Exception | None:
    """Why an object cannot be sent to Spark's workers; None: it can."""
    try:
        cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever an object of the user's says of itself
        return error
    return None


def _unpicklable(function: Any) -> str:
    """The name of an object that a function uses and that cannot be pickled."""
    used = getclosurevars(function) if isinstance(function, FunctionType) else None
    names = {} if used is None else {**used.globals, **used.nonlocals}
    return next((name for name, value in names.items() if pickling_error(value)), "it")


def _said(place: SourcePlace | None, error: Exception) -> str:
    return place.text if place is not None and place.text else _first_line(error)


def _slipped(role: str, slip: Slip) -> FunctionError:
    return FunctionError(f"The {role} {slip.what}.", given=slip.place, hint=slip.hint)


def _with_place(text: str, function: Function) -> str | None:
    """The given value, and where the user's function begins."""
    place = place_of_function(unwrap(function))
    return "; ".join(filter(None, (text, "" if place is None else str(place)))) or None


def _check_key(kind: DataType, subject: str) -> None:
    """Raise unless two keys of the type are either the same or not, and some are there."""
    if isinstance(kind, NullType) or (isinstance(kind, StructType) and not kind.fields):
        raise FunctionError(
            f"The {subject} are {'null' if isinstance(kind, NullType) else 'structs without fields'}, of all records.",
            hint="Give a field: value['field']; for one key of all records F.lit('all').",
        )
    if _unordered(kind):
        raise FunctionError(
            f"The {subject} cannot be compared.",
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


# The key of a window as text, as Kafka Streams prints it.


@answered
def window_text(key: Any, window: Any = None) -> Any:
    """A windowed key as text, as `Windowed.toString` of Kafka Streams has it: `[key@start/end]`.

    Parameters
    ----------
    key : a Column of structs of key, start and end, as tables by window have them; or of the key alone.
    window : in the second case a Column of structs of start and end, as `WTable.to_stream(key=)` gives it.

    Returns
    -------
    A Column of strings, null where the key is.

    Raises
    ------
    FunctionError : `key` is no Column.

    Examples
    --------
    >>> counts.to_stream(key=wm.window_text).to("counts")  # doctest: +SKIP
    >>> counts.to_stream().map(lambda key, n: (wm.window_text(key), n))  # doctest: +SKIP
    """
    if not isinstance(key, Column):
        raise FunctionError(
            f"window_text takes a Column, and not {key!r:.80}.",
            hint="Use it in a function: to_stream(key=wm.window_text), or select_key(lambda key, value: "
            "wm.window_text(key)).",
        )
    plain_key, ends = (key["key"], key) if window is None else (key, window)
    parts = F.lit("["), plain_key.cast("string"), F.lit("@"), ends["start"].cast("string"), F.lit("/")
    return F.concat(*parts, ends["end"].cast("string"), F.lit("]"))
