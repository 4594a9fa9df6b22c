"""Hints of calls: names from Kafka Streams, PySpark, pandas, Faust and Quix, options and types that do not fit, misuse.

The texts lie in `names.txt`, `uses.txt` and `options.txt`. A hint about a value stands where its error is raised.
"""

from __future__ import annotations

import builtins
import inspect
import numbers
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from dis import opmap
from functools import cache, wraps
from importlib.resources import files
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_overloads,
    get_type_hints,
)

from watersmeet.errors import FunctionError, MissingName, WatersmeetError, WrongCall, did_you_mean, on_own_lines

_GROUPED = ("KGroupedStream", "KGroupedTable", "TimeWindowedKStream", "SessionWindowedKStream")
_BESIDE: dict[str, str] = {}
"""How an aggregate is written, by its name."""


def beside(name: str, example: str) -> None:
    """Say of an aggregate's name, which what is grouped does not have as a method, how it is written."""
    _BESIDE.setdefault(name, f"agg({example})")


def elsewhere() -> Mapping[str, Mapping[str, str]]:
    """The substitutes of a name that a class does not have, by class and name in snake case."""
    return _sections("names.txt")


@cache
def _sections(file: str) -> Mapping[str, Mapping[str, str]]:
    """The answers in a file, by section and name.

    A section begins with its name, and the one that it takes answers from; a line has names and, behind the colon, the
    answer; a line that is indented continues the one before.
    """
    lines = re.sub(r"\n +", " ", files("watersmeet").joinpath(file).read_text(encoding="utf-8")).splitlines()
    sections: dict[str, dict[str, str]] = {}
    section: dict[str, str] = {}
    for line in lines:
        if line.startswith("# "):
            kind, _, parent = line[2:].partition(" < ")
            section = sections[kind] = {**sections.get(parent, {})}
        else:
            names, _, answer = line.partition(": ")
            section |= dict.fromkeys(names.split(), answer)
    return sections


# Options that people bring along, what to write in their place (`options.txt`), and how each function is called
# (`uses.txt`): both by its name, as `Class.method` or `method`; * is any.

MADE = frozenset(
    (
        *("TimeWindows", "SlidingWindows", "SessionWindows", "JoinWindows", "UnlimitedWindows", "Suppressed"),
        *("EmitStrategy", "Topology", "KStream", "KTable"),
    )
)
"""Classes whose methods make them, and not calls of their own."""

PLACES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("stream", "table", "global_table", "to", "through", "Topic"), ("key", "value")),
    "session": ("master",),
    "start": ("checkpoint",),
    "Kafka": ("max_records_per_batch",),
    "DatabaseTable": ("table",),
    "create_input_topic": ("start_ts",),
    "pipe": ("ts",),
    "policies": ("on_error",),
    "agg": (),
    "until_time_limit": ("buffer",),
}
"""What people give by place, in its order, and a function takes by name alone."""


# The error for a name that a class or the package does not have.


def missing_name(owner: str, has: Sequence[str], name: str) -> AttributeError:
    """The error for a name that is not there.

    Parameters
    ----------
    owner : the class that was asked, or "watersmeet".
    has : the names that it has.
    name : the one that was asked for.
    """
    if name.startswith("_"):
        return AttributeError(f"{owner} has no attribute {name!r}")
    message, expression, snake = f"{owner} has no {name!r}.", f"{owner}.{name}", snake_case(name).strip("_")
    answers = {**(_BESIDE if owner in _GROUPED else {}), **elsewhere().get(owner, {})}
    for candidate in (name, snake):
        if candidate in has:
            return MissingName(message, given=expression, hint=f"Here it is called {candidate}.")
        if candidate in answers:
            return MissingName(message, given=expression, hint=f"Here it is {answers[candidate]}.")
    if meant := did_you_mean(snake, has, cutoff=0.75):
        return MissingName(message, given=expression, hint=meant)
    names = has if len(has) <= _MOST_NAMES else [*get_close_matches(snake, has, n=5, cutoff=0), "others: dir() has all"]
    return MissingName(message, given=expression, hint=f"It has {', '.join(names)}.")


_MOST_NAMES = 40
"""The names of a class that an error lists, at most."""


def public(kind: type) -> list[str]:
    """The public names of a class."""
    declared = getattr(kind, "__annotations__", ())
    return sorted(name for name in {*dir(kind), *declared} if not name.startswith("_"))


