"""Hints for uses of streams and tables as Python values: they have no rows to count, iterate over or compare here."""

from __future__ import annotations

from typing import Any, NoReturn

from watersmeet.errors import WrongCall

_CURES = {
    "[...]": "map_values(lambda value: value['field']) takes a field of each; of a query's table wm.read_state(spark, "
    "checkpoint, store) gives the rows",
    "[...] =": "map_values(lambda value: value.withField('field', ...)) gives each a field",
    "for": "peek(function) shows each record to a function; TopologyTestDriver gives a test the results",
    "len": "group_by_key().count() counts the records of each key",
    "in": "filter(lambda value: ...) keeps the records that are wanted",
    "+": "one.merge(other) brings two streams together; join(...) what has one key",
    "|": "one.merge(other) merges two streams; in a predicate, | joins conditions of a Column",
    "&": "join(other, joiner) joins by key; in a predicate, & joins conditions of a Column",
    ">": "filter(lambda value: value['field'] > 5) compares in each record",
}


class NoValue:
    """Answers what Python does with values: with what a stream or a table has in its place."""

    def __getitem__(self, key: Any) -> NoReturn:
        self._refuse("[...]", f"[{key!r:.60}]")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        self._refuse("[...] =", f"[{key!r:.60}] = ...")

    def __iter__(self) -> NoReturn:
        self._refuse("for", "a loop (for, list, sorted, ...)")

    def __len__(self) -> int:
        self._refuse("len", "len")

    def __bool__(self) -> bool:
        return True

    def __contains__(self, value: Any) -> bool:
        self._refuse("in", "in")

    def __add__(self, other: Any) -> NoReturn:
        self._refuse("+", "+")

    def __or__(self, other: Any) -> NoReturn:
        self._refuse("|", "|")

    def __and__(self, other: Any) -> NoReturn:
        self._refuse("&", "&")

    def __gt__(self, other: Any) -> bool:
        self._refuse(">", ">")

    def __ge__(self, other: Any) -> bool:
        self._refuse(">", ">=")

    def __lt__(self, other: Any) -> bool:
        self._refuse(">", "<")

    def __le__(self, other: Any) -> bool:
        self._refuse(">", "<=")

    def _refuse(self, what: str, shown: str) -> NoReturn:
        kind = type(self).__name__
        raise WrongCall(f"A {kind} is no value of Python's, and has no {shown}.", hint=f"{_CURES[what]}.")
