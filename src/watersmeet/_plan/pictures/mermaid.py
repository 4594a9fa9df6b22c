"""A picture as the text of a Mermaid flowchart, which pages of Markdown show as a picture."""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet._plan.pictures.picture import Box, Kind, Picture

_SHAPES: dict[Kind, tuple[str, str]] = {
    "input": ('(["', '"])'),
    "output": ('(["', '"])'),
    "step": ('["', '"]'),
    "operator": ('["', '"]'),
}
_ESCAPES = {ord(each): f"#{ord(each)};" for each in '#&"<>`\\'} | {ord("\n"): " "}
"""What has a meaning in Mermaid's quoted texts, by its number as Mermaid writes it."""


def mermaid(picture: Picture) -> str:
    """The picture as text."""
    return "\n".join(_lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    yield "flowchart TD"
    for level in (None, *sorted({each for each in picture.levels if each is not None})):
        indent = "  " if level is None else "    "
        if level is not None:
            yield f'  subgraph level{level}["level {level}"]'
        for number, box in enumerate(picture.boxes):
            if picture.levels[number] == level:
                yield from (indent + line for line in _box(number, box))
        if level is not None:
            yield "  end"
    for arrow in picture.arrows:
        text = f"|{arrow.text}|" if arrow.text else ""
        yield f"  n{arrow.tail} -->{text} n{arrow.head}"


def _box(number: int, box: Box) -> Iterator[str]:
    before, behind = _SHAPES[box.kind]
    yield f"n{number}{before}{_text(box.name)}<br/>{_text(box.about)}{behind}"
    for place, store in enumerate(box.stores):
        yield f'n{number}s{place}[("{_text(store)}")] -.- n{number}'


def _text(text: str) -> str:
    return text.translate(_ESCAPES)