def snake_case(name: str) -> str:
    """A name of Java's in Python's spelling.

    >>> snake_case("ofTimeDifferenceAndGrace")
    'of_time_difference_and_grace'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


# Calls that do not fit: an option that is not there, an argument that is left out, or that is given by its place.
#
# `answering` is put before a class: each of its public methods then answers such a call with a hint, and so does each
# name that it has not.

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])
_SHOWN = 60


def answering(kind: C) -> C:
    """The class, of which each wrong call and each missing name has a hint."""
    for name, member in list(vars(kind).items()):
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isfunction(function) and (name == "__init__" or not name.startswith("_")):
            wrapper: Any = _wrapped(function, kind.__name__, name, bound=not isinstance(member, staticmethod))
            setattr(kind, name, type(member)(wrapper) if wrapper is not None and function is not member else wrapper)
    if "__getattr__" not in vars(kind):
        _naming(kind, None)
    return kind


def answering_as(kind: type | None) -> Callable[[C], C]:
    """The class, of which each missing name has a hint: it shows itself to users as another one, by its public names.

    None: as itself.

    Calls are left as they are: those of a processor are made for each record.
    """
    return lambda cls: _naming(cls, kind)


def _naming(kind: C, alias: type | None) -> C:
    if not TYPE_CHECKING:  # for a type checker such a name is a mistake

        def absent(self: Any, name: str) -> Any:
            of = alias or type(self)
            raise missing_name(of.__name__, public(of), name)

        kind.__getattr__ = absent
    return kind


def answered(function: F) -> F:
    """A function of the package, with hints for its wrong calls."""
    return _wrapped(function, "wm", function.__name__, bound=False)


def answered_as(use: str) -> Callable[[F], F]:
    """The same of a function that says itself how it is called; `use`: a hint without its full stop."""
    return lambda function: _wrapped(function, "wm", function.__name__, bound=False, use=use)


def _wrapped(function: F, owner: str, name: str, *, bound: bool, use: str | None = None) -> F:
    signature = signature_of(function)

    def call_of(given: Sequence[Any], options: Mapping[str, Any]) -> _Call:
        whose = _owner(given[0], owner) if bound and given else owner
        return _Call(whose, name, list(signature.parameters.values())[bound:], given[bound:], options, use)

    def check_types(given: Sequence[Any], options: Mapping[str, Any]) -> None:
        # what the package calls itself is not what the user wrote
        if sys._getframe(2).f_globals.get("__name__", "").partition(".")[0] == "watersmeet":
            return
        misfit = _misfit(function, given, options)
        if misfit is not None:
            raise _of_type(call_of(given, options), *misfit)

    is_acting = owner in _ACTING

    @wraps(function)
    def wrapper(*arguments: Any, **options: Any) -> Any:
        if is_acting:
            check_types(arguments, options)
        try:
            signature.bind(*arguments, **options)
        except TypeError as error:
            raise _answer(call_of(arguments, options), error) from None
        try:
            result = function(*arguments, **options)
        except WatersmeetError as error:
            raise on_own_lines(error) from error.__cause__
        except Exception:
            if not is_acting:
                check_types(arguments, options)
            raise  # it comes from within
        if not is_acting:
            check_types(arguments, options)
        return StreamEnd() if result is None and name == "to" else result

    wrapper.__signature__ = signature  # type: ignore[attr-defined]
    return cast("F", wrapper)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature, with options by name in place of `**options`: those of its overloads, or of its `Unpack`.

    An option is required if each overload requires it.
    """
    signature = inspect.signature(function)
    overloads = get_overloads(function)
    forms = [_options(form) for form in (overloads if overloads and function not in overloads else [function])]
    names = dict.fromkeys(name for form in forms for name in form if name not in signature.parameters)
    if not names:
        return signature
    parameters = list(signature.parameters.values())[:-1]
    for name in names:
        options = [form[name] for form in forms if name in form]
        is_required = len(options) == len(forms) and all(option.default is option.empty for option in options)
        default = next((option.default for option in options if option.default is not option.empty), None)
        annotation = " | ".join(dict.fromkeys(str(option.annotation) for option in options))
        option = options[0].replace(annotation=annotation)
        parameters.append(option if is_required else option.replace(default=default))
    return signature.replace(parameters=parameters)


