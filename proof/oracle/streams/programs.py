"""Small processors of random topologies: a few instructions for each record and each timer, in any order.

Owns a language that reaches all that a processor can do. They are written as a user writes them, so the oracle and the
handles take the same class; what their context does is each side's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

STORES = {
    "v": ("value", None, "long"),
    "l": ("list", None, "string"),
    "m": ("map", "string", "long"),
    "n": ("map", "long", "string"),
}
"""Kind, type of a map's keys, and type of the values of each store that a program may name."""
Instruction = Sequence[Any]
"""A word, and numbers."""
FURTHER = 4
"""How many timers a timer may set in a row."""
MOST = 40
"""At most for a key: a program that counts twice may pass each multiple of `FURTHER`, and a moment may be the same."""


class Program:
    """A processor of instructions.

    Parameters
    ----------
    record, timer, wall : what is done with each record, and when a timer is due, of stream time or the wall clock.
    rekey : makes the key of what is sent of the present one; None: it stays.
    """

    def __init__(
        self,
        record: Sequence[Instruction],
        timer: Sequence[Instruction],
        rekey: Callable[[Any, int], Any] | None,
        wall: Sequence[Instruction] = (),
    ) -> None:
        """Nothing is known yet."""
        self._record, self._timer, self._rekey, self._wall = record, timer, rekey, wall

    def init(self, context: Any) -> None:
        """Find the stores that the instructions name."""
        named = {STORE_OF[word] for word, *_ in (*self._record, *self._timer, *self._wall) if word in STORE_OF}
        self._stores = {name: context.get_store(name) for name in sorted(named)}

    def process(self, record: Any, context: Any) -> None:
        """One record."""
        self._do(self._record, str(record.value), record.timestamp, context)

    def transform(self, record: Any, context: Any) -> str | None:
        """One change of a table, and what its row becomes."""
        self.process(record, context)
        return None if record.value is None or len(record.value) % 5 == 4 else f"T{record.value}"

    def _do(self, instructions: Sequence[Instruction], value: str, ts: int, context: Any) -> None:
        for word, *numbers in instructions:
            store = self._stores[STORE_OF[word]] if word in STORE_OF else None
            if (WORDS.get(word) or READ_WORDS.get(word) or WALL_WORDS[word])(
                self, store, value, ts, context, *numbers
            ) is STOP:
                return

    def send(self, context: Any, value: str | None, **options: Any) -> None:
        """Send a value, under another key if the program gives it one."""
        if self._rekey is not None:
            options["key"] = self._rekey(context.key, len(value or ""))
        context.forward(value=value, **options)


class Timed(Program):
    """The same with timers."""

    def on_timer(self, key: Any, timestamp: int, context: Any) -> None:
        """One timer."""
        self._do(self._timer, f"t{timestamp}", timestamp, context)


class Walled(Program):
    """With timers of the wall clock."""

    def on_wall_timer(self, key: Any, timestamp: int, context: Any) -> None:
        """One of them."""
        self._do(self._wall, f"w{timestamp}", timestamp, context)


class TimedAndWalled(Timed, Walled):
    """With timers of both."""


STOP = object()
"""What an instruction gives behind which none is done."""


