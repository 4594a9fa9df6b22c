"""The joins of streams, tables, windowed tables and several tables, as methods of their handles. Handle layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args, overload

from watersmeet._engine.windowing import Calendar
from watersmeet._plan.nodes import How, Node, SelectKeyNode, Shape, type_text
from watersmeet._plan.operators.joins import (
    ForeignKeyNode,
    GlobalLookupNode,
    GlobalTableLookupNode,
    GlobalViewNode,
    ManyToManyNode,
    Match,
    MultiJoinNode,
    OneToManyNode,
    StreamMatchNode,
    StreamStreamNode,
    StreamTableGraceNode,
    StreamTableNode,
    StreamVersionedTableNode,
    StreamWTableNode,
    TableTableNode,
    TableWTableNode,
    WTableJoinNode,
    WTableTableNode,
    WTableWTableNode,
    view_of,
)
from watersmeet.api import handle
from watersmeet.api.folds import Grouped
from watersmeet.api.handle import (
    CALLED,
    Handle,
    HandleKind,
    Side,
    StoreOptions,
    parameters_of,
    require_same_builder,
    require_same_key,
    same_type,
    side_of,
)
from watersmeet.errors import Generation, TopologyError
from watersmeet.functions import (
    Function,
    FunctionBackend,
    adapt,
    asks_for_record,
    belonging,
    names_of,
    record_of,
    seeing_record,
    types_for,
    wants,
)
from watersmeet.hints import answering
from watersmeet.io.origins import described, reading
from watersmeet.windows import (
    DAY_MS,
    CalendarWindows,
    Duration,
    JoinWindows,
    KafkaName,
    Previous,
    TimeWindows,
    Windows,
    duration_ms,
    not_negative,
)

if TYPE_CHECKING:
    from watersmeet.api.streams import KStream
    from watersmeet.api.tables import GlobalKTable, KTable, WTable


# A join as it is written down, and a kind of join: which options and types it may have, how it is attached.
#
# Handle layer.

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
    windows, match, generation, grace, key, result_key, foreign_key, on, window_of, keep, shift : what not all kinds of
        join take; None: not given.
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
    on: Any = field(default=None, kw_only=True)
    window_of: Function | None = field(default=None, kw_only=True)
    keep: Duration | None = field(default=None, kw_only=True)
    shift: Shift | None = field(default=None, kw_only=True)

    @property
    def options(self) -> dict[str, Any]:
        """The given options that only some kinds of joins take, by name."""
        values = {option.name: getattr(self, option.name) for option in fields(self) if option.kw_only}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class JoinKind:
    """The join of one kind of left side with one kind of right side.

    Parameters
    ----------
    attach : makes the node of (left, right, join), and attaches it.
    hows : the types that it may have.
    instead : what to write where the type that is wanted is none of them.
    needs : the options that it cannot do without: (what each is, how it is given).
    takes : the options that may be given besides.
    """

    attach: Callable[[Side, Side, Join], Node]
    hows: tuple[How, ...] = ("inner", "left")
    instead: str | None = None
    needs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    takes: tuple[str, ...] = ()

    def check(self, left: Side, right: Side, join: Join, elsewhere: Callable[[str], str]) -> None:
        """Raise unless it has the type, and the options are those of this kind.

        Parameters
        ----------
        elsewhere : says of an option where it belongs, as the end of a sentence.

        Raises
        ------
        TopologyError : it has not, or they are not.
        """
        subject = f"A join of a {CALLED[left.kind]} with {right.called}"
        if join.how not in self.hows:
            raise TopologyError(f"{subject} has no {join.how} form.", hint=self.instead)
        foreign = {name: value for name, value in join.options.items() if name not in (*self.needs, *self.takes)}
        if foreign:
            listing = ", ".join(f"{name}={option_text(value)}" for name, value in foreign.items())
            raise TopologyError(
                f"{subject} takes no {' and no '.join(foreign)}: {listing}.",
                hint=" ".join(f"Leave {name}= out: {elsewhere(name)}" for name in foreign),
            )
        for name, (description, way) in self.needs.items():
            if getattr(join, name) is None:
                raise TopologyError(f"{subject} needs {description}: {name}=None.", hint=way)


def option_text(value: Any) -> str:
    """The value of an option, as a text of one line: a function by its name."""
    if callable(value):
        name = str(getattr(value, "__name__", type(value).__name__))
        return "lambda ..." if name == "<lambda>" else name
    return f"{value!r:.120}"


def joiner_of(left: Side, right: Side, join: Join) -> tuple[Function, Any]:
    """(joiner of key, left, right; type of its result)."""
    of_stream = left.kind == "stream"
    joiner = adapt(join.joiner, ("key", "left", "right"), "joiner", left.functions, sees_record=of_stream)
    types = types_for(joiner, (left.key_type, left.value_type, right.value_type))
    return joiner, left.functions.value_type(joiner, types, "joiner")


def reference(referring: Side, referred: Side, selector: Any, option: str, role: str) -> Function:
    """A function of (key, value) that returns keys of another table, if its type is theirs.

    Parameters
    ----------
    selector : what the user gave, for the option.
    role : what errors call it.

    Raises
    ------
    TopologyError : the type is another one.
    FunctionError : it is no such function.
    """
    require_same_builder(referring, referred, "join")
    function = adapt(selector, ("key", "value"), role, referring.functions)
    kind = referring.functions.value_type(function, referring.types, role)
    if not same_type(kind, referred.key_type):
        expected = type_text(referred.key_type)
        raise TopologyError(
            f"The {role} returns another type than the keys of the other table: {option}= returns "
            f"{type_text(kind)}, and {referred.name!r} has keys of {expected}.",
            hint=f"Cast its result: {option}=lambda value: value['field'].cast('{expected}').",
        )
    return function


def name_of(left: Side, right: Side, join: Join, stem: str) -> str:
    """The name of the join's node."""
    return left.construction.name(join.name, stem, left.name, right.name)


# Joins with tables by key and window: the nodes, and what is refused (docs/semantics/wtable.md). Handle layer.

SAY_KEEP = 'Say how long after its end and grace a window still joins: keep="14 days".'


@dataclass(frozen=True)
class Meeting:
    """Which windows meet, and how long they are wanted.

    Parameters
    ----------
    lives : of both sides, how long behind its end a window still meets, in ms; None: a side without windows.
    window_of : gives the window of a right row that a left row meets; None: the left row's own.
    distance : how much earlier that one begins, in ms.
    """

    lives: tuple[int | None, int | None]
    window_of: Function | None = None
    distance: int = 0


