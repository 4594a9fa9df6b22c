"""Functions of the user's that treat a Column as a value of Python: what was written, and what to write instead.

A Column stands for the values of all records, which are not there while a topology is built. So Python's `if`, `len`,
`json.loads` and `.upper()` find nothing to work with; each error has words of its own.
"""

from __future__ import annotations

import ast
import builtins
import dis
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from types import CodeType, MethodType, ModuleType
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F

from watersmeet._spark.functions import python_words as words
from watersmeet._spark.functions.source_positions import SourcePlace, place_of, place_of_function, shortened
from watersmeet.aggregates import AnyAggregate

_TRUTH = "CANNOT_CONVERT_COLUMN_INTO_BOOL"
_IN = "CANNOT_APPLY_IN_FOR_COLUMN"
_COLUMN = re.compile(r"\bColumn\b|'Column'")
_LOOKUP = "F.create_map(F.lit(key), F.lit(value), ...)[a], or F.element_at(array, a); for a record F.struct(...)"
_AS_TEXT = re.compile(r"Column<\\*'")


@dataclass(frozen=True)
class Slip:
    """The mistake, as the end of a sentence that begins with the function's role; its place; and the cure.

    Parameters
    ----------
    what, hint : texts.
    place : in the user's source, where that is known.
    """

    what: str
    hint: str
    place: SourcePlace | None = None


def slip_of(error: BaseException) -> Slip | None:
    """The mistake of a function with a Column that ended with this error; None if the error is about something else."""
    place = place_of(error)
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    if condition == _IN:
        return _slip(place, "uses `in` on", words.CONDITIONS["in"])
    if condition == _TRUTH:
        return _of_truth(place)
    call = _call(place)
    if call is not None:
        found = _of_call(place, call)
        if found is not None:
            return found
    if _COLUMN.search(str(error)) is None:
        return None
    if "iterable" in str(error) or condition == "NOT_ITERABLE":
        return _slip(place, "iterates over", words.ITERATION)
    if isinstance(error, TypeError) and re.search(r"unhashable|indices", str(error)):
        return _slip(place, "looks up by", _LOOKUP)
    if isinstance(error, TypeError) and "item assignment" in str(error):
        return _slip(place, "sets a field of", words.WITH_FIELD)
    return _slip(place, "gives Python", words.ANYTHING)


def text_slip(function: Callable[..., Any], result: Any) -> Slip | None:
    """Where a result has the text of a Column in it, which an f-string or `str` has made."""
    # of a Column what is within `Column<'...'>`
    shown = result if isinstance(result, str) else str(result)[8:] if isinstance(result, Column) else ""
    if not _AS_TEXT.search(shown):
        return None
    cure = "F.format_string('%s clicks', a), or F.concat(a.cast('string'), F.lit(' clicks')); alone a.cast('string')"
    what = "makes a text of a Column (an f-string, str or %), which is the Column's name and no value"
    return Slip(what, f"Write {cure}.", place_of_function(function))


def name_slip(error: BaseException) -> Slip | None:
    """Where a name of `pyspark.sql.functions` was misspelt."""
    if isinstance(error, AttributeError) and error.obj is F and error.name:
        near = get_close_matches(error.name, dir(F), n=3)
        hint = f"Did you mean {' or '.join(f'F.{name}' for name in near)}?" if near else f"Use {words.ANYTHING}."
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
    what = f"reads .{name}, which is a method of Spark's Column and not the field {name!r}"
    return Slip(what, f"Write value[{name!r}].", place_of_function(function))


def _uncalled_methods(code: Any) -> Iterator[str]:
    """Methods of Column that a function names without calling them."""
    if not isinstance(code, CodeType):
        return
    for each in dis.get_instructions(code):
        # since Python 3.12 LOAD_ATTR loads what is called too, and says so in its lowest bit
        called = sys.version_info >= (3, 12) and (each.arg or 0) & 1
        if each.opname == "LOAD_ATTR" and not called and callable(getattr(Column, each.argval, None)):
            yield each.argval
    for constant in code.co_consts:
        yield from _uncalled_methods(constant)


