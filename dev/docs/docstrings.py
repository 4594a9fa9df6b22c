"""Docstrings of watersmeet as Markdown, for the site's reference.

Sections are headed as numpy has it (`Parameters`, a line of dashes), and their entries are `name : what it means`, or
`name, name : ...`. Types stand in signatures alone, so a section becomes a plain list. Examples become blocks of code.
"""

from __future__ import annotations

import importlib
import inspect
import re
from functools import reduce
from typing import Any

from griffe import Extension, Function, Object

from watersmeet.handles.shared_parameters import ELSEWHERE

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
EXAMPLE = re.compile(r"^>>> (?:.+\n?)+", re.MULTILINE)
ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : ", re.MULTILINE)


def as_markdown(text: str) -> str:
    """A docstring with its sections as lists.

    >>> print(as_markdown("Sums.\\n\\nParameters\\n----------\\na, b : numbers,\\n    both.\\n"))
    Sums.
    <BLANKLINE>
    **Parameters**
    <BLANKLINE>
    * `a`, `b`: numbers,
        both.
    <BLANKLINE>
    """
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    text = EXAMPLE.sub(lambda found: f"```python\n{found[0].rstrip()}\n```\n", text)
    parts = SECTION.split(text)
    made = [parts[0]]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        made.append(f"**{title}**\n\n{ENTRY.sub(_entry, body)}")
    return "".join(made)


def _entry(found: re.Match[str]) -> str:
    names = ", ".join(f"`{name}`" for name in found[1].split(", "))
    return f"* {names}: "


def _filled_in(obj: Object, text: str) -> str:
    """The docstring with the parameters that another method tells, which only the program knows."""
    if not ELSEWHERE.search(text):
        return text
    names = obj.path.removeprefix(f"{obj.module.path}.").split(".")
    return inspect.getdoc(reduce(getattr, names, importlib.import_module(obj.module.path))) or text


class AsMarkdown(Extension):
    """Gives the reference each docstring as Markdown, and signatures without parameters of our own."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(_filled_in(obj, obj.docstring.value))
        if isinstance(obj, Function):
            for name in [each.name for each in obj.parameters if each.name.startswith("_")]:
                del obj.parameters[name]
