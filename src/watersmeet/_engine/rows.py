"""The columns of the engine's frames, and how they are read without copies.

A frame is an Arrow table with metadata columns of fixed names. Every operator, the exchange and the
runners use these names and nothing else to speak of position, time and key.

    order_ts, srcpart, offset, p0..pN   position (law 2): running maximum of ts; source number * 2^32 +
                                        partition; offset; emission path
    v0..vN                              position from which lookups see the change, where it differs
    stored_ts                           timestamp that lookups see, where it differs
    silent                              true for a row that only says what lookups see (`Operator.emits`)
    ts, hash, key                       event time in ms, hash of the key, key
    value, old                          of a plain row
    left, right, joined                 of a join's result: what the joiner gets, and whether it is called
    old_left, old_right, old_joined     the same for the old result
    headers                             of the record that caused the row
    held_key                            turn and serialized key that the row was held back under, where time let it
                                        go; a frame without such rows need not have it
    shard                               of rows of several shards, which they are of; those of one shard come together
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from decimal import Context, Decimal, Inexact, InvalidOperation
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet._plan.folds import Step
from watersmeet.errors import FunctionError, SourceError

# The numpy arrays of the engine, by the type of their elements, and how they are sorted.

Int64s = npt.NDArray[np.int64]
UInt64s = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
_MOST = 2**63


def stable_order(numbers: Int64s) -> Int64s:
    """`argsort`, stable: numpy's stable sort merges sorted stretches fast, its unstable one all else."""
    count = len(numbers)
    if count < 1024 or np.count_nonzero(numbers[1:] < numbers[:-1]) <= 64:
        return np.argsort(numbers, kind="stable")
    order = np.argsort(numbers)
    ordered = numbers[order]
    fresh = np.ones(count, dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    if fresh.all():
        return order
    rank = np.cumsum(fresh) * count + order
    rank.sort()
    return rank % count


def order_of(columns: Sequence[Int64s]) -> Int64s:
    """Row numbers in ascending order of these columns, the most significant first; stable.

    One number is sorted faster than several columns are, and it mostly has room for all of them, if need be for ranks
    in place of the values that lie furthest apart: hashes, numbers of sources.
    """
    if len(columns) == 1 or not len(columns[0]):
        return stable_order(columns[0])
    lows = [int(column.min()) for column in columns]
    spans = [int(column.max()) - low + 1 for column, low in zip(columns, lows, strict=True)]
    parts = list(columns)
    for at in sorted(range(len(columns)), key=lambda at: -spans[at]):
        if math.prod(spans) < _MOST:
            break
        parts[at], lows[at] = _ranks(columns[at]), 0
        spans[at] = int(parts[at].max()) + 1
    if math.prod(spans) >= _MOST:
        return np.lexsort(tuple(reversed(columns)))
    number = parts[0] - lows[0]
    for part, low, span in zip(parts[1:], lows[1:], spans[1:], strict=True):
        number = number * span + (part - low)
    return stable_order(number)


def _ranks(numbers: Int64s) -> Int64s:
    """The place of each number among the different ones."""
    order = stable_order(numbers)
    ranks = np.empty(len(numbers), dtype=np.int64)
    ranks[order] = np.cumsum(np.diff(numbers[order], prepend=numbers[order[:1]]) != 0)
    return ranks


ROOT_POSITION = ("order_ts", "srcpart", "offset")
PARTITION_BITS = 32
ARRAY_BYTES = 1 << 30
"""Of one array, at most: Arrow's offsets end at twice as many. What has more stays in chunks."""
LET_GO = 2**62
"""Results that time lets go have the position of the record that moved time, and as the first number of the path the
time of the sources that operators see at them, less this: so they stand directly before that record's own results.
"""
AT_LAST = 2**61
"""order_ts of the moment that the wall clock tells: behind all records of its batch."""
AT_FIRST = -(2**61)
"""order_ts of the moment at which a batch is told what the wall clock shows: before all records that time knows of."""
SHARD = "shard"
HELD_KEY = "held_key"
"""What follows in the place of such results: their turn, and the key that they were held back under, whatever key they
get later."""


def path_columns(slots: int) -> tuple[str, ...]:
    return tuple(f"p{slot}" for slot in range(slots))


def visible_columns(slots: int) -> tuple[str, ...]:
    """Names of the columns that say from where lookups see a change."""
    return tuple(f"v{slot}" for slot in range(slots))


def position_columns(slots: int) -> tuple[str, ...]:
    """Names of all columns of a position, in order of significance."""
    return ROOT_POSITION + path_columns(slots)


def stacked(tables: Sequence[pa.Table]) -> pa.Table:
    """The rows of all tables; what some of them lack (`held_key`) is null there."""
    return pa.concat_tables(tables, promote_options="default")


def without(table: pa.Table, rows: Iterable[int]) -> pa.Table:
    mask = np.ones(len(table), dtype=np.bool_)
    mask[list(rows)] = False
    return table.filter(pa.array(mask))


def held_keys(table: pa.Table) -> pa.Array | None:
    """The column of that name; None where no row has been held back."""
    if HELD_KEY not in table.column_names:
        return None
    keys = array(table, HELD_KEY)
    return keys if keys.null_count < len(keys) else None


def partitions(position: Sequence[Int64s]) -> Int64s:
    """Partition of the source record of each row, by its position.

    Of results that time let go, where a partition has a time of its own, the second path slot says which one it was,
    beside the operator (`waiting_rows.in_order`): the wall clock's moment is in none.
    """
    numbers = position[1]
    if len(position) > len(ROOT_POSITION) + 1:
        numbers = np.where(let_go(position), position[len(ROOT_POSITION) + 1], numbers)
    return numbers & ((1 << PARTITION_BITS) - 1)


def let_go(position: Sequence[Int64s]) -> Bools:
    return np.asarray(position[len(ROOT_POSITION)] < 0)


def array(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    """A column as one contiguous array."""
    column = table.column(name)
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def array_of(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    combined = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return combined if combined.type == kind else combined.cast(kind)


def ints(table: pa.Table | pa.RecordBatch, name: str) -> Int64s:
    """A 64-bit integer column without nulls."""
    values: Int64s = array(table, name).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values


def bools(table: pa.Table | pa.RecordBatch, name: str) -> Bools:
    """A boolean column; null counts as false."""
    flags: Bools = array(table, name).fill_null(False).to_numpy(zero_copy_only=False)
    return flags


def valid(values: pa.Array | pa.ChunkedArray) -> Bools:
    """True where there is a value."""
    if values.null_count == 0:
        return np.ones(len(values), dtype=np.bool_)
    flags: Bools = values.is_valid().to_numpy(zero_copy_only=False)
    return flags


def gather(values: pa.Array | pa.ChunkedArray, pointers: Int64s) -> pa.Array:
    """`values[pointers]`; a pointer of -1 gives null. The result must fit into one array (`sizes`)."""
    if isinstance(values, pa.ChunkedArray) and values.num_chunks > 1 and values.nbytes > ARRAY_BYTES:
        return _gather_by_chunks(values, pointers)
    missing = pointers < 0
    indices = pa.array(pointers, mask=missing) if missing.any() else pa.array(pointers)
    result = values.take(indices)
    return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result


def gather_fields(values: pa.Array | pa.ChunkedArray, fields: Sequence[int], pointers: Int64s) -> pa.Array:
    """The same of structs of which these fields alone are read, by number: the others are null."""
    kind = values.type
    missing = pointers < 0
    if values.null_count:
        missing |= ~np.append(valid(values), False)[pointers]
    children = [
        gather(field(values, at), pointers) if at in fields else pa.nulls(len(pointers), kind.field(at).type)
        for at in range(kind.num_fields)
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=pa.array(missing) if missing.any() else None)


def field(values: pa.Array | pa.ChunkedArray, number: int) -> pa.Array | pa.ChunkedArray:
    """A field of structs as it lies in memory: where the struct is null it may be anything."""
    if isinstance(values, pa.ChunkedArray):
        kind = values.type.field(number).type
        return pa.chunked_array([chunk.field(number) for chunk in values.chunks], kind)
    return values.field(number)


def _gather_by_chunks(values: pa.ChunkedArray, pointers: Int64s) -> pa.Array:
    """The same without all values in one array."""
    order = np.argsort(pointers, kind="stable")
    ordered = pointers[order]
    starts = np.cumsum([0, *map(len, values.chunks)])
    edges = ordered.searchsorted(starts)
    parts = [pa.nulls(int(edges[0]), values.type)]
    for chunk, start, first, end in zip(values.chunks, starts[:-1], edges[:-1], edges[1:], strict=True):
        if first < end:
            parts.append(chunk.take(pa.array(ordered[first:end] - start)))
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_arrays(parts).take(pa.array(back))


def joined(parts: list[pa.Array | pa.ChunkedArray], kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """The parts behind one another, of type `kind`; in chunks where they are too large for one array."""
    chunks = [c.cast(kind) if c.type != kind else c for part in parts for c in _columns_chunks(part) if len(c)]
    if len(chunks) == 1:
        return chunks[0]
    if sum(chunk.nbytes for chunk in chunks) > ARRAY_BYTES:
        return pa.chunked_array(chunks, kind)
    return pa.concat_arrays(chunks) if chunks else pa.array([], type=kind)


def held_together(parts: Sequence[pa.Array | None], counts: Sequence[int]) -> pa.Array | pa.ChunkedArray | None:
    """The `held_keys` of several tables behind one another, null in those that have none; None where all have none."""
    if all(part is None for part in parts):
        return None
    filled = [pa.nulls(n, pa.binary()) if part is None else part for part, n in zip(parts, counts, strict=True)]
    return joined(filled, pa.binary())


def _columns_chunks(part: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return list(part.chunks) if isinstance(part, pa.ChunkedArray) else [part]


# Arrow's values as plain Python functions see them, and what they give as it is read back.
#
# A fold meets an aggregate as it was given while a batch lasts, and as it was read back in the next one. So what a
# function gives is at once what it would be read back as (law 1): structs and maps are dictionaries, arrays are lists,
# numbers are those of their type, times are in UTC.
#
# Compiled folds, which no user's function sees, have plainer values (`tree.plain`).

Kept = Callable[[Any], Any]
NOT_OF = "A plain Python function returned a value that is not of the aggregate's type."
WITH_ZONE = "a time needs its zone: datetime(2026, 1, 31, tzinfo=timezone.utc)"
WITHOUT_ZONE = "a time without a zone is wanted: moment.replace(tzinfo=None)"


def python_values(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values as Python has them: maps are dictionaries, nested ones, too."""
    # as Spark collects them: of a key that stands twice the last one
    objects: list[Any] = values.to_pylist(maps_as_pydicts="lossy")
    return objects


def keeping(step: Step | None, kind: pa.DataType) -> Step | None:
    """The step; if it is of a plain function, one that gives what would be read back of it.

    Parameters
    ----------
    kind : the aggregate's type.
    """
    if step is None or not step.plain:
        return step
    function, convert = step.function, stored_value_of(kind)
    return replace(step, function=lambda *arguments: convert(function(*arguments)))


def stored_value_of(kind: pa.DataType) -> Kept:
    """A function that returns a value as an array of this type would return it."""
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_map(kind):
        return _map(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list(kind)
    of_leaf = next((of_leaf for is_of, of_leaf in _LEAVES if is_of(kind)), _via_arrow)(kind)

    def convert(value: Any) -> Any:
        if value is None:
            return None
        try:
            return of_leaf(value)
        except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
            reason = f"{error}; " if isinstance(error, _Unfit) else ""
            raise not_of(kind, f"{reason}{value_text(value)}") from error

    return convert


class _Unfit(ValueError):
    """A value is not of its type; the text says how it is given."""


def _struct(kind: pa.DataType) -> Kept:
    fields = [(field.name, stored_value_of(field.type)) for field in kind]
    names = {name for name, _ in fields}

    def convert(value: Any) -> Any:
        if value is None:
            return None
        row = value.asDict() if hasattr(value, "asDict") else value  # a Row of Spark's
        if isinstance(row, tuple) and len(row) == len(fields):
            return {name: of(item) for (name, of), item in zip(fields, row, strict=True)}
        if not isinstance(row, dict) or not names.issuperset(row):
            raise not_of(kind, value_text(value))
        return {name: of(row.get(name)) for name, of in fields}

    return convert


def _map(kind: pa.DataType) -> Kept:
    of_key, of_item = stored_value_of(kind.key_type), stored_value_of(kind.item_type)

    def convert(value: Any) -> Any:
        if value is None:
            return None
        try:
            entries = {of_key(key): of_item(item) for key, item in dict(value).items()}
        except (TypeError, ValueError):
            raise not_of(kind, value_text(value)) from None
        if None in entries:
            raise not_of(kind, value_text(value))
        return entries

    return convert


def _list(kind: pa.DataType) -> Kept:
    of_item = stored_value_of(kind.value_type)

    def convert(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, set | frozenset):
            raise not_of(kind, f"a set has no order: return sorted(...); {value_text(value)}")
        if isinstance(value, str | bytes | bytearray | memoryview | dict) or not hasattr(value, "__iter__"):
            raise not_of(kind, value_text(value))
        return [of_item(item) for item in value]

    return convert


def _integer(kind: pa.DataType) -> Kept:
    signed = pa.types.is_signed_integer(kind)
    bits = kind.bit_width - signed
    least, most = -(2**bits) if signed else 0, 2**bits - 1

    def convert(value: Any) -> int:
        if isinstance(value, Decimal) and value.adjusted() > kind.bit_width:
            raise ValueError
        number = value if type(value) is int else int(_number(value))
        if number != value or not least <= number <= most:
            raise ValueError
        return number

    return convert


def _floating(kind: pa.DataType) -> Kept:
    fitted: type = np.float32 if pa.types.is_float32(kind) else float

    def convert(value: Any) -> float:
        if type(value) is float and fitted is float:
            return value
        if isinstance(value, Decimal):
            raise TypeError
        with np.errstate(over="raise"):
            number = float(fitted(_number(value)))
        if isinstance(value, Integral) and number != value:
            raise ValueError
        return number

    return convert


def _decimal(kind: pa.DataType) -> Kept:
    unit, context = Decimal(1).scaleb(-kind.scale), Context(kind.precision, traps=[Inexact, InvalidOperation])

    def convert(value: Any) -> Decimal:
        if not isinstance(value, Decimal | Integral):
            raise TypeError
        number = Decimal(_number(value)).quantize(unit, context=context)
        if not number.is_finite():
            raise ValueError
        return number or abs(number)

    return convert


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise TypeError
    return int(value) if isinstance(value, Integral) else value


def _text(kind: pa.DataType) -> Kept:
    def convert(value: Any) -> str:
        if type(value) is str and value.isascii():
            return value
        if not isinstance(value, str):
            raise TypeError
        # half a surrogate is no text
        return value.encode().decode()

    return convert


def _time(kind: pa.DataType) -> Kept:
    has_zone: bool = kind.tz is not None

    def convert(value: Any) -> Any:
        if not isinstance(value, datetime.datetime) or getattr(value, "nanosecond", None):
            raise TypeError
        if (value.utcoffset() is None) == has_zone:
            raise _Unfit(WITH_ZONE if has_zone else WITHOUT_ZONE)
        return _via_arrow(kind)(value)

    return convert


def _of(target: type, *sources: type, but: type | tuple[type, ...] = ()) -> Callable[[pa.DataType], Kept]:
    """Values of the type `target`, and of others that it can be made of."""

    def of_kind(kind: pa.DataType) -> Kept:
        def convert(value: Any) -> Any:
            if type(value) is target:
                return value
            if not isinstance(value, (target, *sources)) or isinstance(value, but):
                raise TypeError
            return target(value) if sources else _via_arrow(kind)(value)

        return convert

    return of_kind


def _via_arrow(kind: pa.DataType) -> Kept:
    return lambda value: pa.array([value], kind).to_pylist()[0]


_LEAVES: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], Kept]], ...] = (
    (pa.types.is_decimal, _decimal),
    (pa.types.is_integer, _integer),
    (pa.types.is_floating, _floating),
    (pa.types.is_string, _text),
    (pa.types.is_large_string, _text),
    (pa.types.is_binary, _of(bytes, bytearray, memoryview)),
    (pa.types.is_large_binary, _of(bytes, bytearray, memoryview)),
    (pa.types.is_boolean, _of(bool, np.bool_)),
    (pa.types.is_date32, _of(datetime.date, but=datetime.datetime)),
    (pa.types.is_timestamp, _time),
    (pa.types.is_duration, _of(datetime.timedelta)),
)
"""How values of each type without others in it are read back."""


def value_text(value: Any) -> str:
    """A value of a user's in an error: its repr may raise, and may be long."""
    try:
        return f"{value!r:.200}"
    except Exception:
        return f"a {type(value).__name__}"


def not_of(kind: pa.DataType, detail: object) -> FunctionError:
    """The error if a plain function returns a value that is not of the aggregate's type."""
    return FunctionError(
        NOT_OF,
        given=f"{detail}; the type is {kind}",
        hint="wm.python(function, returns=...) declares the type of its result.",
    )


# Order by position (law 2): operators sort, they never trust the order in which blobs arrive.
#
# A position is integers, and of results that time let go also their turn and the serialized key that they were held
# back under, as bytes: where the integers before agree, these are compared. They travel beside the position, since the
# row may have got another key since.

PART_ROWS = 16_384
"""Rows that are handed out at a time."""
CHUNK_BYTES = 1 << 19
"""Smaller batches are put together before rows are taken from each: less than a blob has where rows are many."""
BEFORE_KEY = 4
"""Columns of a position that come before turn and key: order_ts, srcpart, offset, and the time of what time let go."""


def order_by(columns: Sequence[Int64s], keys: pa.Array | None = None) -> Int64s:
    """Row numbers in ascending order of `columns`, the most significant first; stable.

    With `keys` the columns are those of a position, and these turns and keys decide where time let go of several.
    Columns that hold one value everywhere are left out and sorted input is recognised, since both are the
    rule: most topologies have one source partition in a shard's blob, and Kafka's order is kept by tasks.
    """
    rows = len(columns[0])
    varying = [c for c in columns if rows and c.min() != c.max()]
    order = np.arange(rows, dtype=np.int64) if not varying or is_sorted(varying) else order_of(varying)
    return order if keys is None else _by_keys(order, columns, keys)


def _by_keys(order: Int64s, columns: Sequence[Int64s], keys: pa.Array) -> Int64s:
    """`order`, put right where rows that time let go of have all but their keys in common."""
    released = let_go(columns)
    if not released.any():
        return order
    same = released[order[1:]]
    for column in columns[:BEFORE_KEY]:
        same &= column[order[1:]] == column[order[:-1]]
    places = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if not len(places):
        return order
    rows = order[places]
    group = np.cumsum(np.append(True, ~same))[places]
    suffix = [column[rows] for column in reversed(columns[BEFORE_KEY:])]
    order = order.copy()
    order[places] = rows[np.lexsort((*suffix, ranks(keys.take(pa.array(rows))), group))]
    return order


def ranks(keys: pa.Array) -> Int64s:
    """The place of each among the different ones; rows that were not held back have none before them."""
    rank: Int64s = pc.rank(keys.fill_null(b""), sort_keys="ascending", tiebreaker="dense").to_numpy()
    return rank.astype(np.int64)


def position_tuples(columns: Sequence[Int64s], turn_keys: pa.Array | None) -> list[tuple[int | bytes, ...]]:
    """Positions as tuples in the order of `order_by`."""
    keys = [b""] * len(columns[0]) if turn_keys is None else turn_keys.fill_null(b"").to_pylist()
    prefix, suffix = columns[:BEFORE_KEY], columns[BEFORE_KEY:]
    parts = [*(c.tolist() for c in prefix), keys, *(c.tolist() for c in suffix)]
    return list(zip(*parts, strict=True))


def is_sorted(columns: Sequence[Int64s]) -> bool:
    """Whether rows are in ascending order of `columns`, equal ones allowed."""
    undecided = np.ones(max(len(columns[0]) - 1, 0), dtype=np.bool_)
    for column in columns:  # the most significant first, until nothing is undecided
        previous, following = column[:-1], column[1:]
        if (undecided & (previous > following)).any():
            return False
        undecided &= previous == following
        if not undecided.any():
            return True
    return True


def sort_by_position(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows of `table` in order of the position columns `names`."""
    order = order_by([ints(table, name) for name in names], held_keys(table))
    return table if is_sorted([order]) else table.take(pa.array(order))


def parts_by_position(table: pa.Table, names: Sequence[str], columns: Container[str]) -> Iterator[pa.Table]:
    """The same in parts of at most `PART_ROWS` rows, shard by shard; of the columns, those that are `columns`.

    Each part is taken when it is asked for, so that it gets the memory of the one before. The rows do not lie twice in
    memory (law 9): they are taken from where they lie, and small batches alone are put together.
    """
    order = order_by([ints(table, name) for name in names], held_keys(table))
    if SHARD in table.column_names:
        order = order[np.argsort(ints(table, SHARD)[order], kind="stable")]
    straight = is_sorted([order])
    batches = table.select([name for name in table.column_names if name in columns]).to_batches()
    del table
    chunks = list(_position_chunks(batches))
    starts = np.cumsum([0, *map(len, chunks)])
    combined = pa.Table.from_batches(chunks) if straight and chunks else None
    for start in range(0, len(order), PART_ROWS):
        if combined is not None:
            yield combined.slice(start, PART_ROWS)
        else:
            yield _take_rows(chunks, starts, order[start : start + PART_ROWS])


def _position_chunks(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in batches of `CHUNK_BYTES` or more; the list is used up."""
    batches.reverse()
    buffer: list[pa.RecordBatch] = []
    size = 0
    while batches:
        buffer.append(batches.pop())
        size += buffer[-1].nbytes
        if size >= CHUNK_BYTES or not batches:
            yield from pa.Table.from_batches(buffer).combine_chunks().to_batches()
            buffer, size = [], 0


def _take_rows(chunks: Sequence[pa.RecordBatch], starts: Int64s, rows: Int64s) -> pa.Table:
    """Rows of these chunks in the order given: first chunk by chunk, and then the few of them in their order."""
    number = (starts.searchsorted(rows, side="right") - 1).astype(np.uint16)
    by_chunk = np.argsort(number, kind="stable")
    ends = np.cumsum(np.bincount(number, minlength=len(chunks)))
    parts = []
    for chunk, start, first, end in zip(chunks, starts, [0, *ends], ends, strict=False):
        if first < end:
            parts.append(chunk.take(pa.array(rows[by_chunk[first:end]] - start)))
    if len(parts) == 1:
        return pa.Table.from_batches(parts)
    back = np.empty(len(rows), dtype=np.int64)
    back[by_chunk] = np.arange(len(rows))
    return pa.Table.from_batches(parts).combine_chunks().take(pa.array(back))


def merged(stream: Iterator[pa.Table], peer: Iterator[pa.Table], names: Sequence[str]) -> Iterator[pa.Table]:
    """Two streams of tables, each in order of position, as one; no more than a table of each is held."""
    sides = [filter(len, stream), filter(len, peer)]
    heads = [next(side, None) for side in sides]
    while heads[0] is not None and heads[1] is not None:
        first, rows = len(heads[0]), stacked(heads).combine_chunks()
        order = order_by([ints(rows, name) for name in names], held_keys(rows))
        ends = [int(np.flatnonzero(order == last)[0]) for last in (first - 1, len(rows) - 1)]
        # All rows before the end of one table have come; what is left belongs to the other.
        done, left = (0, 1) if ends[0] < ends[1] else (1, 0)
        yield rows.take(pa.array(order[: ends[done] + 1]))
        heads[left] = rows.take(pa.array(order[ends[done] + 1 :]))
        heads[done] = next(sides[done], None)
    for side, table in zip(sides, heads, strict=True):
        if table is not None:
            yield table
        yield from side


# Topics of a pattern in positions: the number of a topic stands beside that of its partition.
#
# A topology does not know which topics its pattern matches; a checkpoint numbers them in the order in which they join
# (`_spark/checkpoint/pattern_topics.py`). In a position (law 2) the partition of such a record is the number of its
# topic and that of its partition, so records of two topics never have one position, and a mark tells it from others.

TOPIC = "topic"
"""The column of a source stage that has the topics' names, where an input has a pattern."""
MOST_PARTITIONS = 1 << 16
"""Of one topic of a pattern."""
MOST_TOPICS = 1 << 15
"""That one pattern may match, in the life of a checkpoint."""
_OF_PATTERN = 1 << (PARTITION_BITS - 1)
Topics = Mapping[int, Sequence[str]]
"""By the number of a source its topics, in the order of their numbers."""
TOPICS: ContextVar[Topics] = ContextVar("watersmeet.topics", default={})  # noqa: B039  nobody changes it
"""Those that are known to this task."""


def pattern_partition(topic: int, partition: int = 0) -> int:
    return _OF_PATTERN | topic * MOST_PARTITIONS | partition


def with_topics(frame: pa.Table, sources: Sequence[int]) -> pa.Table:
    """A source stage's frame with the partitions of positions; `sources`: numbers of those with a pattern."""
    if not sources:
        return frame
    root, partition, names = ints(frame, "root"), np.array(ints(frame, "partition")), array(frame, TOPIC)
    for source in sources:
        rows = np.flatnonzero(root == source)
        if len(rows):
            partition[rows] = _numbers(names.take(pa.array(rows)), source) | partition[rows]
    at = frame.schema.get_field_index("partition")
    return frame.set_column(at, "partition", pa.array(partition)).drop_columns([TOPIC])


def _numbers(names: pa.Array, source: int) -> Int64s:
    topics = pa.array(TOPICS.get().get(source, ()), pa.string())
    indices = pc.index_in(names.cast(pa.string()), value_set=topics)
    if indices.null_count:
        topic = names.filter(indices.is_null())[0].as_py()
        raise SourceError(
            f"The batch has a record of the topic {topic!r}, which is not among the topics that it was planned with.",
            hint="Start the query again. If that does not help, this is a fault of watersmeet's: please report it.",
        )
    numbers: Int64s = indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers * MOST_PARTITIONS | _OF_PATTERN


def record_place(frame: pa.Table, row: int) -> str:
    """The topic, if an input has a pattern, the partition and the offset of a row's record, as an error says them."""
    if "srcpart" in frame.column_names:
        topic, partition = place_of(frame.column("srcpart")[row].as_py())
    else:
        topic = frame.column(TOPIC)[row].as_py() if TOPIC in frame.column_names else None
        partition = place_of(frame.column("partition")[row].as_py())[1]
    prefix = "" if topic is None else f"topic {topic}, "
    return f"{prefix}partition {partition}, offset {frame.column('offset')[row].as_py()}"


def place_of(srcpart: int) -> tuple[str | None, int]:
    """The topic, if a pattern has it, and the partition of a position's column `srcpart`."""
    partition = srcpart & ((1 << PARTITION_BITS) - 1)
    if not partition & _OF_PATTERN:
        return None, partition
    topics, number = TOPICS.get().get(srcpart >> PARTITION_BITS, ()), (partition ^ _OF_PATTERN) // MOST_PARTITIONS
    return topics[number] if number < len(topics) else None, partition % MOST_PARTITIONS


# Plain values with which aggregates begin: of the type that is said, or of the one that they show.


def of_type(value: Any, kind: pa.DataType) -> Any:
    """The value as it is read back from an array of this type."""
    try:
        return stored_value_of(kind)(value)
    except FunctionError as error:
        raise FunctionError(
            "The initializer's value is not of the aggregate's type.",
            given=error.given,
            hint="Return a value of that type; or name the type in the aggregator: wm.python(function, returns=...).",
        ) from None


def typed(value: Any) -> tuple[pa.DataType, Any]:
    """(type, value) of a plain value: a dictionary is a struct, a list an array, and ints are longs."""
    try:
        kind = pa.scalar(value).type
    except pa.ArrowException as error:
        raise unknown_type(f"{value!r}: {error}") from error
    if _is_empty(kind):
        raise unknown_type(repr(value))
    return kind, of_type(value, kind)


def is_known(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return is_known(kind.key_type) and is_known(kind.item_type)
    return not pa.types.is_null(kind) and all(is_known(kind.field(n).type) for n in range(kind.num_fields))


def unknown_type(detail: str) -> FunctionError:
    """The error if nothing gives the type of an aggregate."""
    return FunctionError(
        "The initializer's value does not say the type of the aggregate.",
        given=detail,
        hint="Name it in the aggregator: wm.python(function, returns='map<string, long>'), 'array<string>', "
        "'struct<n: long>'; or give a Column of the type: F.array().cast('array<string>').",
    )


def _is_empty(kind: pa.DataType) -> bool:
    """Whether there is a struct without fields in a type: an empty dictionary, which may be a map."""
    if pa.types.is_struct(kind) and not kind.num_fields:
        return True
    return any(_is_empty(kind.field(n).type) for n in range(kind.num_fields))


# Columns of numbers as differences in as few bytes as hold them: the form of many times that go to every shard.
#
# In an orderly stream there is a moment to tell for every millisecond that has a record; this way one takes about two
# bytes. They are read only where they are asked for.

_WIDTHS = (np.int8, np.int16, np.int32, np.int64)


def as_differences(columns: Mapping[str, Int64s]) -> dict[str, pa.Array]:
    """Columns of one row for these columns of many: of each the first value and the differences."""
    out: dict[str, pa.Array] = {}
    for name, values in columns.items():
        out[f"{name}_first"] = pa.array(values[:1])
        out[f"{name}_steps"] = pa.array([_narrow(np.diff(values)).tobytes()], pa.binary())
    return out


def of_differences(rows: pa.Table, name: str, count: Int64s) -> Int64s:
    """A column of many, of each row `count` values."""
    firsts, steps = ints(rows, f"{name}_first"), array(rows, f"{name}_steps")
    parts = [np.zeros(0, dtype=np.int64)]
    for first, length, differences in zip(firsts, count, steps, strict=True):
        content = differences.as_buffer()
        values = np.full(length, first)
        if content.size:
            kind = next(t for t in _WIDTHS if np.dtype(t).itemsize * (length - 1) == content.size)
            values[1:] += np.cumsum(np.frombuffer(content, dtype=kind), dtype=np.int64)
        parts.append(values)
    return np.concatenate(parts)


def _narrow(values: Int64s) -> np.ndarray[tuple[int], np.dtype[np.signedinteger]]:
    """The values in the smallest type that holds them; none at all where every one is 0."""
    if not values.any():
        return np.zeros(0, dtype=np.int8)
    kind = next(t for t in _WIDTHS if np.iinfo(t).min <= values.min() and values.max() <= np.iinfo(t).max)
    return values.astype(kind)


# Rows for which something raises, found where it is done for many rows at once.


def reachable(starts: Int64s, following: Int64s) -> Bools:
    """Which rows are reached from these by following pointers; the number of rows points nowhere.

    Each turn doubles how far is jumped, so there are as many turns as the longest chain has doublings.
    """
    count = len(following)
    jump = np.append(following, count)
    reached = np.zeros(count + 1, dtype=np.bool_)
    reached[starts] = True
    while (following_rows := jump[np.flatnonzero(reached)]).min(initial=count) < count:
        reached[following_rows] = True
        jump = jump[jump]
    return reached[:count]


T = TypeVar("T")
E = TypeVar("E", bound=Exception)


def outcomes(step: Callable[[int, int], T], count: int, *kinds: type[E]) -> Iterator[tuple[int, T | E]]:
    """The results of a step for spans of rows, or its error for a single one, and the first bad row, in order of rows.

    It is asked for all, and where it raises for halves, so that few rows that raise cost few calls.

    Parameters
    ----------
    step : does it for the rows from the first number on, up to the second.
    count : how many rows there are.
    kinds : of errors; any other is raised.
    """
    spans = [(0, count)] if count else []
    while spans:
        start, end = spans.pop()
        outcome: T | E
        try:
            outcome = step(start, end)
        except kinds as error:
            if end - start > 1:
                middle = (start + end) // 2
                spans += [(middle, end), (start, middle)]
                continue
            outcome = error
        yield start, outcome


def failing(step: Callable[[int, int], object], count: int, kind: type[E]) -> dict[int, E]:
    """The rows for which an error of a kind is raised, and the error; see `outcomes`."""
    return {row: outcome for row, outcome in outcomes(step, count, kind) if isinstance(outcome, kind)}


# Arrow's types, as the engine has them.

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def with_nulls(kind: pa.DataType) -> pa.DataType:
    """The type with all its fields, elements and values nullable, and timestamps in UTC.

    So tables of one topology go together, whatever expressions and sessions they come from.
    """
    if pa.types.is_struct(kind):
        return pa.struct([member.with_type(with_nulls(member.type)).with_nullable(True) for member in kind])
    if pa.types.is_list(kind):
        element = kind.value_field
        return pa.list_(element.with_type(with_nulls(element.type)).with_nullable(True))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, kind.item_field.with_type(with_nulls(kind.item_type)).with_nullable(True))
    return pa.timestamp(kind.unit, tz="UTC") if pa.types.is_timestamp(kind) and kind.tz else kind
