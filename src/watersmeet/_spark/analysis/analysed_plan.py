"""Columns as expressions: Spark's analysed plan of a frame, read from its JSON.

Law 8: the one module that uses what PySpark has of the JVM. It is not there on Spark Connect, and may be another in the
next version; then, and where the plan holds what is not known here, a column stays `Unread`, with the reason, and Spark
evaluates it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType, UserDefinedType, VariantType

from watersmeet._engine.expressions.explosion import ELEMENT, EXPLODES, PART, PLACE
from watersmeet._engine.expressions.plain_calls import PLAIN
from watersmeet._engine.expressions.tree import VARIABLE, Call, Expression, Literal, Operand, type_of
from watersmeet._engine.rows.types import with_nulls
from watersmeet._spark.analysis.letter_cases import case_options
from watersmeet._spark.analysis.plain_functions import plain_call
from watersmeet._worker.formats.arrow_types import arrow_type

_CONDITIONS = frozenset(
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
    """A column that is no expression here.

    Parameters
    ----------
    why : what it holds: the name of a class of Spark's, as a rule.
    """

    why: str


Layer = Mapping[str, Expression | Unread]
"""Columns that one projection adds or replaces, by name."""


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
    found: dict[str, Expression | Unread] = {}
    listed = plan.projectList()
    for at, nodes in enumerate(columns):
        if _simple(nodes[0]) != "AttributeReference":
            found[nodes[0]["name"]] = _column(nodes, _Handle(partial(listed.apply, at)), ansi)
    return found


def _explosion(node: Mapping[str, Any]) -> Layer:
    """The layer that makes rows of a column of lists."""
    explode, *operand = node["generator"]
    names = [attribute["name"] for (attribute,) in node["generatorOutput"]]
    known = _simple(explode) == EXPLODES and node["outer"] and len(names) == 2 and len(operand) == 1
    if not known or _simple(operand[0]) != "AttributeReference":
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
            called = plain_call(handle.object)
            if called is None:
                raise _NotRead(name)
            return Call(name, arguments, with_nulls(called.type), called=called)
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
    if name in _CONDITIONS:
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
    """The Arrow type of a type in Spark's JSON."""
    field = {"name": "it", "type": described, "nullable": True, "metadata": {}}
    kind = StructType.fromJson({"type": "struct", "fields": [field]}).fields[0].dataType
    why = special(kind)
    if why is not None:
        raise _NotRead(why)
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
    return next((why for why in map(special, inner) if why is not None), None)