def _options(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The parameters that a function takes by name alone, with those of its `Unpack`."""
    parameters = inspect.signature(function).parameters.values()
    options = {option.name: option for option in parameters if option.kind is option.KEYWORD_ONLY}
    unpacked = _unpacked(function)
    for name, annotation in unpacked.__annotations__.items() if unpacked else ():
        default = inspect.Parameter.empty if name in unpacked.__required_keys__ else None
        text = annotation.__forward_arg__
        options[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=text, default=default)
    return options


def _unpacked(function: Callable[..., Any]) -> Any:
    """The TypedDict that its `**options: Unpack[...]` is of, if it has one."""
    name = re.fullmatch(r"Unpack\[(\w+)\]", str(function.__annotations__.get("options")))
    return name and function.__globals__[name[1]]


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
        self.takes = [parameter.name for parameter in parameters if not parameter.name.startswith("_")]
        self.placed = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        self.by_name = [
            parameter.name
            for parameter in parameters
            if parameter.kind is parameter.KEYWORD_ONLY and parameter.name in self.takes
        ]
        self.needed = [
            parameter.name
            for parameter in parameters
            if parameter.default is parameter.empty
            and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
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
        names = {*self.placed[: len(self.given)], *self.options}
        return [name for name in self.needed if name not in names]

    def looked_up(self, table: Mapping[str, Any]) -> Any:
        """The entry of a table for the function: by class and name, or by name alone."""
        return table.get(self.shown, table.get(self.name))

    @property
    def known_use(self) -> str | None:
        """How it is called, where that is said."""
        usage = self.example or self.looked_up(_sections("uses.txt")["*"])
        return None if usage is None else str(usage)

    @property
    def use(self) -> str:
        """How it is called."""
        usage = self.known_use
        return str(usage) if usage is not None else f"It takes {_listed(self)}"


def _answer(call: _Call, error: TypeError) -> Exception:
    if call.unknown is not None:
        name = call.unknown
        message = f"{call.shown} has no option {name}={_text(call.options[name])}."
        return WrongCall(message, hint=_sentence(_cure(call, name)))
    if call.surplus:
        most = len(call.placed)
        places = f"{most} argument{'s' * (most != 1)} without a name" if most else "no argument without a name"
        message = f"{call.shown} takes {places}, not also {', '.join(map(_text, call.surplus))}."
        return WrongCall(message, hint=f"{_by_name(call)}.")
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
    options = _sections("options.txt")
    for cures in (options.get(call.shown, {}), options.get(call.name, {}), options["*"]):
        if snake in cures:
            cure = cures[snake] if _has(call, cures[snake]) else options["*"]["store"]
            return f"{cure}{lacks}"
    if meant := did_you_mean(snake, call.takes, form="{}=".format, cutoff=0.7):
        return f"{meant}{lacks}"
    return f"It takes {_listed(call)}" + ("" if use is None else f". {use}")


def _has(call: _Call, cure: str) -> bool:
    """Whether the call takes the store that a cure names, if it names one."""
    return not cure.startswith("store=") or "store" in call.takes


def _by_name(call: _Call) -> str:
    """How what has no place is given."""
    names = call.looked_up(PLACES)
    if names is None:
        names = ("name",) if isinstance(call.surplus[0], str) else ()
    examples = [
        f"{name}={_text(value)}" for name, value in zip(names, call.surplus, strict=False) if name in call.by_name
    ]
    fallback = call.by_name or call.placed
    use = call.known_use
    if examples:
        return f"By name: {', '.join(examples)}"
    if use is not None:
        options = ", ".join(f"{name}=" for name in call.by_name)
        return f"{use}. By name alone: {options}" if options and call.shown not in MADE else str(use)
    return f"By name: {', '.join(f'{name}=' for name in fallback)}" if fallback else "Leave it out"


def _listed(call: _Call) -> str:
    options = [f"{name}=" for name in call.by_name]
    return ", ".join([*call.placed, *options]) or "nothing"


def _text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _sentence(text: str) -> str:
    return text if text.endswith("?") else f"{text}."


def option_refused(subject: str, name: str, value: Any, method: str, takes: Sequence[str]) -> WrongCall:
    """The error for an option of a method that what was given to it does not take.

    Parameters
    ----------
    subject : it, as the beginning of a sentence.
    name, value : of the option.
    method : of which it is an option.
    takes : the options that are taken.
    """
    cure = _sections("options.txt").get(method, {}).get(snake_case(name))
    listed = f"It takes {', '.join(f'{option}=' for option in takes)}"
    return WrongCall(f"{subject} has no option {name}={_text(value)}.", hint=f"{cure or listed}.")


# Arguments of another type than the signature says.
#
# What a function says itself of an argument goes first. This is for what it would accept, or fall over later: a number
# for a text, a text for a list, an empty name, a negative number. Functions that do something are asked before.

_ACTING = frozenset(("Query", "ServedTable", "TableClient"))
_MAY_BE_EMPTY = frozenset(("case",))
_ANYTHING = frozenset(("target",))
"""Outputs of one's own are no classes that a signature can name."""
_SECRET = frozenset(("password", "token", "url", "username"))
# times before 1970, and the ends of JoinWindows, of which one may lie on the other side
_MAY_BE_NEGATIVE = frozenset(
    "ts timestamp start_ts from_ts to_ts as_of start_ms end_ms start end before_ms after_ms".split()  # noqa: SIM905
)


def _misfit(
    function: Callable[..., Any], given: Sequence[Any], options: Mapping[str, Any]
) -> tuple[str, Any, Any] | None:
    """(name, value, its right type) of the first argument that is not of the type that the signature says."""
    kinds, placed = argument_types(function)
    named = (*zip(placed, given, strict=False), *options.items())
    each_of = ((name, value, kinds.get(name, Any)) for name, value in named if name not in _ANYTHING)
    return next((each for each in each_of if not _fits(each[1], each[2], each[0])), None)


def _of_type(call: _Call, name: str, value: Any, kind: Any) -> WrongCall:
    """The error for an argument of another type."""
    shown = "..." if name in _SECRET else "{...}" if isinstance(value, Mapping) and value else _text(value)
    use = f". {call.known_use}" if name in call.placed and call.known_use is not None else ""
    return WrongCall(f"{call.shown} takes no {name}={shown}.", hint=f"{name}= is {_kind_text(kind, value)}{use}.")


class _Namespace(dict[str, Any]):
    """The names of annotations; one that only a type checker imports is looked up where it may be, or is anything."""

    def __missing__(self, name: str) -> Any:
        modules = (sys.modules.get(each) for each in ("collections.abc", "pyspark.sql", "pyspark.sql.types"))
        places = (sys.modules, *(vars(each) for each in modules if each is not None))
        return next((place[name] for place in places if name in place), Any)


@cache
def argument_types(function: Callable[..., Any]) -> tuple[dict[str, Any], list[str]]:
    """(types of the parameters by name, the parameters that have a place)."""
    names = _Namespace({**vars(builtins), **function.__globals__})
    parameters = signature_of(function).parameters
    placed = [name for name, each in parameters.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    annotations = {name: kind.annotation for name, kind in parameters.items() if kind.annotation is not kind.empty}
    return get_type_hints(SimpleNamespace(__annotations__=annotations), localns=names), placed


def _fits(value: Any, kind: Any, option: str) -> bool:
    """Whether a value is of a type; of what no value says, it is."""
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, each, option) for each in parts)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in parts)
    if origin is str:
        has_text = isinstance(value, str) and (value != "" or option in _MAY_BE_EMPTY)
        return has_text and (option != "name" or value.isprintable())
    if origin in (int, float):
        number = numbers.Integral if origin is int else numbers.Real
        fits = isinstance(value, number) and not isinstance(value, bool)
        return fits and (value >= 0 or option in _MAY_BE_NEGATIVE)
    if origin is Callable:
        # wm.python holds the function that it is of
        return callable(value) or callable(getattr(value, "function", None))
    if origin is Any or not isinstance(origin, type) or getattr(origin, "_is_protocol", False):
        return True
    is_text = isinstance(value, str | bytes) and origin is not bytes and issubclass(origin, Collection)
    if is_text or not (isinstance(value, origin) or _is_of_connect(value, origin)):
        return False
    of_each = isinstance(value, Sequence) and (len(parts) == 1 or parts[1:] == (...,))
    return not of_each or all(_fits(each, parts[0], option) for each in cast("Sequence[Any]", value))


