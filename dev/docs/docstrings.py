"""Docstrings of watersmeet as Markdown, for the site's reference.

Sections are headed as numpy has it (`Parameters`, a line of dashes), and their entries are `name : what it means`, or
`name, name : ...`. Types stand in signatures alone, so a section becomes a plain list. Examples become blocks of code.
"""

from __future__ import annotations

import importlib
import inspect
import re
from functools import reduce
from typing import Any, get_overloads

from griffe import Extension, Function, Object, Parameter, ParameterKind

from watersmeet.api.handle import ELSEWHERE
from watersmeet.hints import signature_of

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
    return inspect.getdoc(_object_of(obj)) or text if ELSEWHERE.search(text) else text


def _object_of(obj: Object) -> Any:
    """What the reference describes, as the program has it."""
    names = obj.path.removeprefix(f"{obj.module.path}.").split(".")
    return reduce(getattr, names, importlib.import_module(obj.module.path))


def _unpack(function: Function, signature: inspect.Signature) -> None:
    """Put the options by name into a function's parameters, in place of `**options`."""
    options = [each for each in signature.parameters.values() if each.name not in function.parameters]
    if not options:
        return
    del function.parameters["options"]
    for each in options:
        default = None if each.default is each.empty else repr(each.default)
        option = Parameter(each.name, annotation=each.annotation, kind=ParameterKind.keyword_only, default=default)
        function.parameters.add(option)


class AsMarkdown(Extension):
    """Gives the reference each docstring as Markdown, and signatures without parameters of our own."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(_filled_in(obj, obj.docstring.value))
        if isinstance(obj, Function):
            for name in [each.name for each in obj.parameters if each.name.startswith("_")]:
                del obj.parameters[name]
            if "options" in obj.parameters:
                function = _object_of(obj)
                _unpack(obj, inspect.signature(function))
                for overload, form in zip(obj.overloads or (), get_overloads(function), strict=True):
                    if "options" in overload.parameters:
                        _unpack(overload, signature_of(form))
