"""SQL without a JVM: what expressions mean, over Arrow arrays, and the function backend of such topologies.

Random queries are many, and Spark's analysis takes most of the time of each. The front end is the one of production;
types and values of the expressions that `proof.sql.generate` draws are Spark's, which a part of the queries checks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql.types import DataType
from sqlglot import exp

from proof.arrow import ArrowFunctions
from watersmeet._engine.rows import with_nulls
from watersmeet._worker.formats.arrow_types import arrow_type, spark_type
from watersmeet.api.builder import StreamsBuilder
from watersmeet.functions import Function
from watersmeet.io.formats import Format
from watersmeet.sql.rows import OTHER_EXPRESSIONS, Expressions, Tree

_TYPES = {
    exp.DataType.Type.BIGINT: pa.int64(),
    exp.DataType.Type.INT: pa.int32(),
    exp.DataType.Type.TEXT: pa.string(),
    exp.DataType.Type.BOOLEAN: pa.bool_(),
    exp.DataType.Type.DOUBLE: pa.float64(),
}
Arrays = Mapping[str, pa.Array]


class ArrowExpressions(Expressions):
    """What expressions mean: arrays of Arrow."""

    def kind(self, of_handle: Any) -> DataType:
        """See `Expressions`."""
        return spark_type(of_handle)

    def declared(self, text: str) -> DataType:
        """See `Expressions`."""
        return spark_type(_named(exp.DataType.build(text, dialect="spark")))

    def types(self, trees: Sequence[Tree], kinds: Mapping[str, DataType]) -> list[DataType]:
        """See `Expressions`."""
        arrays = {name: pa.array([], with_nulls(arrow_type(kind))) for name, kind in kinds.items()}
        return [spark_type(self.column(tree, arrays).type) for tree in trees]

    def common_type(self, former: DataType, latter: DataType) -> DataType | None:
        """See `Expressions`."""
        kinds = [arrow_type(former), arrow_type(latter)]
        return spark_type(_wider(kinds)) if all(map(pt.is_integer, kinds)) or pt.is_null(kinds[0]) else None

    def column(self, tree: Tree, columns: Arrays) -> pa.Array:
        """See `Expressions`."""
        value = _value(tree, columns, len(next(iter(columns.values()))))
        return value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value

    def field(self, value: pa.Array, name: str) -> pa.Array:
        """See `Expressions`."""
        return pc.struct_field(value, name)


class SqlFunctions(ArrowFunctions):
    """The function backend of SQL over Arrow arrays: types of formats and of plain functions are given as Spark's."""

    def source_types(self, origin: Any, given: str) -> tuple[pa.DataType, pa.DataType]:
        """See `FunctionBackend`."""
        key, value = (self._type(form) for form in (origin.key, origin.value))
        return key, value

    def _type(self, form: Any) -> pa.DataType:
        schema = getattr(form, "schema", None)
        return with_nulls(arrow_type(schema)) if isinstance(schema, DataType) else super().named_type(form.kind)

    def named_type(self, given: Any) -> pa.DataType:
        """See `FunctionBackend`."""
        return with_nulls(arrow_type(given)) if isinstance(given, DataType) else super().named_type(given)

    def plain(self, function: Function, returns: Any, role: str, *, pair: bool = False) -> Function:
        """See `FunctionBackend`."""
        return super().plain(function, self.named_type(returns), role, pair=pair)

    def check_written(self, form: Format | None, kind: pa.DataType, what: str) -> None:
        """Nothing is written."""


@contextmanager
def without_spark() -> Iterator[StreamsBuilder]:
    """A builder whose SQL needs no session."""
    token = OTHER_EXPRESSIONS.set(ArrowExpressions())
    try:
        yield StreamsBuilder("proof", _functions=SqlFunctions())
    finally:
        OTHER_EXPRESSIONS.reset(token)


def _named(kind: Tree) -> pa.DataType:
    """The type that SQL names."""
    if kind.this == exp.DataType.Type.STRUCT:
        return pa.struct([(field.name, _named(field.args["kind"])) for field in kind.expressions])
    return _TYPES[kind.this]


