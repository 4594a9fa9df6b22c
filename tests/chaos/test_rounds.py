"""The rounds of the fault bench: which there are, that a seed says it all, and that what came of them is kept whole."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from itertools import islice

from chaos.__main__ import outcome_of, planned
from chaos.feed import records
from chaos.joins import JOINS
from chaos.judge import Verdict
from chaos.round import Outcome
from chaos.strikes import VICTIMS, Strike

ALL = list(JOINS)


def test_rounds_have_as_many_kills_as_are_asked_for_and_each_join_gets_its_share() -> None:
    rounds = list(planned(340, 1, ALL, 100))
    kills = Counter[str]()
    for each in rounds:
        kills[each.join] += len(each.strikes)
    assert kills.total() == 340
    assert set(kills) == {*JOINS}
    assert min(kills.values()) >= 16


def test_a_seed_gives_the_same_rounds_and_records_again_and_another_one_others() -> None:
    assert list(planned(60, 1, ALL, 100)) == list(planned(60, 1, ALL, 100))
    assert [r.strikes for r in planned(60, 1, ALL, 100)] != [r.strikes for r in planned(60, 2, ALL, 100)]
    one, again, other = (list(islice(records(JOINS["foreign_key"], seed), 50)) for seed in ("1/0", "1/0", "2/0"))
    assert one == again != other


def test_an_outcome_is_the_same_when_it_has_been_kept() -> None:
    (given,) = planned(3, 1, ["stream_global"], 100)
    verdict = Verdict(100, lost=1, batches=(4,), details=("lost: one",))
    outcome = Outcome(given, [(given.strikes[0], 2)], [Strike("worker", "merge")], 9, 1_000, ["failed"], verdict)
    assert outcome_of(json.loads(json.dumps(asdict(outcome)))) == outcome


def test_executors_are_struck_where_there_are_some_and_alone_if_that_is_wanted() -> None:
    def victims(executors: int, *wanted: str) -> set[str]:
        rounds = planned(300, 1, ALL, 100, executors, wanted or VICTIMS)
        return {strike.victim for each in rounds for strike in each.strikes if each.executors == executors}

    assert victims(0) == {"worker", "driver", "broker"}
    assert victims(2) == {"worker", "executor", "driver", "broker"}
    assert victims(2, "executor") == {"executor"}


def test_who_writes_changes_and_workers_die_at_a_commit_only_where_they_commit() -> None:
    found: dict[str, set[str]] = {}
    for each in planned(900, 1, ALL, 100):
        moments = {strike.moment for strike in each.strikes if strike.victim == "worker"}
        found.setdefault(each.writers, set()).update(moments)
    assert [writers for writers, moments in found.items() if "before_commit" in moments] == ["both", "tasks"]
    assert {(r.join, r.writers) for r in planned(900, 1, ALL, 100)} == {(j, w) for j in ALL for w in found}
