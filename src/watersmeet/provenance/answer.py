"""The answer of `Topology.why`: a row, the records that it comes from, and what the journal does not know."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Row

from watersmeet._plan.logical import Plan
from watersmeet._plan.nodes import Node
from watersmeet._plan.pictures.mermaid import mermaid
from watersmeet._plan.pictures.picture import Arrow, Box, Picture
from watersmeet._plan.pictures.svg import svg
from watersmeet.provenance.causes import Cause
from watersmeet.provenance.records import InputRecord

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
    """

    table: str
    key: Any
    batch: int
    rows: tuple[Mapping[str, Any], ...]
    causes: tuple[Cause, ...]
    since_batch: int
    since_ms: int
    notes: tuple[str, ...]
    _plan: Plan
    _node: str

    @property
    def records(self) -> tuple[InputRecord, ...]:
        """The records without which the row would be another one."""
        return tuple(each.record for each in self.causes if each.role in ("made", "time", "may"))

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.table} {_text(self.key)}, batch {self.batch}"
        for row in self.rows or ({},):
            yield f"  = {_text(row) if row else 'nothing'}"
        yield from _drawn([_branch(self._plan, self._node, self.causes)], "")
        yield from (f"Note: {note}" for note in self.notes)

    def as_dict(self) -> dict[str, Any]:
        """The answer as values that JSON has."""
        causes = [_cause(each) for each in self.causes]
        said = {"table": self.table, "key": _plain(self.key), "batch": self.batch, "rows": _plain(self.rows)}
        since = {"batch": self.since_batch, "ms": self.since_ms}
        return {**said, "causes": causes, "journal_since": since, "notes": list(self.notes)}

    def to_mermaid(self) -> str:
        """The answer as a Mermaid flowchart: records, the operators behind them, and the row."""
        return mermaid(self._picture())

    def to_svg(self) -> str:
        """The answer as a picture: the text of an SVG file."""
        return svg(self._picture())

    def _repr_html_(self) -> str:
        return f'<div style="overflow:auto">{self.to_svg()}</div>'

    def _picture(self) -> Picture:
        shown = [f"{_text(c.record.key)}: {_text(c.record.value)}; {_role(c)}"[:_SHOWN] for c in self.causes]
        records = zip(self.causes, shown, strict=True)
        boxes = [Box(cause.record.place, "input", about, "") for cause, about in records]
        arrows, number = list[Arrow](), dict[str, int]()
        for node in self._nodes():
            number[node.name] = len(boxes)
            mine = [at for at, each in enumerate(self.causes) if not node.inputs and each.record.input == _input(node)]
            tails = [*(number[name] for name in node.inputs if name in number), *mine]
            arrows += [Arrow(tail, len(boxes)) for tail in tails]
            boxes.append(Box(node.name, "operator" if node.inputs else "step", node.stem.replace("_", " "), ""))
        about = "; ".join(map(_text, self.rows)) or "nothing"
        title = f"{self.table} {_text(self.key)}"
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


@dataclass(frozen=True)
class _Branch:
    """A line of the tree, and those below it."""

    text: str
    below: tuple[_Branch, ...] = ()


def _branch(plan: Plan, name: str, causes: Sequence[Cause]) -> _Branch:
    """A node, and below it the nodes that it reads, down to the records; ways without records are left out."""
    node = plan.by_name[name]
    if not node.inputs:
        mine = (cause for cause in causes if cause.record.input == _input(node))
        return _Branch(name, tuple(_Branch(_line(cause)) for cause in mine))
    inputs = {cause.record.input for cause in causes}
    # the old and the new half of a change come by the same way
    ways = {(plan.by_name[each].stem, plan.ancestors[each]): each for each in node.inputs}
    below = [each for each in ways.values() if inputs & {_input(plan.by_name[at]) for at in plan.ancestors[each]}]
    return _Branch(f"{name} ({node.stem.replace('_', ' ')})", tuple(_branch(plan, each, causes) for each in below))


def _line(cause: Cause) -> str:
    record = cause.record
    pair = f"{_text(record.key)}: {_text(record.value)}"
    return f"{record.place}  {_moment(record.ts)}  {pair}  {_role(cause)}"


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


def _cause(cause: Cause) -> dict[str, Any]:
    waited = None if cause.waited_for is None else _record(cause.waited_for)
    drops = [{"operator": operator, "reason": reason} for operator, reason in cause.drops]
    return {**_record(cause.record), "role": cause.role, "drops": drops, "waited_for": waited}


def _record(record: InputRecord) -> dict[str, Any]:
    return {name: _plain(value) for name, value in vars(record).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Row):
        return _plain(value.asDict() if hasattr(value, "__fields__") else list(value))
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no number for it: a word, as topics have it
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _text(value: Any) -> str:
    text = json.dumps(_plain(value), ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
