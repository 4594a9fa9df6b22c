"""What Spark's analysis refuses, in the words of the user's own program: by the names of the function's parameters.

Spark sees the arguments under names of the package's; nobody wrote these, so nobody is shown them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from watersmeet._spark.analysis.analysis import Flaw

ARGUMENT = "argument"
"""What the columns of arguments are called, with their numbers behind it."""
_ARGUMENT = re.compile(rf"{ARGUMENT}(\d+)")
_MADE_UP = re.compile(r"col(\d+)")
_SHOWN = 200


@dataclass(frozen=True)
class Arguments:
    """The arguments of a function.

    Parameters
    ----------
    names : of its parameters, as the user called them.
    kinds : their types.
    """

    names: Sequence[str]
    kinds: Sequence[DataType]

    def with_names(self, text: str) -> str:
        """A text of Spark's, by these names."""
        return _ARGUMENT.sub(lambda found: self._name(int(found[1])), text)

    def _name(self, number: int) -> str:
        return self.names[number] if number < len(self.names) else f"{ARGUMENT}{number}"

    def with_field(self, name: str) -> str | None:
        """The first argument, by the last, that has a field of this name."""
        named = zip(reversed(self.names), reversed(self.kinds), strict=False)
        return next((each for each, kind in named if isinstance(kind, StructType) and name in kind.names), None)

    def hint_of(self, flaw: Flaw, columns: Sequence[Column]) -> str:
        """The hint for a flaw: how to read a field with a name that Spark takes for a function, if there is one."""
        for name in flaw.names:
            has = self.with_field(name)
            if has is not None and any(re.search(rf"(?<![\w.]){name}\b(?!\()", str(each)) for each in columns):
                return f"Spark takes {name!r} for a function; the field is {has}[{name!r}], an argument's: take that."
        return flaw.hint

    @property
    def listed(self) -> str:
        """Names and types."""
        return "; ".join(
            f"{name}: {kind.simpleString():.{_SHOWN}}" for name, kind in zip(self.names, self.kinds, strict=False)
        )

    @property
    def hint(self) -> str:
        """The arguments of a function, as a hint."""
        return f"It gets {self.listed}."


Refusal = tuple[str, str]
"""(what is wrong, as the end of a sentence that begins with the function's role; hint)"""


def refusal_of(error: AnalysisException, arguments: Arguments) -> Refusal:
    """What Spark's analysis said."""
    condition = (error.getCondition() or "").partition(".")[0]
    said: Mapping[str, str] = error.getMessageParameters() or {}
    known = _KNOWN.get(condition)
    return _other(error, arguments) if known is None else known(error, {**said}, arguments)


def _unresolved(error: AnalysisException, said: Mapping[str, str], arguments: Arguments) -> Refusal:
    name = said.get("objectName", "").strip("`")
    what = f"names a column, {name!r} (as F.col({name!r}) does), and gets its Columns as arguments"
    if name in arguments.names:
        return what, f"Take the argument itself: {name} in place of F.col({name!r})."
    has = arguments.with_field(name)
    if has is not None:
        return what, f"Take it from its argument: {has}[{name!r}]."
    return what, f"Take it from an argument, such as value['field']. {arguments.hint}"