def attach_to_rows(left: Side, right: Side, join: Join) -> Node:
    """The node of a join of all windows of a key with the row that a table has of it, attached."""
    return _attached(WTableTableNode, left, right, join, Meeting((left.wait_ms + _keep_ms(join.keep), None)))


def attach_windows(left: Side, right: Side, join: Join) -> Node:
    """The node of a join of windows with windows, attached."""
    shift = join.shift
    if shift is not None and join.how == "outer":
        raise TopologyError(
            f"An outer join takes no shift, and shift={option_text(shift)} is given: an unmatched right row has no "
            "window of the left table to stand under.",
            hint="Use left_join(wtable, joiner, shift=...), or leave shift= out.",
        )
    if shift is None:
        _require_same_windows(left, right)
        # equal windows live equally long
        live = max(left.wait_ms, right.wait_ms) + _keep_ms(join.keep)
        return _attached(WTableWTableNode, left, right, join, Meeting((live, live)))
    if isinstance(shift, Previous):
        _require_same_windows(left, right)
        if isinstance(left.windows, CalendarWindows):
            distance, window_of = 0, _by_calendar(left, left.windows, shift.count)
            keep_ms = _keep_ms(join.keep, (shift.count + 1) * left.windows.longest_ms)
        else:
            distance, size = _distance(left, shift)
            keep_ms, window_of = _keep_ms(join.keep, distance + size), None
    else:
        distance, keep_ms, window_of = 0, _required_keep_ms(join.keep), _shifting(left, shift)
        _check_window(left, window_of, "shift")
    return _attached(
        WTableWTableNode,
        left,
        right,
        join,
        Meeting((left.wait_ms + keep_ms, right.wait_ms + keep_ms), window_of, distance),
    )


def attach_pointing(left: Side, right: Side, join: Join) -> Node:
    """The node of a join of a stream, or of a table, with the windows that its rows name, attached."""
    selector: Any = join.window_of
    window_of = adapt(selector, ("key", "value"), "window_of", left.functions)
    _check_window(left, window_of, "window_of")
    make = StreamWTableNode if left.kind == "stream" else TableWTableNode
    return _attached(make, left, right, join, Meeting((None, right.wait_ms + _keep_ms(join.keep)), window_of))


def _attached(make: type[WTableJoinNode], left: Side, right: Side, join: Join, meeting: Meeting) -> Node:
    require_same_key(left, right, "join")
    joiner, value = joiner_of(left, right, join)
    node = make(
        name_of(left, right, join, make.stem),
        (left.name, right.name),
        Shape(left.node.shape.kind, left.key_type, value),
        how=join.how,
        joiner=joiner,
        by=left.plain_key_type,
        lives=meeting.lives,
        window_of=meeting.window_of,
        distance=meeting.distance,
        store=join.store,
    )
    return left.construction.add(node)


def _shifting(left: Side, shift: Function) -> Function:
    adapted, parts = adapt(shift, ("key", "window"), "shift"), left.functions.windowed_parts
    return lambda key, _: adapted(*parts(key))


def _by_calendar(left: Side, windows: CalendarWindows, count: int) -> Function:
    """The window of the calendar so many periods earlier, as a function of key and value."""
    calendar, functions = Calendar(windows), left.functions

    def previous(_: Any, window: dict[str, int]) -> dict[str, int] | None:
        period = calendar.earlier(window["start"], count)
        return None if period is None else {"start": period[0], "end": period[1]}

    shift = functions.plain(previous, functions.window_type(), "shift")
    return lambda key, _: shift(*functions.windowed_parts(key))


def _require_same_windows(left: Side, right: Side) -> None:
    if _definition(left.windows) != _definition(right.windows):
        raise TopologyError(
            f"Tables of different windows join only with shift=, which pairs their windows: {left.name!r} has "
            f"{left.windows!r}, {right.name!r} has {right.windows!r}.",
            hint="Aggregate both by the same windows; or shift=lambda window: F.struct(...), keep=...",
        )


def _definition(windows: Windows | None) -> tuple[Any, ...]:
    """Windows without their grace, which says how long they change, not which there are."""
    lengths = () if windows is None else fields(windows)
    return (type(windows), *(getattr(windows, length.name) for length in lengths if length.name != "grace_ms"))


def _distance(table: Side, shift: Previous) -> tuple[int, int]:
    """(how far the previous window lies back, size of a window), in ms."""
    windows = table.windows
    if not isinstance(windows, TimeWindows):
        raise TopologyError(
            f"Only tumbling, hopping and calendar windows have previous ones: shift={shift!r}, and {table.name!r} has "
            f"{windows!r}.",
            hint="Give a function: shift=lambda window: F.struct(...), keep=...; it must return a window of the table.",
        )
    return shift.count * windows.advance_ms, windows.size_ms


def _keep_ms(keep: Duration | None, least: int = 0) -> int:
    """What `keep` says, in ms; else a day, or the least that is needed."""
    return max(DAY_MS, least) if keep is None else not_negative(duration_ms(keep, "keep"), "keep", "keep='2 days'")


def _required_keep_ms(keep: Duration | None) -> int:
    if keep is None:
        raise TopologyError(
            "A function as shift needs keep=, the time for which windows are joined: keep=None.", hint=SAY_KEEP
        )
    return _keep_ms(keep)


def _check_window(left: Side, window_of: Function, role: str) -> None:
    functions = left.functions
    kind, expected = functions.value_type(window_of, left.types, role), functions.window_type()
    if not same_type(kind, expected):
        raise TopologyError(
            f"The {role} must return a window, and {role}= returns {type_text(kind)}.",
            hint=f"Return {type_text(expected)}, in ms: F.struct(start.cast('long').alias('start'), "
            "end.cast('long').alias('end')).",
        )


# Joins with global tables: lookups of a stream or a table, and views of global tables (semantics/global_lookup.md).
#
# Handle layer.


def attach_lookup(left: Side, right: Side, join: Join) -> Node:
    """The node of a join of a stream, or of a table, with a global table, attached."""
    of_stream = left.kind == "stream"
    option, selector = ("key", join.key) if of_stream else ("foreign_key", join.foreign_key)
    mapper = reference(left, right, selector, option, "key mapper")
    joiner = _with_both_keys(join.joiner, left.functions, of_stream=of_stream)
    types = types_for(joiner, (left.key_type, right.key_type, left.value_type, right.value_type))
    value = left.functions.value_type(joiner, types, "joiner")
    make: type[GlobalLookupNode] = GlobalLookupNode if of_stream else GlobalTableLookupNode
    node = make(
        name_of(left, right, join, make.stem),
        (left.name, _by_steps(right).name),
        Shape(left.node.shape.kind, left.key_type, value),
        how=join.how,
        mapper=mapper,
        joiner=joiner,
        generation=left.construction.generation,
        store=join.store,
    )
    return left.construction.add(node)


