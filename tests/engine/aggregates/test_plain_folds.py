"""Folds of Columns as plain Python: functions by chance beside the kernels, and rows by themselves beside rounds."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet._engine.aggregates.folds import RAISED, ArrayFold, CompiledFold, Work, in_rounds
from watersmeet._engine.expressions.evaluate import unsupported
from watersmeet._engine.expressions.program import Evaluated
from watersmeet._engine.expressions.scalars import NoForm, of_values, stepped
from watersmeet._engine.expressions.tree import Call, EvaluationError, Expression, Literal, Operand, plain, type_of
from watersmeet._plan.folds import FunctionFold, Step

NAMES = ("key", "value", "aggregate")
PART = pa.struct([("n", pa.int64()), ("i", pa.int32()), ("d", pa.float64()), ("s", pa.string()), ("o", pa.bool_())])
KINDS = {
    "n": pa.int64(),
    "i": pa.int32(),
    "b": pa.int8(),
    "d": pa.float64(),
    "s": pa.string(),
    "o": pa.bool_(),
    "p": PART,
}
NUMBERS = {
    "n": [0, 1, -1, 2, 7, 2**62, 2**63 - 1, -(2**63)],
    "i": [0, 1, -1, 3, 2**31 - 1, -(2**31)],
    "b": [0, 1, -1, 127, -128],
    "d": [0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), float("-inf"), 1e308, 5e-324],
    "s": ["", "a", "ab", "é", "\U0001f600"],
    "o": [True, False],
}
COMPARED = ("EqualTo", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "EqualNullSafe")


def drawn_value(r: random.Random, kind: str) -> Any:
    if r.random() < 0.2:
        return None
    if kind == "p":
        return {field.name: drawn_value(r, field.name) for field in PART}
    return r.choice(NUMBERS[kind])


class Drawing:
    """An expression by chance, of operands key (text), value and aggregate (structs)."""

    def __init__(self, r: random.Random) -> None:
        self.r = r

    def of(self, kind: str, depth: int) -> Expression:
        r = self.r
        if depth == 0 or r.random() < 0.1:
            return self.leaf(kind)
        made = {"n": self.integer, "i": self.integer, "b": self.integer, "d": self.double, "s": self.text}
        if r.random() < 0.3 or kind == "p":
            return self.condition(kind, depth)
        return made.get(kind, self.truth)(kind, depth - 1)

    def leaf(self, kind: str) -> Expression:
        r = self.r
        if kind == "p":
            return Operand(r.choice(["value", "aggregate"]), PART)
        if kind == "s" and r.random() < 0.2:
            return Operand("key", pa.string())
        if kind != "b" and r.random() < 0.7:
            whole = Operand(r.choice(["value", "aggregate"]), PART)
            at = PART.get_field_index(kind)
            return Call("GetStructField", (whole,), KINDS[kind], options=(("ordinal", str(at)),))
        return Literal(pa.scalar(drawn_value(r, kind), KINDS[kind]))

    def condition(self, kind: str, depth: int) -> Expression:
        r, of = self.r, KINDS[kind]
        sub = [self.of(kind, depth - 1) for _ in range(3)]
        asked = [self.of("o", depth - 1) for _ in range(2)]
        form = r.randrange(5 if kind != "p" else 4)
        if form == 0:
            return Call("If", (asked[0], sub[0], sub[1]), of)
        if form == 1:
            more = (sub[2],) if r.random() < 0.7 else ()
            return Call("CaseWhen", (asked[0], sub[0], asked[1], sub[1], *more), of)
        if form == 2:
            return Call("Coalesce", tuple(sub[: r.randint(1, 3)]), of)
        if form == 3 and kind == "p":
            parts = [
                each for field in PART for each in (Literal(pa.scalar(field.name)), self.of(field.name, depth - 1))
            ]
            return Call("CreateNamedStruct", tuple(parts), PART)
        if form == 3:
            return Call("NullIfResult", (asked[0], sub[0]), of)
        return Call(r.choice(["Greatest", "Least"]), tuple(sub), of)

    def integer(self, kind: str, depth: int) -> Expression:
        r, of = self.r, KINDS[kind]
        one, other = self.of(kind, depth), self.of(kind, depth)
        form = r.randrange(7)
        ansi = r.random() < 0.6
        mode = (("evalMode", "TRY"),) if r.random() < 0.2 else ()
        if form < 3:
            return Call(r.choice(["Add", "Subtract", "Multiply"]), (one, other), of, ansi, mode)
        if form == 3:
            return Call(
                r.choice(["Remainder", "IntegralDivide"] if kind == "n" else ["Remainder"]),
                (one, other),
                of,
                ansi,
                mode,
            )
        if form == 4:
            return Call(r.choice(["UnaryMinus", "Abs"]), (one,), of, ansi, (("failOnError", str(ansi).lower()),))
        if form == 5:
            return Call("Cast", (self.of(r.choice("nibo"), depth),), of, ansi, mode)
        if kind == "i":
            return Call("Length", (self.of("s", depth),), of)
        return Call(r.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor"]), (one, other), of)

    def double(self, kind: str, depth: int) -> Expression:
        r, of = self.r, pa.float64()
        one, other = self.of("d", depth), self.of("d", depth)
        form = r.randrange(6)
        if form < 3:
            return Call(r.choice(["Add", "Subtract", "Multiply", "NaNvl"]), (one, other), of)
        if form == 3:
            return Call(r.choice(["Divide", "Remainder"]), (one, other), of, r.random() < 0.5)
        if form == 4:
            return Call(r.choice(["UnaryMinus", "Abs", "Sqrt"]), (one,), of)
        return Call("Cast", (self.of(r.choice("nibo"), depth),), of)

    def text(self, kind: str, depth: int) -> Expression:
        if self.r.random() < 0.5:
            return Call("Concat", (self.of("s", depth), self.of("s", depth)), pa.string())
        if self.r.random() < 0.5:
            return Call("Cast", (self.of(self.r.choice("nib"), depth),), pa.string())
        return Call("Reverse", (self.of("s", depth),), pa.string())

    def truth(self, kind: str, depth: int) -> Expression:
        r = self.r
        form = r.randrange(6)
        if form < 2:
            of = r.choice("nidso")
            return Call(r.choice(COMPARED), (self.of(of, depth), self.of(of, depth)), pa.bool_())
        if form == 2:
            return Call(r.choice(["And", "Or"]), (self.of("o", depth), self.of("o", depth)), pa.bool_())
        if form == 3:
            return Call("Not", (self.of("o", depth),), pa.bool_())
        if form == 4:
            of = r.choice("nidsop")
            if of == "d" and r.random() < 0.5:
                return Call("IsNaN", (self.of("d", depth),), pa.bool_())
            return Call(r.choice(["IsNull", "IsNotNull"]), (self.of(of, depth),), pa.bool_())
        of = r.choice("nids")
        return Call("In", tuple(self.of(of, depth) for _ in range(r.randint(2, 4))), pa.bool_())


def drawn(r: random.Random, kind: str) -> Evaluated:
    while True:
        found = Drawing(r).of(kind, r.randint(1, 4))
        if unsupported(found) is None and type_of(found) == KINDS[kind]:
            return Evaluated(found, NAMES)


def columns(r: random.Random, count: int) -> tuple[pa.Array, pa.Array, pa.Array]:
    keys = pa.array([r.choice(["k", "l"]) for _ in range(count)])
    values, states = (
        pa.array([{f.name: drawn_value(r, f.name) for f in PART} for _ in range(count)], PART) for _ in range(2)
    )
    return keys, values, states


def outcome(function: Any, *arguments: Any) -> Any:
    try:
        return repr(function(*arguments))
    except EvaluationError as error:
        return error.condition


def first_of(evaluated: Evaluated) -> Any:
    return lambda *arrays: plain(evaluated(*arrays))[0]


@pytest.mark.parametrize("seed", range(8))
def test_a_function_as_plain_python_gives_what_its_kernels_give_row_by_row(seed):
    r = random.Random(seed)
    written = 0
    for _ in range(250):
        evaluated = drawn(r, r.choice("nidsop"))
        keys, values, states = columns(r, 6)
        try:
            function = stepped(evaluated)
        except NoForm:
            continue
        written += 1
        given = function.values(keys, values)
        for row, state in enumerate(plain(states)):
            one = [each.slice(row, 1) for each in (keys, values, states)]
            expected = outcome(first_of(evaluated), *one)
            assert outcome(function.function, keys[row].as_py(), given[row], state) == expected, evaluated
    assert written > 150


@pytest.mark.parametrize("seed", range(4))
def test_a_merger_of_plain_values_gives_what_its_kernels_give(seed):
    r = random.Random(1000 + seed)
    for _ in range(150):
        evaluated = drawn(r, "p")
        keys, ones, others = columns(r, 5)
        try:
            function = of_values(evaluated)
        except NoForm:
            continue
        rows = zip(plain(keys), plain(ones), plain(others), strict=True)
        for row, arguments in enumerate(rows):
            one = [each.slice(row, 1) for each in (keys, ones, others)]
            assert outcome(function, *arguments) == outcome(first_of(evaluated), *one), evaluated


def drawn_choice(r: random.Random, depth: int) -> Expression:
    """A case whose branches are the aggregate, the value, something made of the value, and null."""
    if depth == 0 or r.random() < 0.2:
        made = [each for f in PART for each in (Literal(pa.scalar(f.name)), Drawing(r).of(f.name, 1))]
        of_value = Call("CreateNamedStruct", tuple(made), PART)
        ends: list[Expression] = [
            of_value,
            Operand("value", PART),
            Operand("aggregate", PART),
            Literal(pa.scalar(None, PART)),
        ]
        return r.choice(ends)
    asked = [Drawing(r).of("o", 2) for _ in range(2)]
    branches = [drawn_choice(r, depth - 1) for _ in range(3)]
    if r.random() < 0.5:
        return Call("If", (asked[0], *branches[:2]), PART)
    return Call("CaseWhen", (asked[0], branches[0], asked[1], *branches[1 : r.randint(2, 3)]), PART)


def drawn_work(r: random.Random, *, sessions: bool, olds: bool, ends: bool) -> Work:
    sizes = [r.randint(1, 9) for _ in range(r.randint(1, 4))]
    starts = np.cumsum([0, *sizes]).astype(np.int64)
    count = int(starts[-1])
    values = pa.array(
        [None if r.random() < 0.1 else {f.name: drawn_value(r, f.name) for f in PART} for _ in range(count)], PART
    )
    prior = pa.array([drawn_value(r, "p") for _ in sizes], PART)
    return Work(
        keys=pa.array([f"k{each}" for each in range(len(sizes))]),
        starts=starts,
        values=values,
        ts=np.array([r.randint(0, 9) for _ in range(count)], dtype=np.int64),
        prior=prior,
        prior_ts=np.array([r.randint(0, 9) for _ in sizes], dtype=np.int64),
        olds=values.take(pa.array(r.sample(range(count), count))) if olds else None,
        resumes=np.array([r.random() < 0.5 for _ in sizes]) if sessions else None,
        ends=np.array([r.random() < 0.2 for _ in range(count)]) if ends else None,
    )


def seen(done: Any) -> Any:
    states = plain(
        pa.chunked_array([done.states]).combine_chunks()
        if isinstance(done.states, pa.Array)
        else done.states.combine_chunks()
    )
    shown = [
        [repr(states[at]) if at >= 0 and states[at] is not None else None for at in places]
        for places in (done.before, done.after)
    ]
    void = None if done.void is None else done.void.tolist()
    return shown, done.ts.tolist(), {row: error.condition for row, error in done.failed.items()}, void


def step(evaluated: Evaluated | None) -> Step | None:
    return None if evaluated is None else Step(evaluated, plain=False)


@pytest.mark.parametrize("seed", range(6))
def test_a_fold_row_by_row_is_the_fold_in_rounds(seed):
    r = random.Random(2000 + seed)
    compared = chosen = 0
    while compared < 120:
        choosing = r.random() < 0.4
        add = Evaluated(drawn_choice(r, 2), NAMES) if choosing else drawn(r, "p")
        if unsupported(add.expression) is not None:
            continue
        olds = r.random() < 0.3
        sessions = not olds and r.random() < 0.3
        starts = r.random() < 0.5
        how = FunctionFold(
            Step(add, plain=False),
            step(drawn(r, "p") if olds else None),
            step(drawn(r, "p") if sessions else None),
            starts=starts,
            initial={f.name: r.choice(NUMBERS[f.name]) for f in PART} if starts else None,
        )
        fold = ArrayFold(how, PART)
        made = CompiledFold.of((how.add,), how, PART)
        if made is None:
            continue
        tolerates_errors = not olds and r.random() < 0.5
        work = drawn_work(r, sessions=sessions, olds=olds, ends=tolerates_errors and r.random() < 0.5)
        fold.tolerates_errors = tolerates_errors
        compared += 1
        chosen += made.chosen is not None
        try:
            expected = seen(in_rounds(fold, work, {} if tolerates_errors else None))
        except RAISED as error:
            with pytest.raises(type(error)):
                made.run(work, tolerates_errors, "whose")
            continue
        assert seen(made.run(work, tolerates_errors, "whose")) == expected, (add, work)
    assert chosen > 5