def _wider(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """The type in which values of several types meet."""
    given = [kind for kind in kinds if not pt.is_null(kind)]
    if not given:
        return pa.null()
    return pa.int64() if pa.int64() in given and all(map(pt.is_integer, given)) else given[0]


def _value(tree: Tree, columns: Arrays, size: int) -> pa.Array:
    """The values of a tree, as many as there are rows."""
    of = partial(_value, columns=columns, size=size)
    if isinstance(tree, exp.Column):
        return columns[tree.name]
    if isinstance(tree, exp.Dot):
        return pc.struct_field(of(tree.this), tree.expression.name)
    if isinstance(tree, exp.Literal):
        return _repeated(
            tree.name if tree.is_string else int(tree.name), pa.string() if tree.is_string else pa.int32(), size
        )
    if isinstance(tree, exp.Boolean):
        return _repeated(tree.this, pa.bool_(), size)
    if isinstance(tree, exp.Null):
        return pa.nulls(size)
    if isinstance(tree, exp.Anonymous):
        return _ANONYMOUS[tree.name.lower()](tree, of, size)
    return _OPERATORS[type(tree)](tree, of)


def _repeated(value: Any, kind: pa.DataType, size: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), size)


Of = Callable[[Tree], pa.Array]


def _met(*arrays: pa.Array) -> list[pa.Array]:
    """Arrays in the type in which they meet."""
    kind = _wider([array.type for array in arrays])
    return [array if array.type == kind else array.cast(kind) for array in arrays]


def _binary(function: Callable[..., pa.Array]) -> Callable[[Tree, Of], pa.Array]:
    return lambda tree, of: function(*_met(of(tree.this), of(tree.expression)))


def _logical(function: Callable[..., pa.Array]) -> Callable[[Tree, Of], pa.Array]:
    return lambda tree, of: function(*(of(side).cast(pa.bool_()) for side in (tree.this, tree.expression)))


def _all(function: Callable[..., pa.Array]) -> Callable[[Tree, Of], pa.Array]:
    return lambda tree, of: function(*_met(of(tree.this), *map(of, tree.expressions)))


def _is(tree: Tree, of: Of) -> pa.Array:
    value = of(tree.this)
    if isinstance(tree.expression, exp.Null):
        return pc.is_null(value)
    return pc.fill_null(pc.equal(value, pa.scalar(tree.expression.this)), False)


def _case(tree: Tree, of: Of) -> pa.Array:
    if tree.this is not None:
        branches = [
            (exp.EQ(this=tree.this.copy(), expression=each.this.copy()), each.args["true"]) for each in tree.args["ifs"]
        ]
    else:
        branches = [(each.this, each.args["true"]) for each in tree.args["ifs"]]
    default = tree.args.get("default")
    first = of(branches[0][1])
    values = [
        first,
        *(of(value) for _, value in branches[1:]),
        pa.nulls(len(first)) if default is None else of(default),
    ]
    *values, result = _met(*values)
    for (condition, _), value in reversed(list(zip(branches, values, strict=True))):
        result = _chosen(of(condition), value, result)
    return result


def _chosen(condition: pa.Array, value: pa.Array, other: pa.Array) -> pa.Array:
    """The one where a condition holds, the other elsewhere: of structs, too, which `if_else` does not take."""
    places = pc.if_else(
        pc.fill_null(condition.cast(pa.bool_()), False),
        pa.array(range(len(value)), pa.int64()),
        pa.array(range(len(value), 2 * len(value)), pa.int64()),
    )
    return pa.concat_arrays([_flat(value), _flat(other)]).take(places)


def _flat(array: Any) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _if(tree: Tree, of: Of) -> pa.Array:
    other = tree.args.get("false")
    value = of(tree.args["true"])
    value, other = _met(value, pa.nulls(len(value)) if other is None else of(other))
    return _chosen(of(tree.this), value, other)


