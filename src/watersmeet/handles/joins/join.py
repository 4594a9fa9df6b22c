"""A join as it is written down, and a kind of join: which options it takes, which forms it has, how it is attached.

Handle layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from watersmeet._plan.nodes import How, Node
from watersmeet.errors import TopologyError
from watersmeet.functions import Function, adapt, types_for
from watersmeet.generation import Generation
from watersmeet.handles.side import CALLED, Side, require_same_builder, same_type, type_text
from watersmeet.windows import Duration, JoinWindows, Previous

Shift = Previous | Function
"""What `shift=` takes: `wm.previous(n)`, or a function of the window that gives another one."""


@dataclass(frozen=True)
class Join:
    """All that a method of a handle is given of a join, but its two sides.

    Parameters
    ----------
    how : inner, left or outer.
    joiner : as the user gave it.
    name, store : names of the operator and of its queryable table.
    windows, match, generation, grace, key, result_key, foreign_key, window_of, keep, shift : what not all kinds of join
        take; None: not given.
    """

    how: How
    joiner: Function
    name: str | None = None
    store: str | None = None
    windows: JoinWindows | None = field(default=None, kw_only=True)
    match: str | None = field(default=None, kw_only=True)
    generation: str | Generation | None = field(default=None, kw_only=True)
    grace: Duration | None = field(default=None, kw_only=True)
    key: Function | None = field(default=None, kw_only=True)
    result_key: Function | None = field(default=None, kw_only=True)
    foreign_key: Function | None = field(default=None, kw_only=True)
    window_of: Function | None = field(default=None, kw_only=True)
    keep: Duration | None = field(default=None, kw_only=True)
    shift: Shift | None = field(default=None, kw_only=True)

    @property
    def options(self) -> dict[str, Any]:
        """The given options that only some kinds of joins take, by name."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.kw_only}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class JoinKind:
    """The join of one kind of left side with one kind of right side.

    Parameters
    ----------
    attach : makes the node of (left, right, join), and attaches it.
    forms : those it has.
    instead : what to write where the form that is wanted is none of them.
    needs : the options that it cannot do without: (what each is, how it is given).
    takes : the options that may be given besides.
    """

    attach: Callable[[Side, Side, Join], Node]
    forms: tuple[How, ...] = ("inner", "left")
    instead: str | None = None
    needs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    takes: tuple[str, ...] = ()

    def check(self, left: Side, right: Side, join: Join, elsewhere: Callable[[str], str]) -> None:
        """Raise unless it has the form, and the options are those of this kind.

        Parameters
        ----------
        elsewhere : says of an option where it belongs, as the end of a sentence.

        Raises
        ------
        TopologyError : it has not, or they are not.
        """
        called = f"A join of a {CALLED[left.kind]} with {right.called}"
        if join.how not in self.forms:
            raise TopologyError(f"{called} has no {join.how} form.", hint=self.instead)
        foreign = {name: given for name, given in join.options.items() if name not in (*self.needs, *self.takes)}
        if foreign:
            shown = ", ".join(f"{name}={option_text(given)}" for name, given in foreign.items())
            raise TopologyError(
                f"{called} takes no {' and no '.join(foreign)}: {shown}.",
                hint=" ".join(f"Leave {name}= out: {elsewhere(name)}" for name in foreign),
            )
        for name, (what, way) in self.needs.items():
            if getattr(join, name) is None:
                raise TopologyError(f"{called} needs {what}: {name}=None.", hint=way)


def option_text(given: Any) -> str:
    """The value of an option, as a text of one line: a function by its name."""
    if callable(given):
        name = str(getattr(given, "__name__", type(given).__name__))
        return "lambda ..." if name == "<lambda>" else name
    return f"{given!r:.120}"


def joiner_of(left: Side, right: Side, join: Join) -> tuple[Function, Any]:
    """(joiner of key, left, right; type of its result)."""
    of_stream = left.kind == "stream"
    joiner = adapt(join.joiner, ("key", "left", "right"), "joiner", left.functions, sees_record=of_stream)
    types = types_for(joiner, (left.key_type, left.value_type, right.value_type))
    return joiner, left.functions.value_type(joiner, types, "joiner")


def reference(referring: Side, referred: Side, given: Any, option: str, role: str) -> Function:
    """A function of (key, value) that returns keys of another table, if its type is theirs.

    Parameters
    ----------
    given : what the user gave, for the option.
    role : what errors call it.

    Raises
    ------
    TopologyError : the type is another one.
    FunctionError : it is no such function.
    """
    require_same_builder(referring, referred, "join")
    function = adapt(given, ("key", "value"), role, referring.functions)
    kind = referring.functions.value_type(function, referring.types, role)
    if not same_type(kind, referred.key_type):
        wanted = type_text(referred.key_type)
        raise TopologyError(
            f"The {role} returns another type than the keys of the other table: {option}= returns "
            f"{type_text(kind)}, and {referred.name!r} has keys of {wanted}.",
            hint=f"Cast its result: {option}=lambda value: value['field'].cast('{wanted}').",
        )
    return function


def name_of(left: Side, right: Side, join: Join, stem: str) -> str:
    """The name of the join's node."""
    return left.construction.name(join.name, stem, left.name, right.name)