def attach_view(left: Side, right: Side, join: Join) -> Node:
    """The node of a view of two global tables, attached; with `store=`, and that of its rows."""
    mapper = reference(left, right, join.key, "key", "key mapper")
    joiner, value = joiner_of(left, right, join)
    node = GlobalViewNode(
        name_of(left, right, join, GlobalViewNode.stem),
        (left.name, _by_steps(right).name),
        Shape("global", left.key_type, value),
        how=join.how,
        mapper=mapper,
        joiner=joiner,
    )
    view = replace(left, node=left.construction.add(node))
    if join.store is not None:
        rows_of(view, join.store)
    return node


def rows_of(side: Side, store: str | None = None) -> Side:
    """A global table with rows of its own: for a view the join, by a foreign key, of its tables' rows, attached once.

    Parameters
    ----------
    store : the name of its queryable table.
    """
    view, construction = view_of(side.node), side.construction
    if view is None:
        return side
    node = next((node for node in construction.nodes if node.part_of == view.name), None)
    if node is None:
        left, right = (rows_of(replace(side, node=node)) for node in construction.inputs_of(view))
        node = ForeignKeyNode(
            f"{view.name}-rows",
            (left.name, right.name),
            replace(view.shape, kind="table"),
            how=view.how,
            extractor=view.mapper,
            joiner=view.joiner,
            store=store,
            part_of=view.name,
        )
        construction.add(node)
    return replace(side, node=node)


def _by_steps(side: Side) -> Side:
    """The side that lookups go through: where a view's left side is one, its rows, of which the next key is made."""
    view = view_of(side.node)
    return side if view is None or not side.construction.input_of(view).is_view else rows_of(side)


def _with_both_keys(joiner: Function, functions: FunctionBackend, *, of_stream: bool) -> Function:
    """The joiner as one of (key, mapped key, left, right), and of the record, where it sees that."""
    if asks_for_record(joiner, ("key", "mapped_key", "left", "right"), "joiner", allowed=of_stream) and wants(
        joiner, 5
    ):
        names = names_of(joiner, 5)
        return seeing_record(joiner, joiner, functions.record_type(), names)
    shorter = asks_for_record(joiner, ("key", "left", "right"), "joiner", allowed=of_stream)
    if wants(joiner, 4) and not shorter:
        return joiner
    adapted = adapt(joiner, ("key", "left", "right"), "joiner", functions, sees_record=of_stream)

    def joined(key: Any, mapped_key: Any, left: Any, right: Any, *record: Any) -> Any:
        return adapted(key, left, right, *record)

    key, *remaining = names_of(adapted, 4 if shorter else 3)
    extended = belonging(joined, joiner, (key, "mapped_key", *remaining))
    return seeing_record(extended, joiner, record_of(adapted), (key, "mapped_key", *remaining)) if shorter else extended


# Windowed joins of two streams: the node, and what is refused (docs/semantics/stream_stream.md). Handle layer.

SAY_WINDOWS = (
    "Say how far apart records may be: join(other, joiner, "
    "wm.JoinWindows.of_time_difference_and_grace('5 minutes', '1 minute'))."
)


def attach_stream_stream(left: Side, right: Side, join: Join) -> Node:
    """The node, attached."""
    windows: Any = join.windows
    if not isinstance(windows, JoinWindows):
        raise TopologyError(
            f"A join of two streams takes JoinWindows, and not windows={windows!r:.80}.", hint=SAY_WINDOWS
        )
    require_same_key(left, right, "join")
    return _of_all(left, right, join, windows) if join.match is None else _of_one(left, right, join, windows)


def _of_all(left: Side, right: Side, join: Join, windows: JoinWindows) -> Node:
    joiner, value = joiner_of(left, right, join)
    construction = left.construction
    generation = _generation(left, join)
    current = generation is Generation.CURRENT
    node = StreamStreamNode(
        name_of(left, right, join, StreamStreamNode.stem),
        (left.name, right.name),
        Shape("stream", left.key_type, value),
        how=join.how,
        joiner=joiner,
        windows=windows,
        generation=Generation.SPURIOUS if join.generation is None and current and windows.eager else generation,
        relaxed=current,
    )
    return construction.add(node)


def _of_one(left: Side, right: Side, join: Join, windows: JoinWindows) -> Node:
    match: Any = join.match
    if match not in get_args(Match):
        raise TopologyError(
            f"Unknown match={match!r:.80}.",
            hint="match='all', each record in the window; match='first', the earliest of them; or match='nearest'.",
        )
    generation = _generation(left, join)
    if generation is not Generation.CURRENT:
        raise TopologyError(
            f"match={match!r} has no generation {generation.value!r}: no release of Kafka Streams has it.",
            hint="Leave match= out, or the generation of the join and of the builder.",
        )
    if windows.eager:
        raise TopologyError(
            f"match={match!r} waits for the end of the window, and the windows of JoinWindows.of do not: "
            f"windows={windows!r}.",
            hint="windows=wm.JoinWindows.of_time_difference_and_grace('5 minutes', '1 minute').",
        )
    joiner, value = joiner_of(left, right, join)
    node = StreamMatchNode(
        name_of(left, right, join, StreamMatchNode.stem),
        (left.name, right.name),
        Shape("stream", left.key_type, value),
        how=join.how,
        joiner=joiner,
        windows=windows,
        match=match,
    )
    return left.construction.add(node)


def _generation(left: Side, join: Join) -> Generation:
    return left.construction.generation if join.generation is None else Generation.of(join.generation)


# Joins of two tables: by their keys, by a foreign key, and of one with many. Handle layer.


def attach_tables(left: Side, right: Side, join: Join) -> Node:
    """The node of a join by the tables' keys, or by a foreign key, attached."""
    if join.on is not None:
        return _by_equality(left, right, join)
    if join.result_key is not None:
        raise TopologyError(
            "result_key= makes the key of a join by equal values out of both keys: on= is missing.",
            hint="on=('city', 'city'), or leave result_key= out.",
        )
    if join.foreign_key is not None:
        return _by_foreign_key(left, right, join, join.foreign_key)
    require_same_key(left, right, "join")
    joiner, value = joiner_of(left, right, join)
    construction, inputs, shape = left.construction, (left.name, right.name), Shape("table", left.key_type, value)
    if construction.generation is Generation.CURRENT and construction.forks(*inputs):
        # It goes by what has arrived, so that a record which changes both sides leaves the right row (KAFKA-6443).
        name = name_of(left, right, join, MultiJoinNode.stem)
        return construction.add(MultiJoinNode(name, inputs, shape, hows=(join.how,), joiner=joiner, store=join.store))
    node = TableTableNode(
        name_of(left, right, join, TableTableNode.stem),
        inputs,
        shape,
        how=join.how,
        joiner=joiner,
        generation=construction.generation,
        store=join.store,
    )
    return construction.add(node)


