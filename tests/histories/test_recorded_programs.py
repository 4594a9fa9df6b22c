"""Drawn topologies of up to seven operators, as Kafka Streams' own test driver ran them."""

from pathlib import Path

from proof.histories import Case, Input, check
from proof.histories.blueprint import Blueprint
from proof.histories.check import cuts_of, driver_of, run_engine, topology_of
from proof.histories.kafka_streams import KINDS_OF_KAFKA, beside_engine, beside_oracle, drawn_program, recorded_programs
from proof.histories.report import page
from tests.histories.ops import op

# python -m proof.histories --count 400 --seed 20261129 --record tests/recordings/programs.jsonl.gz
RECORDINGS = Path(__file__).parents[1] / "recordings" / "programs.jsonl.gz"


def test_the_oracle_makes_of_drawn_topologies_what_kafka_streams_made_of_them() -> None:
    programs = list(recorded_programs(RECORDINGS))
    assert len(programs) > 300
    assert {op.kind for case, _ in programs for op in case.blueprint.ops} == KINDS_OF_KAFKA
    assert sum(bool(outcome.stores) for _, outcome in programs) > 100
    assert any(case.clock for case, _ in programs)
    found = [beside_oracle(*program) for program in programs]
    assert [page(difference) for difference in found if difference is not None] == []


def test_a_row_of_a_named_store_that_differs_is_found() -> None:
    case, outcome = next(each for each in recorded_programs(RECORDINGS) if any(each[1].stores.values()))
    name = next(name for name, rows in outcome.stores.items() if rows)
    rows = {key: (f"{value}!", ts) for key, (value, ts) in outcome.stores[name].items()}
    difference = beside_oracle(case, outcome._replace(stores={**outcome.stores, name: rows}))
    assert difference is not None
    assert difference.check == "stores"
    assert name in difference.message


def test_the_engine_makes_in_batches_what_kafka_streams_made_where_no_row_of_section_a_counts() -> None:
    programs = [each for number, each in enumerate(recorded_programs(RECORDINGS)) if number % 4 == 0]
    found = [beside_engine(*program) for program in programs]
    assert [page(difference) for difference in found if difference is not None] == []


def test_a_filter_behind_transform_values_gives_a_tombstone_for_a_row_that_it_never_let_through() -> None:
    # row 50 of section A: Kafka Streams gives none
    ops = (
        op("table", stored=True),
        op("transform_values", 0, record=[], timer=[], lasts={}),
        op("table_filter", 1, negate=False),
        op("table_to", 2),
    )
    case = Case(Blueprint(ops), (Input("n0", "a", "1", 0),))
    assert check(case) is None
    made = run_engine(case, driver_of(case, topology_of(case.blueprint)), cuts_of(case))
    assert [[(result.key, result.value) for result in step] for step in made] == [[("a", None)]]


def test_no_program_beside_kafka_streams_filters_what_a_transformer_gives() -> None:
    # without the exception for row 50 this program has such a filter
    ops = drawn_program(3, 1277).blueprint.ops
    filters = [each for each in ops if each.kind == "table_filter"]
    assert all(ops[each.inputs[0].op].kind != "transform_values" for each in filters)
