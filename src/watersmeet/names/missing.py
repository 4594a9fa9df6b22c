"""The error for a name that a class or the package does not have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from watersmeet.errors import MissingName
from watersmeet.names.elsewhere import ELSEWHERE


def missing(owner: str, has: Sequence[str], name: str) -> AttributeError:
    """The error for a name that is not there.

    Parameters
    ----------
    owner : the class that was asked, or "watersmeet".
    has : the names that it has.
    name : the one that was asked for.
    """
    if name.startswith("_"):
        return AttributeError(f"{owner} has no attribute {name!r}")
    what, given, snake = f"{owner} has no {name!r}.", f"{owner}.{name}", snake_case(name)
    for wanted in (name, snake):
        if wanted in has:
            return MissingName(what, given=given, hint=f"Here it is called {wanted}.")
        if wanted in ELSEWHERE.get(owner, {}):
            return MissingName(what, given=given, hint=f"Here it is {ELSEWHERE[owner][wanted]}.")
    near = get_close_matches(snake, has, n=1)
    return MissingName(what, given=given, hint=f"Did you mean {near[0]}?" if near else f"It has {', '.join(has)}.")


def public(kind: type) -> list[str]:
    """The public names of a class."""
    return [name for name in dir(kind) if not name.startswith("_")]


def snake_case(name: str) -> str:
    """A name of Java's in Python's spelling.

    >>> snake_case("ofTimeDifferenceAndGrace")
    'of_time_difference_and_grace'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