def _is_of_connect(value: Any, kind: type) -> bool:
    """Whether a value is of the class that Spark Connect has in place of one of PySpark: no subclass, but its name."""
    return any(
        cls.__name__ == kind.__name__ and "pyspark.sql.connect." in cls.__module__ for cls in type(value).__mro__
    )


def _kind_text(kind: Any, value: Any = None) -> str:
    """A type in words; `value`: what was given instead."""
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        kinds = [each for each in parts if each is not NoneType]
        duration = {str, timedelta} <= {*kinds}
        said = [_kind_text(each, value) for each in kinds if not (duration and each in (str, timedelta))]
        said += ["a duration: '5 minutes', or timedelta(minutes=5)"] * duration
        return " or ".join(dict.fromkeys(said))
    if origin is Literal:
        return " or ".join(map(repr, parts))
    plain: dict[Any, str] = {str: "a text, such as 'orders'", bool: "True or False"}
    plain |= {int: "a whole number, not below 0", float: "a number, not below 0"}
    if origin is Callable:
        column = None if value is None else re.fullmatch(r"(?:Column<')?(\w+)(?:'>)?", str(value))
        return f"a function, such as lambda value: value[{column[1] if column else 'field'!r}]"
    if origin in plain:
        return plain[origin]
    name = getattr(origin, "__name__", str(origin))
    if issubclass(origin, Mapping):
        return "a dictionary"
    if issubclass(origin, Iterable):
        if get_origin(parts[0] if parts else None) is tuple:
            return "a list of pairs, such as [('key', 'value')]"
        return "a list, such as ['orders']" if parts[:1] == (str,) else "a list"
    return "a path" if name == "PathLike" else f"a {name}"


