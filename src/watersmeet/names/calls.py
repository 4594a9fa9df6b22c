"""Calls that do not fit: an option that is not there, an argument that is left out, or that is given by its place.

`answering` is put before a class: each of its public methods then answers such a call with a hint, and so does each
name that it has not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from watersmeet.errors import WrongCall
from watersmeet.names.missing import missing, public, snake_case
from watersmeet.names.options import MADE, OPTIONS, PLACES, USES

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
_SHOWN = 60


def answering(kind: C) -> C:
    """The class, of which each wrong call and each missing name has a hint."""
    for name, given in list(vars(kind).items()):
        function = given.__func__ if isinstance(given, classmethod | staticmethod) else given
        if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
            made: Any = _wrapped(function, kind.__name__, name, bound=not isinstance(given, staticmethod))
            setattr(kind, name, type(given)(made) if made is not None and function is not given else made)
    if not TYPE_CHECKING and "__getattr__" not in vars(kind):  # for a type checker such a name is a mistake

        def absent(self: Any, name: str) -> Any:
            raise missing(type(self).__name__, public(type(self)), name)

        kind.__getattr__ = absent
    return kind


def answered(function: F) -> F:
    """A function of the package, with hints for its wrong calls."""
    return _wrapped(function, "wm", function.__name__, bound=False)


def answered_as(use: str) -> Callable[[F], F]:
    """The same of a function that says itself how it is called; `use`: a hint without its full stop."""
    return lambda function: _wrapped(function, "wm", function.__name__, bound=False, use=use)


def _wrapped(function: F, owner: str, name: str, *, bound: bool, use: str | None = None) -> F:
    @wraps(function)
    def called(*given: Any, **options: Any) -> Any:
        try:
            return function(*given, **options)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # it comes from within
            whose = _owner(given[0], owner) if bound and given else owner
            own = list(inspect.signature(function).parameters.values())[bound:]
            raise _answer(_Call(whose, name, own, given[bound:], options, use), error) from None

    return cast("F", called)


def _owner(first: Any, owner: str) -> str:
    """The class that a method was called of, which may have inherited it."""
    kind = first if isinstance(first, type) else type(first)
    return kind.__name__ if any(base.__name__ == owner for base in kind.__mro__) else owner


class _Call:
    """A call that does not fit its function.

    Parameters
    ----------
    owner, name : of the function; the name of a class's own call is "__init__".
    parameters : that it takes.
    given, options : what it got.
    use : how it is called; None: as the table says.
    """

    def __init__(
        self,
        owner: str,
        name: str,
        parameters: Sequence[inspect.Parameter],
        given: Sequence[Any],
        options: Mapping[str, Any],
        use: str | None = None,
    ) -> None:
        self.example = use
        self.shown = owner if name == "__init__" else f"{owner}.{name}"
        self.name = owner if name == "__init__" else name
        self.takes = [each.name for each in parameters if not each.name.startswith("_")]
        self.placed = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        self.by_name = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.name in self.takes]
        self.needed = [
            each.name
            for each in parameters
            if each.default is each.empty and each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
        ]
        self.given, self.options = given, options

    @property
    def unknown(self) -> str | None:
        """The first option that it does not take."""
        return next((name for name in self.options if name not in self.takes), None)

    @property
    def surplus(self) -> Sequence[Any]:
        """The arguments that have no parameter."""
        return self.given[len(self.placed) :]

    @property
    def lacking(self) -> list[str]:
        """The required arguments that are left out."""
        there = {*self.placed[: len(self.given)], *self.options}
        return [name for name in self.needed if name not in there]

    def looked_up(self, table: Mapping[str, Any]) -> Any:
        """The entry of a table for the function: by class and name, or by name alone."""
        return table.get(self.shown, table.get(self.name))

    @property
    def known_use(self) -> str | None:
        """How it is called, where that is said."""
        found = self.example or self.looked_up(USES)
        return None if found is None else str(found)

    @property
    def use(self) -> str:
        """How it is called."""
        found = self.known_use
        return str(found) if found is not None else f"It takes {_listed(self)}"


def _answer(call: _Call, error: TypeError) -> Exception:
    if call.unknown is not None:
        name = call.unknown
        what = f"{call.shown} has no option {name}={_text(call.options[name])}."
        return WrongCall(what, hint=_ended(_cure(call, name)))
    if call.surplus:
        most = len(call.placed)
        places = f"{most} argument{'s' * (most != 1)} without a name" if most else "no argument without a name"
        what = f"{call.shown} takes {places}, not also {', '.join(map(_text, call.surplus))}."
        return WrongCall(what, hint=f"{_by_name(call)}.")
    twice = [name for name in call.placed[: len(call.given)] if name in call.options]
    if twice:
        return WrongCall(f"{call.shown} was given {twice[0]} twice.", hint=f"Give {twice[0]} once.")
    if call.lacking:
        got = [*map(_text, call.given), *(f"{name}={_text(value)}" for name, value in call.options.items())]
        and_got = f", and got {', '.join(got)}" if got else ""
        return WrongCall(f"{call.shown} needs {' and '.join(call.lacking)}{and_got}.", hint=f"{call.use}.")
    return error


def _cure(call: _Call, name: str) -> str:
    """The replacement for a wrong option."""
    use, snake = call.known_use, snake_case(name)
    if use is not None and call.shown in MADE:
        return str(use)
    lacks = f". {use}" if use is not None and call.lacking else ""
    if snake in call.takes:
        return f"Here it is called {snake}={lacks}"
    for cures in (OPTIONS.get(call.shown, {}), OPTIONS.get(call.name, {}), OPTIONS[""]):
        if snake in cures:
            cure = cures[snake] if _has(call, cures[snake]) else OPTIONS[""]["store"]
            return f"{cure}{lacks}"
    near = get_close_matches(snake, call.takes, n=1, cutoff=0.7)
    if near:
        return f"Did you mean {near[0]}=?{lacks}"
    return f"It takes {_listed(call)}" + ("" if use is None else f". {use}")


def _has(call: _Call, cure: str) -> bool:
    """Whether the call takes the store that a cure names, if it names one."""
    return not cure.startswith("store=") or "store" in call.takes


def _by_name(call: _Call) -> str:
    """How what has no place is given."""
    names = call.looked_up(PLACES)
    if names is None:
        names = ("name",) if isinstance(call.surplus[0], str) else ()
    shown = [f"{name}={_text(value)}" for name, value in zip(names, call.surplus, strict=False) if name in call.by_name]
    others = call.by_name or call.placed
    use = call.known_use
    if shown:
        return f"By name: {', '.join(shown)}"
    if use is not None:
        named = ", ".join(f"{name}=" for name in call.by_name)
        return f"{use}. By name alone: {named}" if named and call.shown not in MADE else str(use)
    return f"By name: {', '.join(f'{name}=' for name in others)}" if others else "Leave it out"


def _listed(call: _Call) -> str:
    options = [f"{name}=" for name in call.by_name]
    return ", ".join([*call.placed, *options]) or "nothing"


def _text(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."


def _ended(text: str) -> str:
    return text if text.endswith("?") else f"{text}."


def option_refused(what: str, name: str, value: Any, method: str, takes: Sequence[str]) -> WrongCall:
    """The error for an option of a method that what was given to it does not take.

    Parameters
    ----------
    what : it, as the beginning of a sentence.
    name, value : of the option.
    method : of which it is an option.
    takes : the options that are taken.
    """
    cure = OPTIONS.get(method, {}).get(snake_case(name))
    listed = f"It takes {', '.join(f'{each}=' for each in takes)}"
    return WrongCall(f"{what} has no option {name}={_text(value)}.", hint=f"{cure or listed}.")
