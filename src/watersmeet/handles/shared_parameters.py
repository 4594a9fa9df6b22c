"""Parameters that several methods share: told once, and shown by each.

A method says what is its own, and in its last line "Other parameters as for `KStream.to`." In the place of that line
`help` and the site show what the named method says of them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
ELSEWHERE = re.compile(r"\n*^(?:Other p|P)arameters as for `[\w.]+`\.$", re.MULTILINE)
"""The line that the parameters of another method stand in for."""
_SECTION = re.compile(r"^(\w+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"^(?=\w+(?:, \w+)* : )", re.MULTILINE)


def parameters_of(told: Callable[..., Any]) -> Callable[[F], F]:
    """The parameters that a method has in common with `told`, and that it says nothing of itself, as `told` has them.

    So is the section of errors, where it has none.

    Parameters
    ----------
    told : the method that tells them, with a section of parameters.
    """

    def completed(function: F) -> F:
        if function.__doc__ is None or told.__doc__ is None:
            return function  # `python -OO` has no docstrings
        head, own = _parts(ELSEWHERE.sub("", inspect.getdoc(function) or ""))
        _, others = _parts(inspect.getdoc(told) or "")
        names = list(inspect.signature(function).parameters)
        entries = _entries(own.pop("Parameters", ""))
        said = {name for each in entries for name in each}
        entries |= {
            each: text
            for each, text in _entries(others["Parameters"]).items()
            if set(each) <= set(names) and said.isdisjoint(each)
        }
        listed = "\n".join(entries[each] for each in sorted(entries, key=lambda each: names.index(each[0])))
        sections = {"Parameters": listed, **({"Raises": others["Raises"]} if "Raises" in others else {}), **own}
        function.__doc__ = "\n\n".join(
            [head, *(f"{title}\n{'-' * len(title)}\n{body}" for title, body in sections.items())]
        )
        return function

    return completed


def _parts(text: str) -> tuple[str, dict[str, str]]:
    """(what stands before the sections, the sections by title)."""
    head, *rest = _SECTION.split(text)
    return head.strip(), {title: body.strip() for title, body in zip(rest[::2], rest[1::2], strict=True)}


def _entries(body: str) -> dict[tuple[str, ...], str]:
    """The entries of a section of parameters, by the names that each is of."""
    entries = [each.strip() for each in _ENTRY.split(body) if each.strip()]
    return {tuple(each.partition(" : ")[0].split(", ")): each for each in entries}
