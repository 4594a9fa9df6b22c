"""Drawn topologies of up to seven operators, as Kafka Streams' own test driver ran them."""

from pathlib import Path

from proof.histories.kafka_streams import KINDS_OF_KAFKA, beside_engine, beside_oracle, recorded_programs
from proof.histories.report import page

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
