"""Random histories reach keys and values of all types, buffers limited by bytes, and folds that raise."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

import pytest

from proof.histories import Blueprint, Case, Input, check
from proof.histories.case import of_json, to_json
from proof.histories.draw import case_of
from proof.histories.kinds.shapes import KEYS, NAN, OTHER_NAN, VALUES, NamedKey, TypeShape, frozen
from tests.histories.ops import op
from watersmeet._engine.operators import suppress
from watersmeet._engine.row_sizes import row_bytes

COUNT = 3_000


def cases() -> Iterator[Case]:
    return (case_of(1, number) for number in range(0, COUNT, 5))


def test_keys_and_values_of_every_type_meet_and_folds_raise_in_every_way() -> None:
    blueprints = [case.blueprint for case in cases()]
    assert {each.keys for each in blueprints} == {"string", "long", *KEYS}
    assert {each.values for each in blueprints} == set(VALUES)
    brittle = [each for each in blueprints if any(op.params.get("fold") == "brittle" for op in each.ops)]
    assert {each.on_error for each in brittle} == {"fail", "skip"}
    kinds = {op.kind for each in brittle for op in each.ops if op.params.get("fold") == "brittle"}
    assert {"stream_aggregate", "table_aggregate", "window_aggregate", "windowed_group"} <= kinds
    limits = [op.params for each in blueprints for op in each.ops if "bytes" in op.params]
    assert any("records" in each for each in limits)
    assert any(each.get("refuses") for each in limits)


def test_a_case_of_any_types_is_the_same_as_data() -> None:
    for case in cases():
        assert of_json(to_json(case)) == case


@pytest.mark.parametrize("keys", KEYS)
def test_what_codes_a_key_or_a_value_is_read_back_and_nothing_else_is(keys: str) -> None:
    for values in (each for each in VALUES if each not in (keys, "string")):
        shape = TypeShape(keys, values)
        for text in ("a", "b", "a\x00", "", "é", "1", "a|b|7"):
            assert shape.read_value(shape.coded(text)) == text
            assert shape.read_key(shape.piped_key(text)) == NamedKey(keys, text)
        with pytest.raises(ValueError, match="nothing is coded"):
            shape.read_value(object())


def test_numbers_are_told_apart_by_their_bits_and_nan_is_one() -> None:
    assert frozen(0.0) != frozen(-0.0)
    assert frozen(NAN) == frozen(OTHER_NAN)
    assert frozen(Decimal("1.0")) == frozen(Decimal("1.00"))


def test_a_value_with_a_map_may_be_referred_from_and_stays_as_it_was() -> None:
    ops = (op("table"), op("foreign_key", 0, 0, how="inner"), op("table_to", 1))
    case = Case(Blueprint(ops, "array", values="record"), (Input("n0", "b", "b|5", 0), Input("n0", "b", "b|5", 1)))
    assert check(case) is None


def test_what_a_buffer_limited_by_bytes_sends_follows_from_the_values_alone() -> None:
    def with_limit(limit: int) -> Case:
        ops = (op("table"), op("suppress", 0, ms=20, bytes=limit), op("table_to", 1))
        given = zip("abab", ("1", "a|b|7", "2", "x"), range(4), strict=True)
        records = tuple(Input("n0", key, value, ts) for key, value, ts in given)
        return Case(Blueprint(ops, "binary", values="array"), records, cuts=(1, 2) if limit % 2 else ())

    cases = [with_limit(limit) for limit in range(15, 55)]
    assert not any(check(case) for case in cases)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suppress, "value_bytes", row_bytes)
        assert any(check(case) for case in cases)


def test_a_rest_goes_on_from_the_time_that_records_told_also_behind_what_holds_back_longer() -> None:
    windows = {"windows": "tumbling", "size": 20, "grace": 30, "close": True, "fold": "count"}
    ops = (op("stream"), op("window_aggregate", 0, **windows), op("windowed_suppress", 1, ms=5, close=True))
    blueprint = Blueprint((*ops, op("table_to", 2)))
    for wall in (1_081, 1_121, 1_130):
        record = (Input("n0", "a", "1", 0),)
        assert check(Case(blueprint, record, clock=((1, 1_030), (1, wall)), idle_after=40)) is None, wall


def test_a_record_of_an_old_join_moves_the_merge_whether_it_finds_a_partner_or_not() -> None:
    join = op("stream_stream", 0, 1, how="inner", before=5, after=20, grace=86_400_000)
    blueprint = Blueprint((op("stream"), op("stream"), join, op("to", 2)), generation="old")
    records = (Input("n1", "a", "1", 0, 1), Input("n0", "a", "1", 0, 1))
    assert check(Case(blueprint, records, partitioned=True)) is None


def test_a_record_that_a_history_has_passed_is_not_folded() -> None:
    ops = (op("stream"), op("stream_aggregate", 0, fold="brittle", history=5), op("table_to", 1))
    for ts in (1, 30):
        assert check(Case(Blueprint(ops), (Input("n0", "a", "2", 30), Input("n0", "b", "a|b|7", ts)))) is None
