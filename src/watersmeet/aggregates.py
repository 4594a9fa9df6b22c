"""Aggregates by name (`wm.sum`, `wm.count`, ...), and plain Python functions of values (`wm.python`).

Vocabulary: frozen descriptions, which a grouped stream or table evaluates. All leave out records whose argument is
null, as SQL's aggregates do.

>>> top_k(lambda value: value, k=3)
Aggregate('top_k', k=3)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import TopologyError
from watersmeet.names import answered

Function = Callable[..., Any]


@dataclass(frozen=True)
class Aggregate:
    """An aggregate by name.

    Parameters
    ----------
    kind : its name.
    argument : Column function of (value) or (key, value), evaluated before records are grouped; None: of `count`,
        each record counts.
    k : of `top_k`, how many.
    """

    kind: str
    argument: Function | None = None
    k: int | None = None

    def __repr__(self) -> str:
        return f"Aggregate({self.kind!r}{'' if self.k is None else f', k={self.k}'})"

    @property
    def text(self) -> str:
        """What `describe` prints of it."""
        return self.kind if self.k is None else f"{self.kind}({self.k})"


@dataclass(frozen=True)
class PythonFunction:
    """A plain Python function of values, called record by record; made by `python`.

    Parameters
    ----------
    function : of plain Python values.
    returns : type of its result, in Spark's words ("long", "struct<n: long>") or as a DataType; None: as the
        aggregate's type is known otherwise.
    """

    function: Function
    returns: Any = None


@answered
def python(function: Function, returns: Any = None) -> PythonFunction:
    """A plain Python function where a function of Columns may stand, called once for each record.

    That is in folds (adder, subtractor, reducer, merger), and wherever a function of Columns makes a value, a key or a
    condition of a record: `stream.map_values(wm.python(str.upper, "string"))`. It runs in the level, or, beside a
    function that Spark evaluates, in Spark's Python workers. Where all its arguments are null it is not called, but in
    folds, and its result is null. What it raises goes by `on_error`.

    It sees values as Python has them: structs and maps are dictionaries, arrays are lists, nested ones too, and times
    are in UTC. What it gives may be a Row, a tuple or pairs; it is made into what it would be read back as, so that it
    is the same in the next call and in the next batch. What is not of the type is an error. It costs some microseconds
    for each record; Columns that the level can evaluate cost less. It gives the same for the same arguments, which it
    leaves as they are: an aggregate that it changes in place may stand behind other records.

    Parameters
    ----------
    function : takes what the Column function would take, as values.
    returns : type of its result, in Spark's words or as a DataType; of an aggregator this is the aggregate's type. Only
        folds and predicates may leave it out. Where a key and a value are wanted it is a struct of the two.

    Raises
    ------
    FunctionError : (of the call that it is given to) it takes other arguments, or `returns` is none of Spark's types.

    Examples
    --------
    >>> python(str.upper, "string").returns
    'string'
    """
    return PythonFunction(function, returns)


@answered
def count(argument: Function | None = None) -> Aggregate:
    """How many records, or how many whose argument is not null: a long."""
    return Aggregate("count", argument)


@answered
def sum(argument: Function) -> Aggregate:
    """The sum: a long of integers, a double of floats, a decimal of decimals; null of no records.

    Of a grouped table a sum of floats is exact and rounded once: what leaves the table leaves nothing behind, NaN and
    infinities included.
    """
    return Aggregate("sum", argument)


@answered
def min(argument: Function) -> Aggregate:
    """The smallest value; of a grouped table all values are kept, since the smallest may go."""
    return Aggregate("min", argument)


@answered
def max(argument: Function) -> Aggregate:
    """The largest value; NaN is larger than all numbers, as Spark has it."""
    return Aggregate("max", argument)


@answered
def avg(argument: Function) -> Aggregate:
    """The mean, a double: the sum of the values as doubles, as Spark casts them, by their number."""
    return Aggregate("avg", argument)


@answered
def stddev(argument: Function) -> Aggregate:
    """The standard deviation of a sample (n - 1), a double; null of fewer than two records, NaN of what is not finite.

    Of a grouped table it is that of the rows which are left, whatever has come and gone.
    """
    return Aggregate("stddev", argument)


@answered
def first(argument: Function) -> Aggregate:
    """The value that came first; of a grouped stream only."""
    return Aggregate("first", argument)


@answered
def last(argument: Function) -> Aggregate:
    """The value that came last; of a grouped stream only."""
    return Aggregate("last", argument)


@answered
def collect_list(argument: Function) -> Aggregate:
    """All values in the order in which they came."""
    return Aggregate("collect_list", argument)


@answered
def collect_set(argument: Function) -> Aggregate:
    """The different values, in the order in which they first came; -0.0 is 0.0 and NaN is one, as in Spark."""
    return Aggregate("collect_set", argument)


@answered
def count_distinct(argument: Function) -> Aggregate:
    """How many different values there are: a long. They are kept; -0.0 is 0.0, and NaN is one, as in Spark."""
    return Aggregate("count_distinct", argument)


@answered
def top_k(argument: Function, k: int) -> Aggregate:
    """The `k` largest values, the largest first."""
    given: Any = k
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise TopologyError(
            f"top_k keeps a whole number of values, more than zero: k={k!r:.80}.",
            hint="For example wm.top_k(lambda value: value['amount'], k=3).",
        )
    return Aggregate("top_k", argument, k)


NAMES = frozenset(
    (
        "count",
        "sum",
        "min",
        "max",
        "avg",
        "stddev",
        "first",
        "last",
        "collect_list",
        "collect_set",
        "count_distinct",
        "top_k",
    )
)
"""What the functions that make aggregates are called."""
