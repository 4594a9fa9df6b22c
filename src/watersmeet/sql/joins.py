"""Joins of rows by equalities: which of the library's joins each becomes, and the columns and the key of the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pyspark.sql.types import DataType
from sqlglot import exp

from watersmeet.sql.rows import (
    KEY,
    LEFT,
    RIGHT,
    VALUE,
    Fields,
    Key,
    Name,
    Relation,
    Tree,
    all_of,
    as_type,
    cast,
    common_type,
    exists,
    field_path,
    is_path,
    maker,
    of_pair,
    of_row,
    rebased,
    root,
    roots_of,
    same,
    struct_of,
    when,
)

How = Literal["inner", "left", "outer"]
Pair = tuple[Tree, Tree]
"""The two sides of an equality: a tree over the left rows, and one over the right."""


@dataclass(frozen=True)
class Wanted:
    """A join: of pairs, with columns (None: all), on what else (`joint` trees); `mark`: if there is a right row."""

    form: How
    pairs: Sequence[Pair]
    names: frozenset[Name] | None
    condition: Tree | None = None
    mark: Name | None = None

    def takes(self, name: Name) -> bool:
        """Whether a column is read."""
        return self.names is None or name in self.names


BOUNDS = frozenset({"#window_start", "#window_end"})
"""Roots of what the groups of a stream will have; its records do not."""
LEFT_KEY, RIGHT_KEY = "#leftkey", "#rightkey"
"""The roots of a condition for the keys of either side."""


def joint(tree: Tree, *, left: bool) -> Tree:
    """A tree over one side's rows as one over both."""
    return rebased(
        tree, {KEY: root(LEFT_KEY), VALUE: root(LEFT)} if left else {KEY: root(RIGHT_KEY), VALUE: root(RIGHT)}
    )


@dataclass(frozen=True)
class Reference:
    """A reference to rows by their key: its parts, of the rows that refer, and the pairs that are equal besides."""

    trees: tuple[Tree, ...]
    beside: tuple[Pair, ...]


def reference_to(rows: Relation, pairs: Sequence[Pair], latter: Relation) -> Reference | None:
    """The word of `latter` on the key of `rows` by pairs of trees over (`latter`, `rows`); None: not the whole key."""
    if rows.key.make is None or rows.is_stream:
        return None
    entries: list[Tree] = []
    left = list(pairs)
    kinds = rows.types(rows.key.parts) if rows.key.parts else []
    for part, kind in zip(rows.key.parts, kinds, strict=True):
        for pair in left:
            usable = as_type(pair[0], latter.types([pair[0]])[0], kind) if same(pair[1], part) else None
            if usable is not None:
                entries.append(usable)
                left.remove(pair)
                break
        else:
            return None
    return Reference(tuple(entries), tuple(left))


def certain(trees: Sequence[Tree], outcome: Tree) -> Tree:
    """An outcome of trees, where none of them is null."""
    condition = all_of(exists(tree) for tree in trees)
    return outcome if condition is None or (len(trees) == 1 and same(trees[0], outcome)) else when(condition, outcome)


class Result:
    """The columns of a result under construction."""

    def __init__(self) -> None:
        self.fields = Fields()
        self.columns: dict[Name, Tree] = {}

    def add(self, name: Name, tree: Tree) -> None:
        """Add a column."""
        stays = (is_path(tree) and roots_of(tree) == {KEY}) or roots_of(tree) & BOUNDS
        path = tree if stays else self.fields.add(tree, name[1], name[0])
        if tree.meta.get("known"):
            path.meta["known"] = True
        self.columns[name] = path

    def side(self, rows: Relation, to: Mapping[str, Tree], request: Wanted, present: Tree | None, safe: str) -> None:
        """Add a side's columns, null where it is not `present` (None: it is); paths from `safe` are so themselves."""
        for name, tree in rows.columns.items():
            if not request.takes(name):
                continue
            moved = rebased(tree, to)
            plain = is_path(moved) and roots_of(moved) == {safe} and (request.condition is None or present is None)
            # NOT NULL holds of its rows, and there may be none
            moved.meta["known"] = present is None and bool(tree.meta.get("known"))
            self.add(name, moved if present is None or plain else when(present, moved))

    def sides(self, rows: Sequence[Relation], moves: Sequence[Mapping[str, Tree]], request: Wanted) -> Result:
        """Add the columns of both sides of a join, of which either may have no row."""
        presence = {"inner": (None, None), "left": (None, RIGHT), "outer": (LEFT, RIGHT)}[request.form]
        for side, move, safe in zip(rows, moves, presence, strict=True):
            self.side(side, move, request, None if safe is None else exists(root(safe)), safe or "")
        return self


