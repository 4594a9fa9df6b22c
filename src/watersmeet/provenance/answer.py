"""The answer of `Topology.why`: a row, the records that it comes from, and what the journal does not know."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from pyspark.sql.types import BinaryType, DataType, StructType

from watersmeet._engine.rows.columns import array
from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node
from watersmeet._plan.pictures.mermaid import mermaid
from watersmeet._plan.pictures.picture import Arrow, Box, Picture
from watersmeet._plan.pictures.svg import svg
from watersmeet._worker.formats.json_encode import encoded
from watersmeet.provenance.causes import Cause
from watersmeet.provenance.records import InputRecord
from watersmeet.testing.values import arrow_rows

_SHOWN = 120
_ROLES = {
    "made": "made it",
    "time": "moved time for it",
    "replaced": "has no part in it any more",
    "dropped": "was dropped",
    "may": "may have a part in it",
}


@dataclass(frozen=True)
class Why:
    """The row of a key in a table, and the input records that it comes from; `print` shows it as a tree.

    Parameters
    ----------
    table : name of the table.
    key : the key.
    batch : the batch that has left the row so.
    rows : what the table has of the key: value and timestamp, and the window where it has windows. Empty: nothing.
    causes : the records, in the order in which the query has processed them.
    since_batch : the first batch of the journal.
    since_ms : when that batch was written, in ms since 1970.
    notes : what the journal does not know about the row; empty where it knows all.
    schema : the columns of the table.
    """

    table: str
    key: Any
    batch: int
    rows: tuple[Mapping[str, Any], ...]
    causes: tuple[Cause, ...]
    since_batch: int
    since_ms: int
    notes: tuple[str, ...]
    schema: StructType
    _plan: Plan
    _node: str

    @property
    def records(self) -> tuple[InputRecord, ...]:
        """The records without which the row would be another one."""
        return tuple(each.record for each in self.causes if each.role in ("made", "time", "may"))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.table} {_short(self._key)}, batch {self.batch}"
        for row in self._rows or ("nothing",):
            yield f"  = {_short(row)}"
        yield from _drawn([self._branch(self._node)], "")
        yield from (f"Note: {note}" for note in self.notes)

    def as_json(self) -> str:
        """The answer as JSON; rows, keys and values are written as topics and served tables have them."""
        said = {
            "table": json.dumps(self.table),
            "key": self._key,
            "batch": str(self.batch),
            "rows": f"[{', '.join(self._rows)}]",
            "causes": f"[{', '.join(map(self._cause, self.causes))}]",
            "journal_since": json.dumps({"batch": self.since_batch, "ms": self.since_ms}),
            "notes": json.dumps(self.notes),
        }
        return _object(said)

    def as_dict(self) -> dict[str, Any]:
        """The same as values of Python."""
        found: dict[str, Any] = json.loads(self.as_json())
        return found

    @cached_property
    def _key(self) -> str:
        (text,) = json_texts(self.schema["key"].dataType, [self.key])
        return text

    @cached_property
    def _rows(self) -> tuple[str, ...]:
        fields = [field for field in self.schema.fields if field.name != "key"]
        given = [tuple(row.get(field.name) for field in fields) for row in self.rows]
        return tuple(json_texts(StructType(fields), given))

    @cached_property
    def _pairs(self) -> Mapping[str, tuple[str, str]]:
        """The JSON of the key and the value of each record, by its place."""
        given = [each for cause in self.causes for each in (cause.record, cause.waited_for) if each is not None]
        found: dict[str, tuple[str, str]] = {}
        for source in self._plan.sources:
            mine = [record for record in given if record.input == source.input]
            keys = json_texts(source.shape.key, [record.key for record in mine])
            values = json_texts(source.shape.value, [record.value for record in mine])
            found |= {record.place: pair for record, *pair in zip(mine, keys, values, strict=True)}  # type: ignore[misc]
        return found

    def _cause(self, cause: Cause) -> str:
        waited = "null" if cause.waited_for is None else self._record(cause.waited_for, {})
        drops = [{"operator": operator, "reason": reason} for operator, reason in cause.drops]
        said = {"role": json.dumps(cause.role), "drops": json.dumps(drops), "waited_for": waited}
        return self._record(cause.record, said)

    def _record(self, record: InputRecord, more: Mapping[str, str]) -> str:
        plain = {name: json.dumps(each) for name, each in vars(record).items() if name not in ("key", "value")}
        key, value = self._pairs[record.place]
        return _object({**plain, "place": json.dumps(record.place), "key": key, "value": value, **more})

    def _pair(self, record: InputRecord) -> str:
        return ": ".join(map(_short, self._pairs[record.place]))

    def to_mermaid(self) -> str:
        """The answer as a Mermaid flowchart: records, the operators behind them, and the row."""
        return mermaid(self._picture())

    def to_svg(self) -> str:
        """The answer as a picture: the text of an SVG file."""
        return svg(self._picture())

    def _repr_html_(self) -> str:
        return f'<div style="overflow:auto">{self.to_svg()}</div>'

    def _picture(self) -> Picture:
        shown = [f"{self._pair(c.record)}; {_role(c)}"[:_SHOWN] for c in self.causes]
        records = zip(self.causes, shown, strict=True)
        boxes = [Box(cause.record.place, "input", about, "") for cause, about in records]
        arrows, number = list[Arrow](), dict[str, int]()
        for node in self._nodes():
            number[node.name] = len(boxes)
            mine = [at for at, each in enumerate(self.causes) if not node.inputs and each.record.input == _input(node)]
            tails = [*(number[name] for name in node.inputs if name in number), *mine]
            arrows += [Arrow(tail, len(boxes)) for tail in tails]
            boxes.append(Box(node.name, "operator" if node.inputs else "step", node.stem.replace("_", " "), ""))
        about = "; ".join(map(_short, self._rows)) or "nothing"
        title = f"{self.table} {_short(self._key)}"
        arrows.append(Arrow(number[self._node], len(boxes)))
        boxes.append(Box(title, "output", about[:_SHOWN], ""))
        return Picture(f"Why {title}", tuple(boxes), tuple(arrows), (None,) * len(boxes))

    def _nodes(self) -> list[Node]:
        """The nodes that lead to the table, without inputs of which no record is shown."""
        inputs, wanted = {each.record.input for each in self.causes}, {self._node}
        for node in reversed(self._plan.nodes):
            if node.name in wanted:
                wanted.update(node.inputs)
        return [node for node in self._plan.nodes if node.name in wanted and (node.inputs or _input(node) in inputs)]

    def _branch(self, name: str) -> _Branch:
        """A node, and below it the nodes that it reads, down to the records; ways without records are left out."""
        plan, node = self._plan, self._plan.by_name[name]
        if not node.inputs:
            mine = (cause for cause in self.causes if cause.record.input == _input(node))
            return _Branch(name, tuple(_Branch(self._line(cause)) for cause in mine))
        inputs = {cause.record.input for cause in self.causes}
        # the old and the new half of a change come by the same way
        ways = {(plan.by_name[each].stem, plan.ancestors[each]): each for each in node.inputs}
        below = [each for each in ways.values() if inputs & {_input(plan.by_name[at]) for at in plan.ancestors[each]}]
        return _Branch(f"{name} ({node.stem.replace('_', ' ')})", tuple(map(self._branch, below)))

    def _line(self, cause: Cause) -> str:
        record = cause.record
        return f"{record.place}  {_moment(record.ts)}  {self._pair(record)}  {_role(cause)}"


@dataclass(frozen=True)
class _Branch:
    """A line of the tree, and those below it."""

    text: str
    below: tuple[_Branch, ...] = ()


def _drawn(branches: Sequence[_Branch], indent: str) -> Iterator[str]:
    for number, each in enumerate(branches, 1):
        is_last = number == len(branches)
        yield f"{indent}{'└─' if is_last else '├─'} {each.text}"
        yield from _drawn(each.below, indent + ("   " if is_last else "│  "))


def _input(node: Any) -> str:
    return str(getattr(node, "input", node.name))


def _role(cause: Cause) -> str:
    said = _ROLES[cause.role]
    for operator, reason in cause.drops:
        said += f", {reason} at {operator}"
    return said if cause.waited_for is None else f"{said}, waited for {cause.waited_for.place}"


def _moment(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"


def json_texts(kind: DataType, values: Sequence[Any]) -> list[str]:
    """The JSON of values of a type, as topics have it; bytes that could not be read as the type are written as bytes.

    >>> from pyspark.sql.types import LongType
    >>> json_texts(LongType(), [7, None, b"no number"])
    ['7', 'null', '"bm8gbnVtYmVy"']
    """
    is_raw = [isinstance(each, bytes | bytearray) and not isinstance(kind, BinaryType) for each in values]
    texts = ["null"] * len(values)
    for of, wanted in ((kind, False), (BinaryType(), True)):
        at = [n for n, each in enumerate(values) if is_raw[n] == wanted and each is not None]
        if at:
            column = array(arrow_rows([(values[n],) for n in at], [("value", of)]), "value")
            for n, text in zip(at, encoded(column, of).to_pylist(), strict=True):
                texts[n] = text.decode()
    return texts


def _object(said: Mapping[str, str]) -> str:
    """An object, of the JSON of its values."""
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in said.items()) + "}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