def _by_foreign_key(left: Side, right: Side, join: Join, foreign_key: Function) -> Node:
    extractor = reference(left, right, foreign_key, "foreign_key", "foreign key extractor")
    joiner, value = joiner_of(left, right, join)
    node = ForeignKeyNode(
        name_of(left, right, join, ForeignKeyNode.stem),
        (left.name, right.name),
        Shape("table", left.key_type, value),
        how=join.how,
        extractor=extractor,
        joiner=joiner,
        generation=left.construction.generation,
        store=join.store,
    )
    return left.construction.add(node)


_ON = "on=(lambda left: left['city'], lambda right: right['city']), or on='city' where both have it."


def values_of_on(left: Side, right: Side, join: Join) -> tuple[list[Function], Any]:
    """What `on=` says is equal: (functions of key and value of either side, the type of what they give).

    Raises
    ------
    TopologyError : it says nothing, or gives values of two types.
    """
    if join.foreign_key is not None:
        raise TopologyError("on= and foreign_key= are two ways to say what joins.", hint="Leave one of them out.")
    require_same_builder(left, right, "join")
    if callable(join.on) and {"left", "right"} <= set(signature(join.on).parameters):
        raise TopologyError(
            f"on= takes no condition over both sides: on={option_text(join.on)}.",
            hint=f"Say what each side compares: {_ON}",
        )
    pair = join.on if isinstance(join.on, tuple) and len(join.on) == 2 else (join.on, join.on)
    sides = left, right
    values = [_compared(side, function) for side, function in zip(sides, pair, strict=True)]
    kinds = [left.functions.value_type(value, side.types, "on") for side, value in zip(sides, values, strict=True)]
    if not same_type(*kinds):
        raise TopologyError(
            f"Values of two types are never equal: on= gives {type_text(kinds[0])} of {left.name!r}, and "
            f"{type_text(kinds[1])} of {right.name!r}.",
            hint="Cast both to one type that holds all values of both: on=lambda value: value['city'].cast('double').",
        )
    return values, kinds[0]


def _by_equality(left: Side, right: Side, join: Join) -> Node:
    values, kind = values_of_on(left, right, join)
    functions = left.functions
    combined = functions.combined_type(left.key_type, right.key_type)
    joiner = adapt(join.joiner, ("key", "left", "right"), "joiner", functions)
    node = ManyToManyNode(
        name_of(left, right, join, ManyToManyNode.stem),
        (left.name, right.name),
        Shape("table", combined, functions.value_type(joiner, (combined, left.value_type, right.value_type), "joiner")),
        how=join.how,
        joiner=joiner,
        by=kind,
        left_value=values[0],
        right_value=values[1],
        generation=left.construction.generation,
        store=None if join.result_key is not None else join.store,
    )
    left.construction.add(node)
    return node if join.result_key is None else _under(left, node, join.result_key, join.store)


def _compared(side: Side, on: Any) -> Function:
    """The function of key and value that gives what is compared of a side: the user's, or of a field of its name."""
    if isinstance(on, str):
        name = on
        return adapt(lambda value: value[name], ("key", "value"), "on", side.functions)
    if not callable(on):
        raise TopologyError(f"on= says what is equal on both sides: on={option_text(on)}.", hint=_ON)
    return adapt(on, ("key", "value"), "on", side.functions)


def attach_one_to_many(one: Side, many: Side, join: Join) -> Node:
    """The node of a join of one with many, attached; with `result_key`, and one behind it that makes the key."""
    functions = one.functions
    extractor = reference(many, one, join.key, "key", "key extractor")
    if join.how == "left":
        # its own key is the value that a row of `one` is found by
        of_row = belonging(lambda key, value: extractor(key, value), extractor, ("key", "value"))
        return _by_equality(one, many, replace(join, key=None, on=(lambda key, value: key, of_row)))
    combined = functions.combined_type(one.key_type, many.key_type)
    joiner = adapt(join.joiner, ("key", "one", "many"), "joiner", functions)
    value = functions.value_type(joiner, (combined, one.value_type, many.value_type), "joiner")
    node = OneToManyNode(
        name_of(one, many, join, OneToManyNode.stem),
        (one.name, many.name),
        Shape("table", combined, value),
        extractor=extractor,
        joiner=joiner,
        generation=one.construction.generation,
        store=None if join.result_key is not None else join.store,
    )
    one.construction.add(node)
    return node if join.result_key is None else _under(one, node, join.result_key, join.store)


def _under(one: Side, joined: Node, result_key: Function, store: str | None) -> Node:
    functions = one.functions

    def selector(key: Any, value: Any) -> Any:
        return result_key(*functions.combined_parts(key))

    kind = functions.value_type(selector, (joined.shape.key, joined.shape.value), "result key")
    shape = Shape("table", kind, joined.shape.value)
    name = f"{joined.name}-result_key"
    return one.construction.add(
        SelectKeyNode(name, (joined.name,), shape, selector=selector, store=store, part_of=joined.name)
    )


# The node of a join of a stream with a table: a lookup now, as of the record's time, or a grace later.


def attach_stream_table(stream: Side, table: Side, join: Join) -> Node:
    """The node, attached."""
    require_same_key(stream, table, "join")
    construction = stream.construction
    history = construction.history_of(table.node)
    grace_ms = 0 if join.grace is None else _grace_ms(join.grace, table, history)
    joiner, value = joiner_of(stream, table, join)
    make: type[StreamTableNode] = StreamTableNode
    options: dict[str, Any] = {"how": join.how, "joiner": joiner, "generation": construction.generation}
    if history is not None:
        make, options["table_history_ms"] = StreamVersionedTableNode, history
    if grace_ms:
        make, options["grace_ms"] = StreamTableGraceNode, grace_ms
    name = name_of(stream, table, join, StreamTableNode.stem)
    return construction.add(make(name, (stream.name, table.name), Shape("stream", stream.key_type, value), **options))