# Functions of the user's that are called later, with the arguments that are known now.

_LAZY = {
    "async def": (inspect.iscoroutinefunction, inspect.isasyncgenfunction),
    "yield": (inspect.isgeneratorfunction,),
}


def refuse_lazy(function: Any, title: str, use: str) -> None:
    """Raise where a call of a function gives a coroutine or a generator, with lines that nobody runs."""
    for word, kinds in _LAZY.items():
        if any(is_kind(each) for is_kind in kinds for each in (function, getattr(type(function), "__call__", None))):  # noqa: B004
            raise FunctionError(
                f"{title} has {word!r}: a call of it runs none of its lines.", hint=f"Write {use}, without {word!r}."
            )


def check_called(function: Callable[..., Any], title: str, parameters: Sequence[str], use: str) -> None:
    """Raise unless a function can be called with these arguments, and a call does all that it is to do.

    Parameters
    ----------
    title : what it is called in the error.
    use : how it is written.

    Raises
    ------
    FunctionError : it cannot, or a call runs none of its lines.
    """
    refuse_lazy(function, title, use)
    try:
        inspect.signature(function).bind(*parameters)
    except TypeError:
        raise FunctionError(
            f"{title} takes other arguments: {inspect.signature(function)}.", hint=f"Write {use}."
        ) from None
    except ValueError:  # it does not say what it takes
        return


# Hints for uses of streams and tables as Python values: they have no rows to count, iterate over or compare here.

