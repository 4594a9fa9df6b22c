"""The errors a user of watersmeet can meet: each says what is wrong, what was given, and what to do.

Vocabulary: imported by every layer, imports none. A message has three parts, because a person who reads
it at night needs all three: the fault, the thing that was given, and a line that starts with ``Hint:``.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from enum import Enum
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TypeVar

PACKAGE_FOLDER = str(Path(__file__).parent)
"""Where the package lies: a line in another file may be the user's own."""
E = TypeVar("E", bound="WatersmeetError")
Raised = TypeVar("Raised", bound=BaseException)


class WatersmeetError(Exception):
    """Base of every error that watersmeet raises on purpose.

    Parameters
    ----------
    message : what is wrong, one sentence.
    given : what was found instead, as the user wrote it; left out when there is nothing to show, or the message has it.
    hint : what to do about it.

    Attributes
    ----------
    passing : whether it may pass by itself, as when Kafka does not answer: what was tried may be tried again.
    """

    passing = False

    def __init__(self, message: str, *, given: object = None, hint: str | None = None) -> None:
        self.message = message = printable(message)
        self.given = given = printable(given) if isinstance(given, str) else given
        self.hint = hint
        parts = [message]
        if given is not None:
            parts.append(f"Given: {given}")
        if hint is not None:
            parts.append(f"Hint: {hint}")
        super().__init__("\n".join(parts))

    def __reduce__(self) -> tuple[object, ...]:
        # The default rebuilds from `args`, the joined text: an error that crosses from a Spark worker
        # to the driver must keep its parts.
        return _rebuild, (type(self), self.message, self.given, self.hint)


def did_you_mean(
    name: str,
    names: Iterable[str],
    otherwise: str = "",
    *,
    form: Callable[[str], object] = str,
    suffix: str = "",
    cutoff: float = 0.6,
) -> str:
    """A hint that asks for the nearest of the names that there are.

    Parameters
    ----------
    otherwise : the hint where none is near.
    form : how a name stands in the question.
    suffix : what follows in either case.
    cutoff : how near it must be, of 1.

    >>> did_you_mean("ordres", ["orders", "payments"], form=repr, suffix="There are two.")
    "Did you mean 'orders'? There are two."
    >>> did_you_mean("zebra", ["orders"], "There is orders.")
    'There is orders.'
    """
    near = get_close_matches(name, list(names), n=1, cutoff=cutoff)
    return " ".join(filter(None, (f"Did you mean {form(near[0])}?" if near else otherwise, suffix)))


def passing(error: E) -> E:
    """The error, as one that may pass by itself."""
    error.passing = True
    return error


def printable(text: str) -> str:
    """The text with each half of a surrogate, which no encoding has, as an escape."""
    return text.encode(errors="backslashreplace").decode()


# Whose line an error was raised on: what a user is shown of a trace are their own lines.


@cache
def is_others(file: str) -> bool:
    """Whether a file is none of the user's: the package's own, Spark's, Python's, or that of a bridge between them."""
    library, installed = sysconfig.get_path("stdlib"), {*map(sysconfig.get_path, ("purelib", "platlib"))}
    spark = find_spec("pyspark")
    # a Column may be given to numpy, pandas and pyarrow, which fall over it
    packages = (str(Path(site, name)) for site in installed for name in ("numpy", "pandas", "pyarrow", "py4j/"))
    others = (PACKAGE_FOLDER, *(spark.submodule_search_locations or () if spark else ()), *packages)
    return file.startswith(("<frozen", *others)) or (file.startswith(library) and not file.startswith((*installed,)))


def traces_of(error: BaseException) -> Iterator[TracebackType]:
    """The frames that an error has passed, the innermost last."""
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def user_traces(error: BaseException) -> list[TracebackType]:
    """Those of the frames that are of the user's own code."""
    return [trace for trace in traces_of(error) if not is_others(trace.tb_frame.f_code.co_filename)]


def on_own_lines(error: Raised) -> Raised:
    """The error with the user's own lines alone in its trace, and in that of its cause."""
    own = None
    for trace in reversed(user_traces(error)):
        own = TracebackType(own, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
    if error.__cause__ is not None:
        on_own_lines(error.__cause__)
    return error.with_traceback(own)


def _rebuild(kind: type[WatersmeetError], message: str, value: object, hint: str | None) -> WatersmeetError:
    return kind(message, given=value, hint=hint)


class TopologyError(WatersmeetError):
    """The topology cannot be built as written: names, types, functions, settings of a node."""


class FunctionError(TopologyError):
    """A user's function does not fit: it failed, returned something other than a column, or raises for a record."""


class SqlError(TopologyError):
    """A statement of SQL cannot be a topology: its message shows the place in the text, and says what to write."""


class MissingName(TopologyError, AttributeError):
    """A name that is not there: it is called otherwise here, or is not there yet."""


class WrongCall(TopologyError, TypeError):
    """A call that does not fit: an option that is not there, an argument that is left out or has no place."""


class ConfigError(WatersmeetError):
    """A setting of the session, the source, the sink or the checkpoint does not fit."""


class ChangedTopology(ConfigError):
    """A checkpoint was written by another topology, shard count, generation or state format."""


class CorruptData(WatersmeetError):
    """Bytes that were written earlier (a blob, a state chunk, a file of a checkpoint) do not read back."""


class StateError(CorruptData):
    """The state of an operator is incomplete or contradicts its manifest."""


class SourceError(WatersmeetError):
    """A record of a source cannot be read; nothing of its batch is written."""


class SinkError(WatersmeetError):
    """Records could not be written to Kafka; none of their batch counts as written."""


class EncodingError(SinkError):
    """An output's format does not write a key or a value (KIP-399 calls it a serialization error)."""


# The generations of Kafka Streams semantics that a topology can follow (docs/semantics/generations.md).
#
# Vocabulary. ``current`` is what Kafka Streams 3.1 and later promise, with watersmeet's repairs; the others
# reproduce what earlier releases did, for people who must reproduce their results.


class Generation(Enum):
    """One generation of join semantics; the value is the name a user writes."""

    CURRENT = "current"
    SPURIOUS = "spurious"
    OLD = "old"
    OLD_0_10_0 = "old-0.10.0"

    @property
    def is_old(self) -> bool:
        """True for the rules of 0.10.0 and 0.10.1."""
        return self in (Generation.OLD, Generation.OLD_0_10_0)

    @classmethod
    def of(cls, name: str | Generation) -> Generation:
        """The generation of that name.

        Raises
        ------
        TopologyError : unknown generation.
        """
        try:
            return cls(name)
        except ValueError:
            names = ", ".join(repr(g.value) for g in cls)
            raise TopologyError(f"Unknown generation {name!r}.", hint=f"Use one of {names}.") from None


# Packages that only some of watersmeet needs: which are missing, and how they are installed.
#
# Vocabulary. There is no release yet: what is installed is a clone, and so are its extras.


def installing(extra: str) -> str:
    """How an extra is installed, as a hint.

    >>> installing("registry")
    'In the clone: pip install ".[registry]"'
    """
    return f'In the clone: pip install ".[{extra}]"'


def missing_packages(packages: Iterable[str]) -> list[str]:
    """Those that cannot be imported, of packages by the names of their modules.

    >>> missing_packages(["json", "no_such_package", "no_such_package.part"])
    ['no_such_package', 'no_such_package.part']
    """
    return [name for name in packages if not _is_there(name)]


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of the package above it
        return False