def _grace_ms(grace: Duration, table: Side, history: int | None) -> int:
    grace_ms = duration_ms(grace, "grace")
    if grace_ms < 0:
        raise TopologyError(
            f"The grace of a join must not be negative: grace={grace!r}.", hint='For example grace="1 minute".'
        )
    if history is None:
        raise TopologyError(
            f"A table must be versioned to be joined with a grace: grace={grace!r}, and {table.name!r} has no history.",
            hint='Give the table one: builder.table(..., history="1 day"), stream.to_table(history="1 day"). A filter '
            "or mapper with store= ends it.",
        )
    if history < grace_ms:
        raise TopologyError(
            f"The table's history must be at least as long as the grace of the join: grace={grace!r}, and "
            f"{table.name!r} has a history of {history} ms.",
            hint="Give the table a longer history, or the join a shorter grace.",
        )
    return grace_ms


# Which joins there are: a table by the left side's kind and the right side's. Handle layer.
#
# A method of a handle makes one `Join` of what it is given; `joined` finds its kind, checks it, attaches the node, and
# gives the handle of it, which is of the kind of the left side.

ALL_TYPES: tuple[How, ...] = ("inner", "left", "outer")
SAY_KEY = "Give it: join(table, joiner, {}=lambda value: value['country'])."
NEEDS_WINDOW = {
    "window_of": (
        "a function that names the window",
        "left_join(wtable, joiner, window_of=lambda value: F.struct(start.alias('start'), end.alias('end')), "
        'keep="2 days").',
    ),
    "keep": ("the time for which windows are wanted", SAY_KEEP),
}


@dataclass(frozen=True)
class Joins:
    """The joins of one kind of handle.

    Parameters
    ----------
    says : as the beginning of a sentence.
    kinds : the kind of join with each kind of right side.
    hint : what to write where the right side is none of them; given what it is.
    right : what the method calls its right side.
    """

    says: str
    kinds: Mapping[HandleKind, JoinKind]
    hint: Callable[[Any], str]
    right: str = "other"


def _global(option: str) -> JoinKind:
    return JoinKind(
        attach_lookup,
        instead=f"Use left_join(table, joiner, {option}=...).",
        needs={option: ("the key to look up", SAY_KEY.format(option))},
    )


def _other_first(candidate: Any) -> str | None:
    """The hint for something else than what is joined with; None: there is no special one."""
    if isinstance(candidate, list | tuple | dict):
        return "Join with one after the other: stream.join(one, joiner).join(other, joiner)."
    if isinstance(candidate, Grouped):
        return "An aggregate makes a table of what is grouped: join(grouped.count(), joiner)."
    if callable(candidate) or isinstance(type(candidate), KafkaName):
        return "What is joined with goes first: join(other, lambda left, right: ..., windows)."
    return None


POINTING = JoinKind(
    attach_pointing,
    instead='Use left_join(wtable, joiner, window_of=lambda value: ..., keep="2 days").',
    needs=NEEDS_WINDOW,
)
JOINS: dict[HandleKind, Joins] = {
    "stream": Joins(
        "A stream joins with a stream, a table, a global table or a table by key and window",
        {
            "stream": JoinKind(
                attach_stream_stream,
                ALL_TYPES,
                needs={"windows": ("windows, which are JoinWindows", SAY_WINDOWS)},
                takes=("generation", "match"),
            ),
            "table": JoinKind(
                attach_stream_table,
                instead="Take left_join(table, joiner), or make a table of the stream: "
                "stream.to_table().outer_join(table, joiner).",
                takes=("grace",),
            ),
            "global": _global("key"),
            "wtable": POINTING,
        },
        lambda candidate: (
            _other_first(candidate)
            or f"Read it first: builder.table({reading(candidate)}), builder.global_table or builder.stream."
        ),
    ),
    "table": Joins(
        "A table joins with a table, a global table or a table by key and window",
        {
            "table": JoinKind(attach_tables, ALL_TYPES, takes=("foreign_key", "on", "result_key")),
            "global": _global("foreign_key"),
            "wtable": POINTING,
        },
        lambda candidate: (
            _other_first(candidate)
            or "Convert it (stream.to_table()), or let the stream drive: stream.join(table, ...)."
        ),
    ),
    "wtable": Joins(
        "A table by key and window joins with a table or with another one by key and window",
        {
            "table": JoinKind(attach_to_rows, instead="Use wtable.left_join(table, joiner).", takes=("keep",)),
            "wtable": JoinKind(attach_windows, ALL_TYPES, takes=("shift", "keep")),
        },
        lambda _: (
            "wtable.left_join(table, joiner) or wtable.join(wtable, joiner, shift=...); of a stream make a "
            "table first: stream.to_table()."
        ),
    ),
    "global": Joins(
        "A global table joins with global tables only",
        {"global": JoinKind(attach_view, needs={"key": ("the key to look up", SAY_KEY.format("key"))})},
        lambda _: (
            "A global table drives nothing: its updates give no results. Join from the other side: "
            "stream.join(table, joiner, key=...)."
        ),
    ),
}
ONE_TO_MANY = Joins(
    "A one-to-many join joins two tables",
    {
        "table": JoinKind(
            attach_one_to_many,
            instead='Use how="inner" or how="left"; many.left_join(one, joiner, foreign_key=...) keeps rows of many.',
            needs={"key": ("the key that its rows refer to", "key=lambda value: value['one'], a function of `many`.")},
            takes=("result_key",),
        )
    },
    lambda _: "Make a table of a stream first: one.one_to_many_join(stream.to_table(), ...).",
    "many",
)
OTHERWISE = {
    "key": ". A stream gets its key before: stream.select_key(...).join(table, ...)",
    "grace": ". A windowed join has its grace in its JoinWindows, and a global table has no past",
}
"""What to write in the place of an option, beside where it belongs."""


def joined(left: Side, right: Any, join: Join, joins: Joins | None = None) -> Any:
    """The handle of a join, of the same kind as the left side's.

    Parameters
    ----------
    right : what the user gave as the right side.
    joins : those that the method can make; None: those of the left side's kind.

    Raises
    ------
    TopologyError : unknown join; an option that it does not have, or that is left out; or the two sides do not fit.
    FunctionError : a function is none, or does not fit.
    """
    joins = joins or JOINS[left.kind]
    side = side_of(right)
    kind = None if side is None else joins.kinds.get(side.kind)
    if side is None or kind is None:
        description = described(right) if side is None else side.called
        raise TopologyError(f"{joins.says}, and {joins.right} is {description}.", hint=joins.hint(right))
    kind.check(left, side, join, lambda option: _belongs(option, joins))
    return handle.handle_of(replace(left, node=kind.attach(left, side, join)))