def _slip(place: SourcePlace | None, what: str, cure: str, shown: str | None = None) -> Slip:
    text = shown if shown is not None else (place.text if place is not None else "")
    said = f"{what} a Column" + (f": {text}" if text else "")
    return Slip(f"{said}, which has no value while the topology is built", f"Write {cure}.", place)


def _of_truth(place: SourcePlace | None) -> Slip:
    """A Column was to be true or false."""
    if place is None or place.node is None:
        every = "F.when(condition, one).otherwise(other) for if, & for and, | for or, ~ for not, isin for in"
        return _slip(place, "uses Python's if, and, or, not or in on", every)
    call = _call(place)
    if call is not None:
        found = _of_call(place, call)
        if found is not None:
            return found
    within: ast.AST = place.node
    for node in (place.node, *place.above):
        word = _word(node, within)
        if word is not None:
            text = _node_text(node, place)
            return _slip(place, f"uses Python's {word} on", words.CONDITIONS[word], text)
        within = node
    return _slip(place, "asks for the truth of", words.CONDITIONS["bool"])


def _word(node: ast.AST, within: ast.AST) -> str | None:
    """The word of Python that asks what stands within a node for its truth."""
    if isinstance(node, ast.Compare):
        if any(isinstance(each, ast.In | ast.NotIn) for each in node.ops):
            return "in"
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
        return shortened(f"{word} {ast.unparse(node.test)}")
    return shortened(ast.unparse(node)) if isinstance(node, ast.expr) else place.text


def _call(place: SourcePlace | None) -> ast.Call | None:
    """The call that ended with the error, or with an argument that did."""
    if place is None or place.node is None:
        return None
    return place.node if isinstance(place.node, ast.Call) else None


def _of_call(place: SourcePlace | None, call: ast.Call) -> Slip | None:
    assert place is not None
    name, function = _called(call, place)
    if _is_collection(call, place):
        return _slip(place, "looks up by", _LOOKUP)
    if isinstance(function, Column) or (function is None and isinstance(call.func, ast.Attribute)):
        method = call.func.attr if isinstance(call.func, ast.Attribute) else name
        if method in ("cast", "astype"):
            return _slip(place, "casts", "cast('long'), cast('double'), cast('string'): types in Spark's words")
        return _slip(place, f"calls .{method}() of", words.of_method(method))
    module = getattr(function, "__module__", None) or ""
    if name in vars(builtins) and (function is getattr(builtins, name)):
        cure = words.of_builtin(name)
        return None if cure is None else _slip(place, f"gives Python's {name}", cure)
    if function is None or module.startswith(("pyspark", "watersmeet")) or not _is_library(function, call, place):
        return None
    return _slip(place, f"gives {name}", words.of_library(name))


def _called(call: ast.Call, place: SourcePlace) -> tuple[str, Any]:
    """(name, its value) of the called object; None: unknown without running it."""
    if isinstance(call.func, ast.Name):
        name = call.func.id
        found = place.names.get(name, getattr(builtins, name, None))
        module = getattr(found, "__module__", "") or ""
        return (name if module in ("", "builtins") else f"{module.lstrip('_')}.{name}"), found
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


def value_slip(result: Any, count: int) -> str:
    """The cure for a result that is no Column."""
    if result is None:
        return "F.lit(None).cast('string') for null; a function with def needs its return"
    if isinstance(result, dict):
        return f"F.struct({', '.join(_field(key, each) for key, each in result.items())}) for a record"
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
    made = str(value)[8:-2] if isinstance(value, Column) else f"F.lit({value!r})"
    shown = f"v['{key}']" if isinstance(value, Column) else made
    return f"{shown}.alias({key!r})"