_CURES = {
    "[...]": "map_values(lambda value: value['field']) takes a field of each; of a query's table wm.read_state(spark, "
    "checkpoint, store) gives the rows",
    "[...] = ...": "map_values(lambda value: value.withField('field', ...)) gives each a field",
    "loop": "peek(function) shows each record to a function; TopologyTestDriver gives a test the results",
    "len": "group_by_key().count() counts the records of each key",
    "in": "filter(lambda value: ...) keeps the records that are wanted",
    "+": "one.merge(other) brings two streams together; join(...) what has one key",
    "-": "map_values(lambda value: value['one'] - value['other']) computes in each record",
    "|": "one.merge(other) merges two streams; in a predicate, | joins conditions of a Column",
    "&": "join(other, joiner) joins by key; in a predicate, & joins conditions of a Column",
    "~": "filter_not(predicate) keeps the records that a predicate does not",
    ">": "filter(lambda value: value['field'] > 5) compares in each record",
    "==": "filter(lambda value: value['field'] == 5) compares in each record; `one is other` tells "
    "whether two names are of one stream",
    "truth value": "`stream is not None` tells whether there is one; filter(predicate) decides about each record",
    "number": "group_by_key().agg(total=wm.sum(lambda value: value['field'])) makes numbers of records",
    "attribute to set": "name=, store= and other options are given to the method that makes it",
}
_OPERATORS = {
    "[...]": ("getitem",),
    "[...] = ...": ("setitem", "delitem"),
    "loop": ("iter",),
    "len": ("len",),
    "in": ("contains",),
    "+": ("add", "radd"),
    "-": ("sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "mod", "matmul", "neg"),
    "|": ("or", "ror"),
    "&": ("and", "rand"),
    "~": ("invert",),
    ">": ("gt", "ge", "lt", "le"),
    "truth value": ("bool",),
    "number": ("int", "float"),
}
"""Methods of Python's data model, without their underscores, by what they are to users."""


class StreamEnd:
    """The result of `to`, which ends a stream: each name that is asked of it is answered with how to go on."""

    def __repr__(self) -> str:
        return "StreamEnd()"

    def _ipython_display_(self) -> None:
        """A notebook shows nothing of it."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise MissingName(
            f"to(...) ends a stream, and gives none to call {name} of.",
            hint=f"Keep the stream, and call both of it: stream.to('topic'), then stream.{name}(...). "
            "stream.through('topic') writes it and continues.",
        )


def refusing(*operators: str) -> Callable[[C], C]:
    """A class decorator: objects answer with an error for these operators, which they do not have."""

    def refusal(operator: str) -> Callable[..., NoReturn]:
        with_operand = operator.replace("...", "{!r:.60}", 1) if operator[0] == "[" else f"{operator} with {{!r:.60}}"
        return lambda self, *operands: _refuse(self, operator, with_operand.format(*operands) if operands else operator)

    def refused(kind: C) -> C:
        for operator in operators:
            for method in _OPERATORS[operator]:
                setattr(kind, f"__{method}__", refusal(operator))
        return kind

    return refused


def _refuse(value: Any, operator: str, syntax: str) -> NoReturn:
    kind = type(value).__name__
    cure = elsewhere().get(kind, {}).get(operator.replace(" = ...", "="), _CURES[operator])
    raise WrongCall(f"A {kind} has no {syntax}: it is no Python value.", hint=f"{cure}.")


@refusing(*_OPERATORS)
class NoValue:
    """Answers what Python does with values: with what a stream or a table has in its place."""

    def __eq__(self, other: object) -> bool:
        return other is self or (other is not None and _refuse(self, "==", f"== with {other!r:.60}"))

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_"):
            _refuse(self, "attribute to set", f"attribute {name!r} to set")
        super().__setattr__(name, value)

    __hash__ = object.__hash__


class ByPlace(list[Any]):
    """A list that answers for a name in brackets, and for an attribute.

    Parameters
    ----------
    items : its own.
    title : how it is written, such as "driver.read('pages')".
    lookup : how one of them is found by its name; None: as `title[0].name`.
    """

    def __init__(self, items: Iterable[Any], title: str, lookup: str | None = None) -> None:
        super().__init__(items)
        self._title, self._lookup = title, lookup

    if not TYPE_CHECKING:

        def __getitem__(self, place: Any) -> Any:
            if isinstance(place, str):
                self._refuse(place)
            return super().__getitem__(place)

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            self._refuse(name)

    def _refuse(self, name: str) -> NoReturn:
        cure = self._lookup.format(name) if self._lookup is not None else f"{self._title}[0].{name}, of the first"
        raise MissingName(f"{self._title} is a list, and has no {name!r:.80}.", hint=f"Write {cure}.")


class ByName(dict[Any, Any]):
    """A dictionary that answers for a key that it does not have, for an attribute, and for a call.

    Parameters
    ----------
    items : its own.
    title : how it is written, such as "branches".
    content : what each key is of, such as "branch".
    """

    def __init__(self, items: Mapping[Any, Any], title: str, content: str) -> None:
        super().__init__(items)
        self._title, self._content = title, content

    def __missing__(self, key: object) -> NoReturn:
        near = f" {self._title}.get({key!r:.80}, 0) gives 0 then." if isinstance(key, tuple) else ""
        raise MissingName(f"There is no {self._content} {key!r:.80}.", hint=f"{self._listed()}{near}")

    def __iter__(self) -> Iterator[Any]:
        caller = sys._getframe(1)
        if caller.f_code.co_code[caller.f_lasti] == opmap["UNPACK_SEQUENCE"]:
            raise WrongCall(
                f"{self._title} is a dictionary, which gives names when it is taken apart: a, b = {self._title}.",
                hint=f"Take each by its name: {self._title}[{next(super().__iter__(), 'name')!r}].",
            )
        return super().__iter__()

    def __call__(self, *arguments: Any, **options: Any) -> NoReturn:
        raise WrongCall(f"{self._title} is a dictionary, and takes no call.", hint=f"Without (): {self._listed()}")

    def _listed(self) -> str:
        return f"{self._title} has {', '.join(map(repr, self)) or 'nothing'}."

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            key = name if name in self else next(iter(self), "name")
            way = f"{self._title}[{key!r}]" + (f".{name}" if name not in self else "")
            raise MissingName(f"{self._title} has no {name!r}: it is a dictionary.", hint=f"Write {way}.")