def _belongs(option: str, joins: Joins) -> str:
    """Where an option belongs, as the end of a sentence."""
    owners = [CALLED[right] for right, kind in joins.kinds.items() if option in (*kind.needs, *kind.takes)]
    return f"it belongs to a join with a {' or a '.join(owners)}{OTHERWISE.get(option, '')}."


# Joins of several tables by their common key, in one operator. Handle layer.

_EXAMPLE = "For example one.multi_join([other, another], lambda one, other, another: ...)."


def attach_multi_join(
    first: Side, others: Any, joiner: Function, how: Any, name: str | None, store: str | None
) -> Side:
    """The side of a join with several tables, attached; `others` and `how` as the user gave them.

    Raises
    ------
    TopologyError : they are no tables, or their keys differ; unknown join type.
    FunctionError : the joiner is no function, or does not fit.
    """
    sides = (first, *_tables(others))
    for side in sides[1:]:
        require_same_key(first, side, "join")
    parameters = ("key", *(f"value{number}" for number in range(1, len(sides) + 1)))
    joiner = adapt(joiner, parameters, "joiner", first.functions)
    value = first.functions.value_type(joiner, (first.key_type, *(side.value_type for side in sides)), "joiner")
    inputs = tuple(side.name for side in sides)
    node = MultiJoinNode(
        first.construction.name(name, MultiJoinNode.stem, *inputs),
        inputs,
        Shape("table", first.key_type, value),
        hows=_hows(how, len(inputs) - 1),
        joiner=joiner,
        generation=first.construction.generation,
        store=store,
    )
    return replace(first, node=first.construction.add(node))


def _tables(tables: Any) -> list[Side]:
    candidates = list(tables) if isinstance(tables, (list, tuple)) else [tables]
    if not candidates:
        raise TopologyError("A join of several tables needs another one: others=[].", hint=_EXAMPLE)
    sides = []
    for candidate in candidates:
        side = side_of(candidate)
        if side is None or side.kind != "table":
            description = described(candidate) if side is None else side.called
            raise TopologyError(
                f"A join of several tables takes tables: others has {description}.",
                hint="Make a table of a stream first: stream.to_table().",
            )
        sides.append(side)
    return sides


def _hows(how: Any, count: int) -> tuple[How, ...]:
    hows = tuple(how) if isinstance(how, Sequence) and not isinstance(how, str) else (how,) * count
    if len(hows) != count:
        raise TopologyError(
            f"A join of several tables has a type for each of the others: how={how!r} has {len(hows)} for {count}.",
            hint='For example how=["inner", "left"], or how="left" for all of them.',
        )
    if any(element not in ALL_TYPES for element in hows):
        raise TopologyError(f"Unknown type of join: how={how!r:.80}.", hint='Use "inner", "left" or "outer".')
    return hows


class EqualJoinOptions(StoreOptions, total=False):
    """The values that are equal in rows of two tables that are joined, and the key of their results."""

    on: str | Function | tuple[str | Function, str | Function] | None
    result_key: Function | None


class TableJoinOptions(EqualJoinOptions, total=False):
    """How two tables are joined."""

    foreign_key: Function | None


