"""The command: `python -m chaos --kills 1000`, which `make chaos KILLS=1000` calls.

Rounds run side by side, each with processes of its own. Finished rounds are kept in `.chaos/`, so that a run goes on
where it was stopped; a round is the same again under its seed and number (`--seed 1 --only 7`), but for the hazards of
threads. With `--executors 2` Spark has executors of its own, which are killed too, with
`--checkpoints hdfs` or `s3` the checkpoints lie there. The exit status is 0 when everything is right, 1 on any
difference, 2 when a round did not go on.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from chaos.databases import DATABASES
from chaos.hooks import ROOT
from chaos.joins import JOINS, TABLES, by_wall
from chaos.judge import Verdict
from chaos.report import tables
from chaos.round import Outcome, Round, run
from chaos.stores import DISK, STORES
from chaos.strikes import VICTIMS, WRITERS, Strike, strikes_for

_lock = threading.Lock()


def planned(
    kills: int,
    seed: int,
    joins: list[str],
    each: int,
    executors: int = 0,
    victims: Collection[str] = VICTIMS,
    writers: Sequence[str] = WRITERS,
    databases: Sequence[str] = ("",),
) -> Iterator[Round]:
    """Rounds with so many strikes in all, `each` in one at most: joins and writers in turn, strikes in random order."""
    for number in count():
        name = joins[number % len(joins)]
        # of each join another writer in each of its turns
        turn = number % len(joins) + number // len(joins)
        writer = writers[turn % len(writers)]
        strikes = strikes_for(JOINS[name].levels, Random(f"{seed}/{number}"), executors, victims, writer)
        strikes = strikes[: min(kills, each)]
        kills -= len(strikes)
        database = databases[turn % len(databases)]
        found = Round(seed, number, name, tuple(strikes), executors=executors, writers=writer, database=database)
        yield replace(found, together=turn % 2 == 1)
        if not kills:
            return


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="rounds side by side")
    parser.add_argument("--each", type=int, default=100, help="kills in a round at most; default: all there are")
    parser.add_argument("--joins", nargs="+", choices=[*JOINS], default=[*JOINS])
    parser.add_argument(
        "--tasks", type=int, default=2, choices=(1, 2), help="of the query; 1: all levels run behind one another"
    )
    parser.add_argument("--executors", type=int, default=0, help="JVMs beside the driver's; default: none")
    parser.add_argument("--writers", nargs="+", choices=WRITERS, default=[*WRITERS], help="who writes the output")
    parser.add_argument("--databases", nargs="+", choices=DATABASES, help="keep tables in them; joins of tables alone")
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, help="whom to kill; default: all there are")
    parser.add_argument("--checkpoints", choices=STORES, default=DISK, help="where they lie, one for each round")
    parser.add_argument("--only", type=int, help="this round alone")
    options = parser.parse_args()
    options.victims = options.victims or VICTIMS
    if options.databases:
        # what is kept is a table, and the driver alone writes it
        options.joins, options.writers = [each for each in options.joins if each in TABLES], ["driver"]
    if options.checkpoints != DISK:
        # the judge reads what the clock has shown from a checkpoint on this machine's disk
        options.joins = [each for each in options.joins if not by_wall(JOINS[each])]
    if not options.joins:
        parser.error(
            f"none of these joins: --databases takes {', '.join(TABLES)}, other --checkpoints none with the wall clock"
        )
    if not options.executors and options.victims == ["executor"]:
        parser.error("there is no executor to kill: --executors 2")
    return options


def main() -> int:
    """Run what is asked for."""
    options = _options()
    parts = [f"executors-{options.executors}"] if options.executors else []
    parts += [f"tasks-{options.tasks}"] if options.tasks == 1 else []
    parts += [] if options.checkpoints == DISK else [options.checkpoints]
    work = ROOT / ".chaos" / "-".join([str(options.seed), *parts])
    work.mkdir(parents=True, exist_ok=True)
    results = work / "results.jsonl"
    given = (options.kills, options.seed, options.joins, options.each, options.executors, options.victims)
    drawn = planned(*given, options.writers, options.databases or [""])
    rounds = [replace(each, store=options.checkpoints, tasks=options.tasks) for each in drawn]
    done = {} if options.only is not None else _read(results)
    wanted = [r for r in rounds if options.only in (None, r.number) and _key(r) not in done]
    if len(wanted) < len(rounds) and options.only is None:
        _say(f"{len(rounds) - len(wanted)} of {len(rounds)} rounds are done already ({results})")
    stuck = _run_all(wanted, work, results, options.workers, done)
    outcomes = [done[_key(r)] for r in rounds if _key(r) in done]
    print("\n" + tables(outcomes))
    if stuck:
        return 2
    return 0 if all(outcome.verdict.sound for outcome in outcomes) else 1


def _run_all(rounds: list[Round], work: Path, results: Path, workers: int, done: dict[str, Outcome]) -> int:
    """How many rounds did not go on."""
    strikes = sum(len(r.strikes) for r in rounds)
    _say(f"{len(rounds)} rounds, {strikes} kills, {workers} at a time")

    def one(given: Round) -> bool:
        name = f"round {given.number} {given.join} ({given.database or given.writers})"
        try:
            outcome = run(given, work / f"round-{given.number}", lambda text: _say(f"{name}: {text}"))
        except Exception as problem:
            # the other rounds go on; what a round that is broken off has left stays in its folder
            _say(f"{name}: BROKEN OFF: {type(problem).__name__}: {problem}")
            return False
        with _lock:
            done[_key(given)] = outcome
            with results.open("a") as kept:
                kept.write(json.dumps(asdict(outcome)) + "\n")
        shown = "right" if outcome.verdict.sound else f"DIFFERENT: {outcome.verdict!r}"
        _say(f"{name}: {len(outcome.met)} kills, {outcome.batches} batches, {shown}")
        return True

    pool = ThreadPoolExecutor(workers)
    try:
        return list(pool.map(one, rounds)).count(False)
    except KeyboardInterrupt:
        # not to wait for the rounds: their processes end with this one
        _say("stopped; the same command goes on with the rounds that are not done")
        os._exit(130)


def _read(results: Path) -> dict[str, Outcome]:
    if not results.exists():
        return {}
    found = [outcome_of(json.loads(line)) for line in results.read_text().splitlines()]
    return {_key(outcome.round): outcome for outcome in found}


def _key(given: Round) -> str:
    return f"{given.number}/{given.join}/{given.writers}{given.database}/{len(given.strikes)}"


def outcome_of(data: dict[str, Any]) -> Outcome:
    """The outcome that was kept as this."""
    given = data["round"]
    strikes = tuple(Strike(**strike) for strike in given["strikes"])
    verdict: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in data["verdict"].items()
    }
    met = [(Strike(**strike), batch) for strike, batch in data["met"]]
    unmet = [Strike(**strike) for strike in data["unmet"]]
    rest = {name: data[name] for name in ("batches", "records", "failures")}
    return Outcome(Round(**{**given, "strikes": strikes}), met, unmet, **rest, verdict=Verdict(**verdict))


def _say(text: str) -> None:
    with _lock:
        print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
