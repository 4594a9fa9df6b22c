"""Topologies over Arrow arrays: functions that take and return `pyarrow` arrays instead of Columns.

Lets the engine run a whole topology without a JVM. The handles are the users' own; only the functions and
the types differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet._engine.database_rows import columns_of
from watersmeet._engine.expressions.python_calls import PlainCall
from watersmeet._engine.rows import HEADERS, of_type, typed
from watersmeet.api.builder import StreamsBuilder
from watersmeet.errors import FunctionError, Generation, TopologyError
from watersmeet.functions import Function
from watersmeet.io.databases import TableTarget
from watersmeet.io.formats import Format
from watersmeet.io.policies import OnError

RECORD_TYPE = pa.struct(
    [
        ("timestamp", pa.int64()),
        ("headers", HEADERS),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)
"""Of the record as functions see it."""


class ArrowFunctions:
    """The function backend of topologies without JVM: types are Arrow types, read off empty arrays."""

    def source_types(self, origin: Any, given: str) -> tuple[pa.DataType, pa.DataType]:
        """Types of a topic's formats: those that have one Arrow type."""
        if not origin.formats:
            raise TopologyError("A topology without Spark reads topics only.", given=given)
        return _arrow_type(origin.key), _arrow_type(origin.value)

    def value_type(self, function: Function, arguments: Sequence[pa.DataType], role: str) -> pa.DataType:
        """Type of the array that `function` returns."""
        result = function(*(pa.array([], type=kind) for kind in arguments))
        return _checked(result, role).type

    def milliseconds(self, function: Function, arguments: Sequence[pa.DataType], role: str) -> Function:
        """The function itself, where it gives milliseconds."""
        kind = self.value_type(function, arguments, role)
        if not pt.is_int64(kind):
            raise FunctionError(f"The {role} gives no milliseconds.", given=str(kind))
        return function

    def headers(self, function: Function, arguments: Sequence[pa.DataType], role: str) -> Function:
        """The function itself."""
        return function

    def pair_type(
        self, function: Function, arguments: Sequence[pa.DataType], role: str
    ) -> tuple[pa.DataType, pa.DataType]:
        """Types of the pair of arrays that `function` returns."""
        key, value = function(*(pa.array([], type=kind) for kind in arguments))
        return _checked(key, role).type, _checked(value, role).type

    def element_type(self, function: Function, arguments: Sequence[pa.DataType], role: str) -> pa.DataType:
        """Element type of the list array that `function` returns."""
        kind = self.value_type(function, arguments, role)
        if not pt.is_list(kind):
            raise FunctionError(f"The {role} returns no list array.", given=str(kind))
        return kind.value_type

    def plain(self, function: Function, returns: Any, role: str, *, pair: bool = False) -> Function:
        """A plain function as one of arrays; none gives a pair here."""
        call = PlainCall(function, self.named_type(returns), role)
        return lambda *arrays: call.values(arrays).field(0)

    def element_pair(self, element: pa.DataType, role: str) -> tuple[pa.DataType, pa.DataType]:
        """Types of the two fields of the elements."""
        if not pt.is_struct(element) or element.num_fields != 2:
            raise FunctionError(f"The {role} returns no structs of a key and a value.", given=str(element))
        return element.field(0).type, element.field(1).type

    def where_they_run(self, physical: Any) -> Sequence[str]:
        """All functions run here."""
        return ()

    def separate_lookups(self, physical: Any) -> frozenset[str]:
        """All functions run here."""
        return frozenset()

    def check_on_error(self, physical: Any) -> None:
        """All functions can be."""

    def check_predicate(self, function: Function, arguments: Sequence[pa.DataType], role: str) -> None:
        """Raise unless `function` returns a boolean array."""
        kind = self.value_type(function, arguments, role)
        if not pt.is_boolean(kind):
            raise FunctionError(f"The {role} returns no boolean array.", given=str(kind))

    def chosen_topic(
        self, function: Function, arguments: Sequence[pa.DataType], topics: Sequence[str]
    ) -> Mapping[str, Function]:
        """See `FunctionBackend`; a name that is none of them chooses nothing here."""
        return {topic: lambda *arrays, topic=topic: pc.equal(function(*arrays), topic) for topic in topics}

    def combined_type(self, prefix: pa.DataType, suffix: pa.DataType) -> pa.DataType:
        """A struct of `prefix` and `suffix`."""
        return pa.struct([("prefix", prefix), ("suffix", suffix)])

    def combined_parts(self, key: pa.Array) -> tuple[pa.Array, pa.Array]:
        """(prefix, suffix) of a combined key."""
        return pc.struct_field(key, "prefix"), pc.struct_field(key, "suffix")

    def record(self, key: pa.Array, parts: Mapping[str, pa.Array | None]) -> pa.Array:
        """A struct array."""
        arrays = [pa.repeat(True, len(key)) if part is None else part for part in parts.values()]
        whole = [part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part for part in arrays]
        return pa.StructArray.from_arrays(whole, names=list(parts))

    def record_type(self) -> pa.DataType:
        """See `FunctionBackend`."""
        return RECORD_TYPE

    def windowed_type(self, key: pa.DataType) -> pa.DataType:
        """A struct of `key`, `start` and `end`."""
        return pa.struct([("key", key), ("start", pa.int64()), ("end", pa.int64())])

    def key_of_windowed(self, kind: pa.DataType) -> pa.DataType:
        """Type of the field `key`."""
        return kind.field("key").type

    def window_type(self) -> pa.DataType:
        """A struct of `start` and `end`."""
        return pa.struct([("start", pa.int64()), ("end", pa.int64())])

    def windowed_parts(self, key: pa.Array) -> tuple[pa.Array, pa.Array]:
        """(key, struct of start and end)."""
        ends = {name: self.field(key, name) for name in ("start", "end")}
        return self.field(key, "key"), self.record(key, ends)

    def field(self, record: pa.Array, name: str) -> pa.Array:
        """A field of structs."""
        return pc.struct_field(record, name)

    def where_null(self, operand: pa.Array, value: pa.Array, default: pa.Array | None = None) -> pa.Array:
        """See `FunctionBackend`."""
        return pc.if_else(pc.is_null(operand), value, pa.nulls(len(value), value.type) if default is None else default)

    def initial(self, initializer: Function, kind: pa.DataType | None = None) -> tuple[pa.DataType, Any]:
        """See `FunctionBackend`; a scalar of Arrow, or a plain value."""
        given = initializer()
        if isinstance(given, pa.Scalar):
            return given.type, given.as_py(maps_as_pydicts="lossy")
        return typed(given) if kind is None else (kind, of_type(given, kind))

    def compiled(self, function: Function, arguments: Sequence[pa.DataType], role: str) -> Function:
        """The function itself."""
        return function

    def named_type(self, given: Any) -> pa.DataType:
        """An Arrow type, or one of the words that topologies without Spark know."""
        return given if isinstance(given, pa.DataType) else _arrow_type(Format(given))

    def as_arrow(self, kind: pa.DataType) -> pa.DataType:
        """The type itself."""
        return kind

    def of_arrow(self, kind: pa.DataType) -> pa.DataType:
        """The type itself."""
        return kind

    def written_as(self, form: Format | None, kind: pa.DataType) -> str:
        """The type; nothing is written."""
        return str(kind)

    def check_written(self, form: Format, kind: pa.DataType, what: str) -> None:
        """Nothing is written."""

    def check_columns(self, table: TableTarget, key: pa.DataType, value: pa.DataType) -> None:
        """See `FunctionBackend`."""
        columns_of(table, key, value)


def arrow_builder(
    application_id: str, *, generation: str | Generation = Generation.CURRENT, on_error: OnError = "fail"
) -> StreamsBuilder:
    """A StreamsBuilder whose functions take and return Arrow arrays."""
    return StreamsBuilder(application_id, generation=generation, on_error=on_error, _functions=ArrowFunctions())


def _checked(result: Any, role: str) -> pa.Array | pa.ChunkedArray:
    if not isinstance(result, pa.Array | pa.ChunkedArray):
        raise FunctionError(f"The {role} returns no Arrow array.", given=type(result).__name__)
    return result


def _arrow_type(form: Any) -> pa.DataType:
    if isinstance(getattr(form, "schema", None), pa.DataType):
        return form.schema
    if hasattr(form, "precision"):
        return pa.decimal128(form.precision, form.scale)
    kinds = {"string": pa.string(), "bytes": pa.binary(), "short": pa.int16(), "int": pa.int32(), "long": pa.int64()}
    kinds |= {"float": pa.float32(), "double": pa.float64()}
    kind = kinds.get(getattr(form, "kind", ""))
    if kind is None:
        raise TopologyError("A topology without Spark knows no such format.", given=repr(form))
    return kind