def by_reference(left: Relation, right: Relation, refers: Sequence[Tree], request: Wanted) -> Relation:
    """The join of rows with the one row that each refers to; the result has their key."""
    assert right.key.make is not None, "who refers has asked for it"
    foreign = certain(refers, right.key.make(refers))
    keys = {LEFT_KEY: root(KEY), RIGHT_KEY: rebased(right.key.make(refers), {VALUE: root(LEFT)})}
    condition = None if request.condition is None else rebased(request.condition, keys)
    present = all_of([exists(root(RIGHT)), *([condition] if condition is not None else [])])
    result = Result()
    result.side(left, {VALUE: root(LEFT)}, request, None, LEFT)
    presence = present if request.form == "left" else None
    result.side(right, {VALUE: root(RIGHT), KEY: keys[RIGHT_KEY]}, request, presence, RIGHT)
    if request.mark is not None:
        # a condition on nulls is null, and then there is no row
        met = exp.Coalesce(this=present, expressions=[exp.false()])
        result.add(request.mark, met if request.form == "left" else exp.true())
    meets = result.fields.add(condition, "meets") if condition is not None and request.form == "inner" else None
    join = left.handle.left_join if request.form == "left" else left.handle.join
    options = {} if _is_own_key(left, right, foreign) else {"foreign_key": of_row(foreign)}
    handle = join(right.handle, of_pair(result.fields.struct), **options)
    return Relation(handle if meets is None else handle.filter(of_row(meets)), result.columns, left.key, left.facts)


def _is_own_key(left: Relation, right: Relation, foreign: Tree) -> bool:
    """Whether rows refer to rows of their own key, which is never null."""
    bare = foreign.args["ifs"][0].args["true"] if isinstance(foreign, exp.Case) else foreign
    return _is_key(bare, left, right) and not right.is_global


def _is_key(tree: Tree, left: Relation, right: Relation) -> bool:
    """Whether a tree over left rows is their own key, never null, and of the type of the right one."""
    entire = same(tree, root(KEY)) or (left.key.make is not None and same(tree, left.key.make(left.key.parts)))
    return entire and left.key.certain and left.handle.key_type == right.handle.key_type


def outer_by_key(left: Relation, right: Relation, request: Wanted) -> Relation:
    """The outer join of rows by their whole key."""
    result = Result().sides((left, right), ({VALUE: root(LEFT)}, {VALUE: root(RIGHT)}), request)
    handle = left.handle.outer_join(right.handle, of_pair(result.fields.struct))
    return Relation(handle, result.columns, left.key, left.facts)


def by_equality(
    left: Relation, right: Relation, request: Wanted, beside: tuple[Tree | None, Tree | None]
) -> Relation | None:
    """The join by equal values, of rows for which `beside` holds; None: the values of a pair are never compared."""
    values = compared(left, right, request.pairs)
    if values is None:
        return None
    sides = []
    for trees, condition in zip(values, beside, strict=True):
        value = trees[0] if len(trees) == 1 else struct_of({f"v{n}": tree for n, tree in enumerate(trees)})
        value = certain(trees, value)
        sides.append(of_row(value if condition is None else when(condition, value)))
    moves = {VALUE: root(LEFT), KEY: root(KEY, "prefix")}, {VALUE: root(RIGHT), KEY: root(KEY, "suffix")}
    result = Result().sides((left, right), moves, request)
    join = {"inner": left.handle.join, "left": left.handle.left_join, "outer": left.handle.outer_join}[request.form]
    handle = join(right.handle, of_pair(result.fields.struct), on=(sides[0], sides[1]))
    return Relation(handle, result.columns, _pair_key(left.key, right.key, request.form), left.facts)