@answering
class TableJoins(Handle):
    """The joins of a table with tables, global tables, and tables by key and window."""

    @overload
    def join(self, other: KTable, joiner: Function, **options: Unpack[TableJoinOptions]) -> KTable: ...

    @overload
    def join(
        self, other: GlobalKTable, joiner: Function, *, foreign_key: Function, **options: Unpack[StoreOptions]
    ) -> KTable: ...

    @overload
    def join(
        self, other: WTable, joiner: Function, *, window_of: Function, keep: Duration, **options: Unpack[StoreOptions]
    ) -> KTable: ...

    def join(self, other: Any, joiner: Function, **options: Any) -> KTable:
        """Inner join: a row for each key that both tables have (KIP-77), by a foreign key (KIP-213) or equal values.

        Parameters
        ----------
        other : a table with the same type of key; with `foreign_key` or `on`, of any key; or a global table, which is
            only looked up: its changes give no results; or a table by key and window.
        joiner : Column function of (left, right) or (key, left, right) that makes the value.
        foreign_key : Column function of (value) or (key, value) that gives, of each row of this table, the
            key of the other table that it refers to; null: none. The result has this table's keys: a row for
            each of its rows with an existing reference.
        on : what must be equal in rows of both tables: a pair of Column functions of (value) or (key, value), one for
            each table, or of names of fields; one of them stands for both. The result has a row for each pair, keyed
            by both keys, the struct (`prefix`, `suffix`).
        result_key : with `on`, Column function of both keys that makes the result's key, a different one for each pair.
        window_of : for a table by key and window, Column function of (value) or (key, value) that gives the window
            that a row points at, a struct of the longs `start` and `end` in ms; null: none.
        keep : for such a table, how long after its end and grace a window still joins, a duration ("2 days").
        name, store : names of the operator and of its queryable table.

        Raises
        ------
        TopologyError : an option does not belong to a join with `other`, or is left out; or the types of key differ.

        Examples
        --------
        >>> named = lambda order, customer: customer["country"]
        >>> results(orders.to_table().join(customers, named, foreign_key=lambda order: order["customer"]))
        [(1, 'FR'), (2, 'DE'), (1, 'DE'), (3, 'DE')]
        """
        return self._join(other, Join("inner", joiner, **options))

    @overload
    def left_join(self, other: KTable, joiner: Function, **options: Unpack[TableJoinOptions]) -> KTable: ...

    @overload
    def left_join(
        self, other: GlobalKTable, joiner: Function, *, foreign_key: Function, **options: Unpack[StoreOptions]
    ) -> KTable: ...

    @overload
    def left_join(
        self, other: WTable, joiner: Function, *, window_of: Function, keep: Duration, **options: Unpack[StoreOptions]
    ) -> KTable: ...

    @parameters_of(join)
    def left_join(self, other: Any, joiner: Function, **options: Any) -> KTable:
        """Left join: a row for each of this table's keys; right may be null.

        Parameters as for `KTable.join`.

        Examples
        --------
        >>> results(customers.left_join(discounts, lambda customer, percent: F.coalesce(percent, F.lit(0))))
        [('ann', 0), ('bob', 0), ('ann', 20), ('ann', 20)]
        """
        return self._join(other, Join("left", joiner, **options))

    @parameters_of(join)
    def outer_join(self, other: KTable, joiner: Function, **options: Unpack[EqualJoinOptions]) -> KTable:
        """Outer join on the primary key: a row for each key of either table; one side may be null.

        Parameters
        ----------
        other : a table with the same type of key; with `on`, of any key.

        Other parameters as for `KTable.join`.

        Examples
        --------
        >>> results(customers.outer_join(discounts, lambda customer, percent: F.coalesce(customer["name"], F.lit("?"))))
        [('ann', 'Ann'), ('bob', 'Bob'), ('ann', 'Ann'), ('ann', 'Ann'), ('carl', '?')]
        """
        return self._join(other, Join("outer", joiner, **options))

    def one_to_many_join(
        self,
        many: KTable,
        joiner: Function,
        *,
        key: Function,
        how: Literal["inner", "left"] = "inner",
        result_key: Function | None = None,
        name: str | None = None,
        store: str | None = None,
    ) -> KTable:
        """Join with a table of rows that refer to this one, keyed by both keys (KIP-213, first proposal).

        Parameters
        ----------
        many : the table of rows that refer to rows of this one.
        joiner : Column function of (one, many) or (key, one, many), where key is the combined key.
        key : Column function of (value) or (key, value) of `many` that gives the key of this table.
        how : "inner", or "left": a row of this table to which none refers stands alone, with a null suffix.
        result_key : Column function of (prefix, suffix), the keys of this table and of `many`, that makes the
            result's key out of both, a different one for each pair; without it the key is the struct
            (`prefix`, `suffix`), which a Kafka topic gets as KIP-213's bytes, in the partition of the prefix.
        name, store : names of the operator and of its queryable table.

        Raises
        ------
        TopologyError : `many` is no table, or the key is of another type than this table's; unknown `how`.

        Examples
        --------
        >>> amount, customer_of = lambda customer, order: order["amount"], lambda order: order["customer"]
        >>> both = lambda customer, order: F.concat(customer, F.lit("-"), order)
        >>> results(customers.one_to_many_join(orders.to_table(), amount, key=customer_of, result_key=both))
        [('ann-1', 30.0), ('bob-2', 5.0), ('ann-1', 30.0), ('ann-3', 12.0)]
        """
        return self._join(many, Join(how, joiner, name, store, key=key, result_key=result_key), ONE_TO_MANY)

    def multi_join(
        self,
        others: Sequence[KTable],
        joiner: Function,
        *,
        how: How | Sequence[How] = "inner",
        name: str | None = None,
        store: str | None = None,
    ) -> KTable:
        """Join with several tables by their common key, in one operator that keeps each table once.

        A change of any table gives one result. A chain of joins ends with the same rows, but keeps each result but the
        last as well, and may give more results for one change.

        Parameters
        ----------
        others : tables with the same type of key.
        joiner : Column function of the values of all tables, this one's first, or of the key and these, that makes the
            value.
        how : "inner", "left" or "outer", or a list of "inner" and "left", one for each of the others. A row needs this
            table and all inner ones; if all are outer, any one of them.
        name, store : names of the operator and of its queryable table.

        Raises
        ------
        TopologyError : an element of `others` is no table, or there is none; a type of key differs; unknown `how`.

        Examples
        --------
        >>> sum_of = lambda customer, percent, bonus: F.coalesce(percent, F.lit(0)) + F.coalesce(bonus, F.lit(0))
        >>> bonuses = discounts.map_values(lambda percent: percent * 10)
        >>> results(customers.multi_join([discounts, bonuses], sum_of, how="left"))
        [('ann', 0), ('bob', 0), ('ann', 200), ('ann', 220), ('ann', 220)]
        """
        result: KTable = handle.handle_of(attach_multi_join(self._side, others, joiner, how, name, store))
        return result

    def _join(self, right: Any, join: Join, joins: Joins | None = None) -> KTable:
        result: KTable = joined(self._side, right, join, joins)
        return result


# The joins of a stream: part of `KStream`. Handle layer.

Matched = Literal["all", "first", "nearest"]
"""Which records of another stream a record is joined with."""


class StreamPairOptions(TypedDict, total=False):
    """How two streams are joined."""

    match: Matched
    generation: str | Generation | None
    name: str | None


