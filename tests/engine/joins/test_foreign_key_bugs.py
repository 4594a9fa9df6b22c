"""Foreign-key joins: the known bugs of the field, each of which would fail a test here."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.engine.kit import (
    PLUS,
    Step,
    by_step,
    driver_of,
    foreign,
    run,
    tables,
)
from watersmeet._engine import exchange
from watersmeet._engine.operators import foreign_key_join

# -- the known bugs of the field ---------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["inner", "left"])
def test_an_old_subscription_does_not_live_on(how: str) -> None:
    driver = foreign(how)
    run(
        driver,
        ("right", "p", "P", 0),
        ("right", "q", "Q", 0),
        ("left", "k", "p|1", 1),
        ("left", "k", "q|2", 2),
    )
    assert run(driver, ("right", "p", "P2", 3)) == []
    assert run(driver, ("right", "q", "Q2", 4)) == [("k", "q|2+Q2", 4)]


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("shards", [1, 2, 7])
def test_a_to_b_to_a_ends_at_a_once(shards: int, *, cut: bool) -> None:
    driver = foreign(shards=shards)
    steps: list[Step] = [("right", "a", "A", 0), ("right", "b", "B", 0)]
    steps += [("left", "k", "a|1", 1), ("left", "k", "b|2", 2), ("left", "k", "a|3", 3)]
    steps += [("right", "b", "B2", 4), ("right", "a", "A2", 5)]
    said = by_step(driver, steps, {2, 3, 4, 5} if cut else {2})
    assert [r for step in said for r in step] == [
        ("k", "a|1+A", 1),
        ("k", "b|2+B", 2),
        ("k", "a|3+A", 3),
        ("k", "a|3+A2", 5),
    ]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", [("k", None, 5), ("k", "p|3+P", 5)]),
        ("left", [("k", "2+null", 2), ("k", "p|3+P", 5)]),
    ],
)
def test_a_foreign_key_becomes_null_and_comes_back(how: str, expected: list[Any]) -> None:
    driver = foreign(how)
    run(driver, ("right", "p", "P", 5), ("left", "k", "p|1", 1))
    assert run(driver, ("left", "k", "2", 2), ("left", "k", "p|3", 3)) == expected


@pytest.mark.parametrize(("how", "ts"), [("inner", 9), ("left", 3)])
def test_a_delete_gives_one_tombstone_and_a_second_delete_none(how: str, ts: int) -> None:
    driver = foreign(how)
    run(driver, ("right", "p", "P", 9), ("left", "k", "p|1", 1))
    assert run(driver, ("left", "k", None, 3), ("left", "k", None, 4)) == [("k", None, ts)]
    assert run(driver, ("left", "k", None, 5)) == []


def test_keys_that_begin_alike_stay_apart() -> None:
    driver = driver_of(lambda b: by_value(*tables(b, "left", "right")))
    odd = ["a", "ab", "", "\x00", "\x00\x00", "a\x00", "\x00a"]
    run(driver, *(("left", f"to {key!r}", key, 0) for key in odd))
    for key in odd:
        assert run(driver, ("right", key, "R", 1)) == [(f"to {key!r}", f"{key}+R", 1)]


@pytest.mark.parametrize("cut", [False, True])
def test_pairs_of_keys_whose_bytes_run_together_stay_apart(*, cut: bool) -> None:
    driver = driver_of(lambda b: by_value(*tables(b, "left", "right")), shards=1)
    steps: list[Step] = [("left", "b", "a", 0), ("left", "", "ab", 0), ("left", "ab", "", 0)]
    steps += [("right", "a", "A", 1), ("right", "ab", "AB", 1), ("right", "", "O", 1), ("left", "", None, 2)]
    steps += [("right", "a", "A2", 3), ("right", "ab", "AB2", 3), ("right", "", "O2", 3)]
    said = by_step(driver, steps, {3, 6, 7} if cut else set())
    assert said[3:] == [
        [("b", "a+A", 1)],
        [("", "ab+AB", 1)],
        [("ab", "+O", 1)],
        [("", None, 2)],
        [("b", "a+A2", 3)],
        [],
        [("ab", "+O2", 3)],
    ]


def by_value(left: Any, right: Any) -> Any:
    """The join whose foreign key is the left value itself."""
    return left.join(right, PLUS, foreign_key=lambda value: value)


@pytest.fixture
def one_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """All keys have one hash."""
    for module in (exchange, foreign_key_join, foreign_key_join):
        monkeypatch.setattr(module, "hash_keys", lambda keys: np.zeros(len(keys), dtype=np.int64))


@pytest.mark.parametrize("cuts", [set(), {3}, {2, 3, 4, 5, 6, 7}])
@pytest.mark.usefixtures("one_hash")
def test_a_left_key_under_two_foreign_keys_that_share_a_hash_is_two_rows(cuts: set[int]) -> None:
    steps: list[Step] = [("right", "p", "P", 0), ("left", "k", "p|1", 1), ("left", "k", "q|2", 2)]
    steps += [("right", "q", "Q", 3), ("right", "p", "P2", 4), ("left", "k", "p|3", 5), ("right", "q", None, 6)]
    steps += [("right", "p", "P3", 7)]
    said = by_step(foreign(shards=1), steps, cuts)
    assert said == [
        [],
        [("k", "p|1+P", 1)],
        [("k", None, 2)],
        [("k", "q|2+Q", 3)],
        [],
        [("k", "p|3+P2", 5)],
        [],
        [("k", "p|3+P3", 7)],
    ]


@pytest.mark.usefixtures("one_hash")
def test_keys_that_share_a_hash_stay_apart() -> None:
    driver = foreign("left", shards=1)
    run(driver, ("left", "k", "p|1", 0), ("left", "l", "q|2", 0), ("left", "m", "3", 0))
    assert run(driver, ("right", "p", "P", 1)) == [("k", "p|1+P", 1)]
    assert run(driver, ("right", "q", "Q", 1), ("left", "m", None, 2)) == [("l", "q|2+Q", 1), ("m", None, 2)]


@pytest.mark.parametrize("shards", [2, 3, 8])
def test_results_of_one_key_from_two_shards_come_in_order(shards: int) -> None:
    driver = foreign(shards=shards)
    targets = [f"t{n}" for n in range(20)]
    run(driver, *(("right", t, t.upper(), 0) for t in targets))
    chance = random.Random(1)
    steps = [("left", "k", f"{chance.choice(targets)}|{n}", n) for n in range(300)]
    assert [value.split("|")[1] for _, value, _ in run(driver, *steps)] == [
        f"{n}+{value.split('|')[0].upper()}" for n, (_, _, value, _) in enumerate(steps)
    ]