def _no_field(error: AnalysisException, said: Mapping[str, str], arguments: Arguments) -> Refusal:
    name, fields = said.get("fieldName", "").strip("`"), re.findall(r"`([^`]+)`", said.get("fields", ""))
    near = get_close_matches(name, fields, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"The fields are {', '.join(fields)}."
    return f"reads the field {name!r}, which is not there: there are {', '.join(fields)}", hint


def _no_fields(error: AnalysisException, said: Mapping[str, str], arguments: Arguments) -> Refusal:
    base, kind = arguments.with_names(said.get("base", "")).strip('"'), said.get("other", "").strip('"')
    name = base.rpartition(".")[2]
    has = f" It is a field of {arguments.with_field(name)}." if arguments.with_field(name) else ""
    text = "A text that holds JSON is read with value=wm.json('id long, name string') where the topic is read, or with "
    text += "F.from_json(text, 'id long'); a part of a text is F.substring(text, 1, 3)."
    hint = text if kind == "STRING" else "Only structs, arrays and maps have something in them."
    return f"takes a field of {base}, which is no struct but {kind}", f"{hint}{has} {arguments.hint}"


def _foreign(error: AnalysisException, said: Mapping[str, str], arguments: Arguments) -> Refusal:
    names = said.get("missingAttributes", "").replace('"', "")
    return (
        f"takes a column of another DataFrame: {names}",
        f"A function has its arguments alone: read the other DataFrame as a table, and join it. {arguments.hint}",
    )


def _routine(error: AnalysisException, said: Mapping[str, str], arguments: Arguments) -> Refusal:
    from pyspark.sql import functions as F

    name = said.get("routineName", "").strip("`")
    near = get_close_matches(name, dir(F), n=1)
    hint = f"Did you mean {near[0]}?" if near else "It takes functions that Spark has."
    return f"calls {name!r}, which Spark does not have", hint


def _mismatch(error: AnalysisException, said: Mapping[str, str], arguments: Arguments) -> Refusal:
    text = arguments.with_names(_message(error))
    if "should all be the same type" in text and "STRUCT<" in text:
        return (
            f"does not fit its arguments. {text}",
            "Give the fields of each struct the same names: F.array(F.struct(a.alias('key'), b.alias('value')), "
            f"F.struct(c.alias('key'), d.alias('value'))). {arguments.hint}",
        )
    return (
        f"does not fit its arguments. {text}",
        f"Take a field of the argument, or cast it: value['field'].cast('double'). {arguments.hint}",
    )


def _over(error: AnalysisException, said: Mapping[str, str], arguments: Arguments) -> Refusal:
    name = said.get("funcName", "").strip('"')
    return (
        f"looks at more than one record: {name} is a window function",
        "A function gets one record at a time: group_by_key().agg(...), or aggregate(...), look at those of a key.",
    )


def _other(error: AnalysisException, arguments: Arguments) -> Refusal:
    return f"does not fit its arguments. {arguments.with_names(_message(error))}", arguments.hint


def _message(error: AnalysisException) -> str:
    """Spark's sentence, without its code."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = re.sub(r"^\[[\w.]+\]\s*", "", lines[0].strip()) if lines else type(error).__name__
    return re.sub(r"\s*SQLSTATE: \w+;?.*$", "", text)


_KNOWN: dict[str, Callable[[AnalysisException, Mapping[str, str], Arguments], Refusal]] = {
    "UNRESOLVED_COLUMN": _unresolved,
    "FIELD_NOT_FOUND": _no_field,
    "INVALID_EXTRACT_BASE_FIELD_TYPE": _no_fields,
    "MISSING_ATTRIBUTES": _foreign,
    "UNRESOLVED_ROUTINE": _routine,
    "DATATYPE_MISMATCH": _mismatch,
    "WINDOW_FUNCTION_WITHOUT_OVER_CLAUSE": _over,
}
"""By Spark's condition."""


def field_refusal(kind: DataType, text: str, arguments: Arguments) -> Refusal | None:
    """Why the fields of a result are not to be: one has a name that nobody wrote, or two have one.

    Parameters
    ----------
    kind : the result's type.
    text : the Column as text.
    """
    own = {name for given in arguments.kinds for struct in _structs(given) for name in struct.names}
    for struct in _structs(kind):
        for number, name in enumerate(struct.names, start=1):
            argument = _ARGUMENT.fullmatch(name)
            made_up = _MADE_UP.fullmatch(name)
            if argument is not None and name not in own:
                if re.search(r"(?<![\w'])\*(?![\w'])", text) and "struct(*)" in text:
                    return (
                        "takes all columns, '*', and gets its Columns as arguments",
                        f"Name what you want: F.struct({_first(arguments)}, ...).",
                    )
                return _unnamed(arguments.with_names(name), arguments.with_names(name))
            counted = made_up is not None and int(made_up[1]) == number and name not in own
            if counted and "struct(" in text and not re.search(rf"AS `?{name}\b|'{name}'", text):
                return _unnamed(name, "name")
        twice = next((n for n in struct.names if [each.lower() for each in struct.names].count(n.lower()) > 1), None)
        if twice is not None and not any(_has_twice(each) for given in arguments.kinds for each in _structs(given)):
            last = [n for n in struct.names if n.lower() == twice.lower()][-1]
            return (
                f"makes two fields of one name: {last!r}",
                "Give one of them another name: F.struct(a, b.alias('other')). Names differ by more than their case.",
            )
    return None


def _unnamed(name: str, alias: str) -> Refusal:
    return (
        f"makes a field that nobody has named: {name!r}",
        f"Give each field a name: F.struct(a, F.upper(b).alias({alias!r})).",
    )


def _first(arguments: Arguments) -> str:
    last, kind = arguments.names[-1], arguments.kinds[-1]
    return f"{last}[{kind.names[0]!r}]" if isinstance(kind, StructType) and kind.names else last


def _has_twice(struct: StructType) -> bool:
    return len({name.lower() for name in struct.names}) < len(struct.names)


def _structs(kind: DataType) -> Iterator[StructType]:
    """The structs of a type, with those within."""
    if isinstance(kind, StructType):
        yield kind
        for each in kind.fields:
            yield from _structs(each.dataType)
    elif isinstance(kind, ArrayType):
        yield from _structs(kind.elementType)
    elif isinstance(kind, MapType):
        yield from _structs(kind.keyType)
        yield from _structs(kind.valueType)


def boolean_hint(kind: DataType) -> str:
    """The result of a predicate that returns a value of another type."""
    if isinstance(kind, StringType):
        return "Return a boolean Column: value['field'] == 'text', or value['field'].isNotNull()."
    return "Return a boolean Column: value['field'] > 0, or value['field'].isNotNull()."