def _pair_key(left: Key, right: Key, form: How) -> Key:
    parts = [rebased(element, {KEY: root(KEY, "prefix")}) for element in left.parts]
    parts += [rebased(element, {KEY: root(KEY, "suffix")}) for element in right.parts]
    names: list[str] = []
    for name in (*left.names, *right.names):
        names.append(name if name not in names else f"{name}_{len(names)}")
    former, latter, count = left.make, right.make, len(left.parts)
    if former is None or latter is None:
        return Key(tuple(parts), tuple(names))
    make = lambda trees: struct_of({"prefix": former(trees[:count]), "suffix": latter(trees[count:])})  # noqa: E731
    return Key(
        tuple(parts),
        tuple(names),
        make if form == "inner" else None,
        left.certain and right.certain and form == "inner",
    )


def compared(left: Relation, right: Relation, pairs: Sequence[Pair]) -> tuple[list[Tree], list[Tree]] | None:
    """The values of either side, in types that meet; None: those of a pair never do."""
    ones, remainder_rows = [former for former, _ in pairs], [latter for _, latter in pairs]
    entries: tuple[list[Tree], list[Tree]] = ([], [])
    for former, latter, kind, second in zip(
        ones, remainder_rows, left.types(ones), right.types(remainder_rows), strict=True
    ):
        to = common_type(kind, second)
        if to is None:
            return None
        for side, tree, local in ((0, former, kind), (1, latter, second)):
            entries[side].append(tree if local == to else cast(tree, to))
    return entries


def never_compared(left: Relation, right: Relation, pairs: Sequence[Pair]) -> tuple[int, DataType, DataType] | None:
    """The first pair with values of types that Spark does not compare without a cast: its number and the types."""
    for number, (former, latter) in enumerate(pairs):
        kinds = left.types([former])[0], right.types([latter])[0]
        if common_type(*kinds) is None:
            return (number, *kinds)
    return None


def joined(
    left: Relation, right: Relation, request: Wanted, beside: tuple[Tree | None, Tree | None] = (None, None)
) -> Relation | None:
    """The join of rows for which `beside` holds by what is equal; None: no key, and a condition on both sides."""
    swapped = [(latter, former) for former, latter in request.pairs]
    refers = reference_to(right, request.pairs, left)
    back = reference_to(left, swapped, right)
    if request.form == "outer":
        only_equal = beside == (None, None) and request.condition is None and refers is not None and not refers.beside
        if only_equal and refers is not None and back is not None and _is_whole(left, right, refers.trees):
            return outer_by_key(left, right, request)
        return None if request.condition is not None or not request.pairs else by_equality(left, right, request, beside)
    if refers is not None:
        sides = [
            joint(element, left=local)
            for element, local in zip(beside, (True, False), strict=True)
            if element is not None
        ]
        sides += [*_joint_pairs(refers.beside), *(() if request.condition is None else (request.condition,))]
        return by_reference(left, right, refers.trees, replace(request, condition=all_of(sides)))
    if request.form == "inner" and back is not None and not left.is_global:
        condition = all_of(_joint_pairs(back.beside))
        return by_reference(right, left, back.trees, replace(request, pairs=swapped, condition=condition))
    if request.condition is not None or not request.pairs or right.is_global or left.is_global:
        return None
    return by_equality(left, right, request, beside)


def _joint_pairs(pairs: Iterable[Pair]) -> list[Tree]:
    return [
        exp.EQ(this=exp.Paren(this=joint(former, left=True)), expression=exp.Paren(this=joint(latter, left=False)))
        for former, latter in pairs
    ]


def _is_whole(left: Relation, right: Relation, refers: Sequence[Tree]) -> bool:
    assert right.key.make is not None, "it refers"
    return _is_key(right.key.make(refers), left, right) and right.key.certain


def struct_key(names: Sequence[str], *, certain: bool = False) -> Key:
    """A key that is a struct of columns."""
    return Key(tuple(field_path(root(KEY), name) for name in names), tuple(names), maker(names), certain)