def _nullif(tree: Tree, of: Of) -> pa.Array:
    value = of(tree.this)
    equal = pc.equal(*_met(value, of(tree.expression)))
    return _chosen(equal, pa.nulls(len(value), value.type), value)


def _between(tree: Tree, of: Of) -> pa.Array:
    value = of(tree.this)
    low, high = (_met(value, of(tree.args[name])) for name in ("low", "high"))
    return pc.and_kleene(pc.greater_equal(*low), pc.less_equal(*high))


def _in(tree: Tree, of: Of) -> pa.Array:
    value = of(tree.this)
    return reduce(pc.or_kleene, (pc.equal(*_met(value, of(each))) for each in tree.expressions))


def _like(tree: Tree, of: Of) -> pa.Array:
    return pc.match_like(of(tree.this), tree.expression.name)


def _cast(tree: Tree, of: Of) -> pa.Array:
    value, kind = of(tree.this), _named(tree.args["to"])
    if isinstance(tree, exp.TryCast) and kind == pa.int32():
        fits = pc.and_kleene(pc.greater_equal(value, -(2**31)), pc.less(value, 2**31))
        value = _chosen(fits, value, pa.nulls(len(value), value.type))
    if value.type == kind or pt.is_null(value.type):
        return value if value.type == kind else pa.nulls(len(value), kind)
    if pt.is_struct(kind):
        fields = [pc.struct_field(value, n).cast(field.type) for n, field in enumerate(kind)]
        return pa.StructArray.from_arrays(list(map(_flat, fields)), fields=list(kind), mask=pc.is_null(value))
    return value.cast(kind)


def _joined(tree: Tree, of: Of) -> pa.Array:
    parts = [of(part).cast(pa.string()) for part in (tree.this, tree.expression)]
    return pc.binary_join_element_wise(*parts, "")


def _length(tree: Tree, of: Of) -> pa.Array:
    return pc.utf8_length(of(tree.this)).cast(pa.int32())


def _struct(tree: Tree, of: Of, size: int) -> pa.Array:
    names, values = (tree.expressions[n::2] for n in (0, 1))
    return pa.StructArray.from_arrays([_flat(of(each)) for each in values], names=[name.name for name in names])


def _json(tree: Tree, of: Of, size: int) -> pa.Array:
    """A text of each value, another for each."""
    return pa.array(
        [json.dumps(value, sort_keys=True, default=str) for value in of(tree.expressions[0]).to_pylist()], pa.string()
    )


_ANONYMOUS: Mapping[str, Callable[[Tree, Of, int], pa.Array]] = {"named_struct": _struct, "to_json": _json}
_OPERATORS: Mapping[type, Callable[[Tree, Of], pa.Array]] = {
    exp.Paren: lambda tree, of: of(tree.this),
    exp.Add: _binary(pc.add_checked),
    exp.Sub: _binary(pc.subtract_checked),
    exp.Mul: _binary(pc.multiply_checked),
    exp.Neg: lambda tree, of: pc.negate_checked(of(tree.this)),
    exp.EQ: _binary(pc.equal),
    exp.NEQ: _binary(pc.not_equal),
    exp.LT: _binary(pc.less),
    exp.LTE: _binary(pc.less_equal),
    exp.GT: _binary(pc.greater),
    exp.GTE: _binary(pc.greater_equal),
    exp.And: _logical(pc.and_kleene),
    exp.Or: _logical(pc.or_kleene),
    exp.Not: lambda tree, of: pc.invert(of(tree.this).cast(pa.bool_())),
    exp.Is: _is,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _all(pc.coalesce),
    exp.Greatest: _all(pc.max_element_wise),
    exp.Least: _all(pc.min_element_wise),
    exp.Nullif: _nullif,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.DPipe: _joined,
    exp.Upper: lambda tree, of: pc.utf8_upper(of(tree.this)),
    exp.Lower: lambda tree, of: pc.utf8_lower(of(tree.this)),
    exp.Length: _length,
    exp.Abs: lambda tree, of: pc.abs_checked(of(tree.this)),
}
