"""Drawn topologies of up to seven operators, as Kafka Streams' own test driver ran them."""

from pathlib import Path

from proof.histories.kafka_streams import beside_oracle, recorded_programs
from proof.histories.report import page

# python -m proof.histories --count 400 --seed 20261129 --record tests/recordings/programs.jsonl.gz
RECORDINGS = Path(__file__).parents[1] / "recordings" / "programs.jsonl.gz"


def test_the_oracle_makes_of_drawn_topologies_what_kafka_streams_made_of_them() -> None:
    found = [beside_oracle(*program) for program in recorded_programs(RECORDINGS)]
    assert len(found) > 300
    assert [page(difference) for difference in found if difference is not None] == []