@answering
class StreamJoins(Handle):
    """The joins of a stream with streams, tables, global tables, and tables by key and window."""

    @overload
    def join(
        self, other: KStream, joiner: Function, windows: JoinWindows, **options: Unpack[StreamPairOptions]
    ) -> KStream: ...

    @overload
    def join(
        self, other: KTable, joiner: Function, *, grace: Duration | None = None, name: str | None = None
    ) -> KStream: ...

    @overload
    def join(self, other: GlobalKTable, joiner: Function, *, key: Function, name: str | None = None) -> KStream: ...

    @overload
    def join(
        self, other: WTable, joiner: Function, *, window_of: Function, keep: Duration, name: str | None = None
    ) -> KStream: ...

    def join(self, other: Any, joiner: Function, windows: JoinWindows | None = None, **options: Any) -> KStream:
        """Each record with the table's value of its key, or with each record of another stream in the window.

        Parameters
        ----------
        other : a table or a stream with the same type of key, a global table, or a table by key and window.
        joiner : Column function of (left, right) or (key, left, right) that makes the value; with a global
            table also of (key, mapped key, left, right).
        windows : of two streams, how far apart their timestamps may be.
        match : of two streams, which records of the other one a record is joined with: "all" in its window; the "first"
            of them by timestamp, or the "nearest", of equally near ones the earlier. Then each record has at most one
            result, which comes once its window and the grace have passed (docs/semantics/stream_match.md).
        key : for a global table, Column function of (value) or (key, value) that gives the key to look up;
            where it gives null nothing is found.
        window_of : for a table by key and window, Column function of (value) or (key, value) that returns the window to
            look up, a struct of the longs `start` and `end` in ms; null: none.
        keep : for such a table, how long after its end and grace a window is still found, a duration ("2 days").
        generation : of two streams, the releases of Kafka Streams to reproduce: "current", "spurious" (0.10.2 to 3.0,
            and the deprecated `JoinWindows.of`), "old" (0.10.1), "old-0.10.0".
        grace : with a versioned table, how long a record is held back, in time of the stream, so that changes of the
            table that come late are still seen (KIP-923); the table's history must be as long.
        name : name of the operator.

        Raises
        ------
        TopologyError : an option does not belong to a join with `other`, or is left out; or the two sides have
            different types of key.

        Examples
        --------
        >>> within = wm.JoinWindows.of_time_difference_and_grace("10 minutes", "0 ms")
        >>> results(orders.join(payments, lambda order, paid: order["amount"] - paid, within))
        [(1, 0.0)]
        """
        return self._join("inner", other, joiner, windows=windows, **options)

    @overload
    def left_join(
        self, other: KStream, joiner: Function, windows: JoinWindows, **options: Unpack[StreamPairOptions]
    ) -> KStream: ...

    @overload
    def left_join(
        self, other: KTable, joiner: Function, *, grace: Duration | None = None, name: str | None = None
    ) -> KStream: ...

    @overload
    def left_join(
        self, other: GlobalKTable, joiner: Function, *, key: Function, name: str | None = None
    ) -> KStream: ...

    @overload
    def left_join(
        self, other: WTable, joiner: Function, *, window_of: Function, keep: Duration, name: str | None = None
    ) -> KStream: ...

    @parameters_of(join)
    def left_join(self, other: Any, joiner: Function, windows: JoinWindows | None = None, **options: Any) -> KStream:
        """As `join`, and each record that meets none joined with null (one without a key, too: KIP-962).

        Of two streams, that result comes once the window and its grace have passed.

        Parameters as for `KStream.join`.

        Examples
        --------
        >>> by_name = orders.select_key(lambda order: order["customer"])
        >>> results(by_name.left_join(discounts, lambda order, percent: F.coalesce(percent, F.lit(0))))
        [('ann', 20), ('bob', 0), ('ann', 20)]
        """
        return self._join("left", other, joiner, windows=windows, **options)

    @parameters_of(join)
    def outer_join(
        self,
        other: KStream,
        joiner: Function,
        windows: JoinWindows,
        *,
        generation: str | Generation | None = None,
        name: str | None = None,
    ) -> KStream:
        """As `left_join` of two streams, for unmatched records of both.

        Parameters
        ----------
        other : a stream with the same type of key.
        joiner : Column function of (left, right) or (key, left, right) that makes the value; one side may be null.

        Other parameters as for `KStream.join`.

        Examples
        --------
        >>> within = wm.JoinWindows.of_time_difference_and_grace("10 minutes", "0 ms")
        >>> results(orders.outer_join(payments, lambda order, paid: F.coalesce(paid, F.lit(0.0)), within))
        [(1, 30.0), (2, 0.0), (7, 8.0)]
        """
        return self._join("outer", other, joiner, windows=windows, generation=generation, name=name)

    def _join(self, join_type: How, right: Any, joiner: Function, *, match: str = "all", **options: Any) -> KStream:
        join = Join(join_type, joiner, match=None if match == "all" else match, **options)
        result: KStream = joined(self._side, right, join)
        return result


# The joins of a table by key and window: part of `WTable`. Handle layer.


class WindowJoinOptions(TypedDict, total=False):
    """How long windows still join, and the name of the join."""

    keep: Duration | None
    name: str | None


@answering
class WindowJoins(Handle):
    """The joins of a table by key and window with tables, and with others by key and window."""

    @overload
    def join(self, other: KTable, joiner: Function, **options: Unpack[WindowJoinOptions]) -> WTable: ...

    @overload
    def join(
        self, other: WTable, joiner: Function, *, shift: Previous | None = None, **options: Unpack[WindowJoinOptions]
    ) -> WTable: ...

    @overload
    def join(
        self, other: WTable, joiner: Function, *, shift: Function, keep: Duration, name: str | None = None
    ) -> WTable: ...

    def join(self, other: Any, joiner: Function, **options: Any) -> WTable:
        """Inner join: a row for each key and window that meets one of the other side (docs/semantics/wtable.md).

        Parameters
        ----------
        other : a table with the same type of key: all live windows of a key meet its row. Or a table by key and window:
            equal windows meet, or with `shift` a window of this table and the one that is its shift.
        joiner : Column function of (left, right) or (key, left, right) that makes the value. The key is the struct of
            key, start and end of this table's window.
        shift : `wm.previous(n)`, or a Column function of (window) that gives a struct of the longs `start` and `end`;
            where it gives null, the window meets none.
        keep : how long after its end and grace a window still joins, a duration ("14 days"); default the longer of a
            day and what `previous(n)` looks back, with the window's size. A function as shift needs it said.
        name : name of the operator.

        Raises
        ------
        TopologyError : the windows are not of one definition, or it is not known how long they are wanted.

        Examples
        --------
        >>> shares = hourly.join(discounts, lambda n, percent: n * percent)
        >>> results(shares.to_stream(key="key"))
        [('ann', 20), ('ann', 20)]
        """
        return self._join(other, Join("inner", joiner, **options))

    @overload
    def left_join(self, other: KTable, joiner: Function, **options: Unpack[WindowJoinOptions]) -> WTable: ...

    @overload
    def left_join(
        self, other: WTable, joiner: Function, *, shift: Previous | None = None, **options: Unpack[WindowJoinOptions]
    ) -> WTable: ...

    @overload
    def left_join(
        self, other: WTable, joiner: Function, *, shift: Function, keep: Duration, name: str | None = None
    ) -> WTable: ...

    @parameters_of(join)
    def left_join(self, other: Any, joiner: Function, **options: Any) -> WTable:
        """As `join`, and what meets none is joined with null.

        Parameters as for `WTable.join`.

        Examples
        --------
        >>> change = lambda now, before: now - F.coalesce(before, F.lit(0))
        >>> results(hourly.left_join(hourly, change, shift=wm.previous(1)).to_stream(key="key"))
        [('ann', 1), ('bob', 1), ('ann', 0)]
        """
        return self._join(other, Join("left", joiner, **options))

    @parameters_of(join)
    def outer_join(
        self, other: WTable, joiner: Function, *, shift: None = None, **options: Unpack[WindowJoinOptions]
    ) -> WTable:
        """Outer join of equal windows: a row for each that one of the tables has; one side may be null.

        Parameters
        ----------
        other : a table by key and window.
        shift : none: a right row that meets none would have no window of this table to stand under.

        Other parameters as for `WTable.join`.

        Examples
        --------
        >>> paid = payments.group_by(lambda amount: F.lit("ann")).windowed_by(hours).count()
        >>> both = lambda n, m: F.coalesce(n, F.lit(0)) + F.coalesce(m, F.lit(0))
        >>> results(hourly.outer_join(paid, both).to_stream(key="key"))
        [('ann', 1), ('ann', 2), ('bob', 1), ('ann', 3), ('ann', 1)]
        """
        return self._join(other, Join("outer", joiner, shift=shift, **options))

    def _join(self, right: Any, join: Join) -> WTable:
        result: WTable = joined(self._side, right, join)
        return result