def _forward(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    program.send(context, value)


def _later(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    # an earlier time would be late behind it, and what is late there has no place of its own
    program.send(context, value, timestamp=ts + 3)


def _null(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    program.send(context, None)


def _time(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    program.send(context, f"at {context.stream_time}")


def _count(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    store.put((store.get() or 0) + 1)


def _counted(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    program.send(context, f"n{store.get()}")


def _reset(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    store.delete()


def _append(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    store.append(value)


def _listed(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    program.send(context, ",".join(store.get()))


def _shorten(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    store.put(store.get()[-2:])


def _once(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    if store.get(value) is not None:
        return STOP
    store.put(value, ts)
    return None


def _latest(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    store.put(value, ts)


def _forget(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    store.delete(value)


def _first(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    for key, when in store.all()[:1]:
        store.delete(key)
        program.send(context, f"{key}:{when}")


def _between(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    program.send(context, ";".join(f"{key}={when}" for key, when in store.range("2", "b")))


def _number(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    store.put(len(value) - 3, value)


def _lowest(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    for key, text in store.all()[:1]:
        store.delete(key)
        program.send(context, f"{key}|{text}")


def _numbered(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    program.send(context, ";".join(f"{key}={text}" for key, text in store.range(-2, 1)))


def _set(program: Program, store: Any, value: str, ts: int, context: Any, more: int) -> Any:
    context.set_timer(max(0, ts + more))


def _set_soon(program: Program, store: Any, value: str, ts: int, context: Any, more: int) -> Any:
    context.set_timer(max(0, context.stream_time + more))


def _delete(program: Program, store: Any, value: str, ts: int, context: Any, more: int) -> Any:
    context.delete_timer(max(0, ts + more))


def _again(program: Program, store: Any, value: str, ts: int, context: Any, more: int) -> Any:
    """A further timer, a few times in a row: time may have jumped far."""
    done = (store.get() or 0) + 1
    store.put(done)
    if done % FURTHER and done < MOST:
        context.set_timer(max(0, ts + more))


def _set_wall(program: Program, store: Any, value: str, ts: int, context: Any, more: int) -> Any:
    context.set_timer(max(0, context.wall_clock + more), clock="wall")


def _set_wall_near(program: Program, store: Any, value: str, ts: int, context: Any, more: int) -> Any:
    """Of a moment that others have, too, and that may have passed."""
    context.set_timer(context.wall_clock // 20 * 20 + max(0, more) * 4, clock="wall")


def _delete_wall(program: Program, store: Any, value: str, ts: int, context: Any, more: int) -> Any:
    context.delete_timer(context.wall_clock // 20 * 20 + max(0, more) * 4, clock="wall")


def _again_wall(program: Program, store: Any, value: str, ts: int, context: Any, more: int) -> Any:
    """A further timer, a few times in a row: the clock may have jumped far."""
    done = (store.get() or 0) + 1
    store.put(done)
    if done % FURTHER and done < MOST:
        context.set_timer(max(0, ts + more), clock="wall")


def _wall(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    program.send(context, f"by {context.wall_clock}")


WORDS: dict[str, Callable[..., Any]] = {
    "forward": _forward,
    "later": _later,
    "null": _null,
    "time": _time,
    "count": _count,
    "counted": _counted,
    "reset": _reset,
    "append": _append,
    "listed": _listed,
    "shorten": _shorten,
    "once": _once,
    "latest": _latest,
    "forget": _forget,
    "first": _first,
    "between": _between,
    "number": _number,
    "lowest": _lowest,
    "numbered": _numbered,
    "set": _set,
    "set_soon": _set_soon,
    "delete": _delete,
    "again": _again,
}
WALL_WORDS: dict[str, Callable[..., Any]] = {
    "set_wall": _set_wall,
    "set_wall_near": _set_wall_near,
    "delete_wall": _delete_wall,
    "again_wall": _again_wall,
    "wall": _wall,
}
"""What each word does: any program's, and those of programs with timers of the wall clock."""
STORE_OF = {
    **dict.fromkeys(("count", "counted", "reset", "again", "again_wall"), "v"),
    **dict.fromkeys(("append", "listed", "shorten"), "l"),
    **dict.fromkeys(("once", "latest", "forget", "first", "between"), "m"),
    **dict.fromkeys(("number", "lowest", "numbered"), "n"),
}
"""The store of each word that has one."""
SETS = ("set", "set_soon", "delete")
WALL_SETS = ("set_wall", "set_wall_near", "delete_wall")
"""Words that only programs with timers have; `again` stands behind a timer alone, where it may not reset its count."""


def _row(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    program.send(context, f"row {context.row('t')}")


def _row_once(program: Program, store: Any, value: str, ts: int, context: Any) -> Any:
    return STOP if context.row("t") is None else None


def _past(program: Program, store: Any, value: str, ts: int, context: Any, more: int) -> Any:
    program.send(context, f"was {context.row('t', max(0, ts + more))}")


def _anywhere(program: Program, store: Any, value: str, ts: int, context: Any, key: Any) -> Any:
    program.send(context, f"all {context.global_row('g', key)}")


READ_WORDS: dict[str, Callable[..., Any]] = {
    "row": _row,
    "row_once": _row_once,
    "past": _past,
    "anywhere": _anywhere,
}
"""What reads tables; their numbers are moments beside the present one, or keys."""
