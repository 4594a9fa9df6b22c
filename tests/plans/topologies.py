"""The topologies whose plans are kept: of the golden pages, the recordings, random blueprints, demo and benchmarks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from proof.arrow import arrow_builder
from proof.golden import read as read_golden
from proof.histories.blueprint import as_data, of_data
from proof.histories.check import topology_of
from proof.histories.draw import CASES_PER_BLUEPRINT, case_of
from proof.recordings import History, read, topology_key
from proof.runners.library import ArrowLibrary
from proof.runners.topologies import build_recorded, unsupported
from tests.plans.dump import digests, whole
from watersmeet.api.topology import Topology

ROOT = Path(__file__).resolve().parents[2]
SEEDS = (0, 1)
DRAWN = 250
Named = Iterator[tuple[str, Topology]]


def golden() -> Named:
    """Each section of each golden page."""
    for path in sorted((ROOT / "tests" / "golden").glob("*.md")):
        yield from ((f"{path.stem}: {history.id}", _recorded(history)) for history in read_golden(path))


def recorded() -> Named:
    """The topologies of all recordings that can be built, each once."""
    seen: set[str] = set()
    recordings = ROOT / "tests" / "recordings"
    for path in sorted([*(recordings / "histories").iterdir(), *(recordings / "vectors").iterdir()]):
        for history in read(path):
            key = topology_key(history)
            name = key if history.vector is None else f"vector {history.vector['name']}"
            if not seen & {key, name} and unsupported(history) is None:
                seen.update((key, name))
                yield name, _recorded(history)


def drawn() -> Named:
    """Random topologies, as they were drawn when they were first kept: kinds that come later change none of them."""
    path = kept("drawn")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else _draw()
    for line in lines:
        data = line.split(" ", 2)[2]
        yield data, topology_of(of_data(json.loads(data)))


def _draw() -> Iterator[str]:
    for seed in SEEDS:
        for number in range(DRAWN):
            blueprint = case_of(seed, CASES_PER_BLUEPRINT * number).blueprint
            yield f"- - {json.dumps(as_data(blueprint), separators=(',', ':'))}"


def demo() -> Named:
    """The demo from topic to topic; it needs a session."""
    from demo.topology import between_topics, build

    yield "flights", build(between_topics())


def bench() -> Named:
    """The benchmark's workloads but the demo, which stands by itself; they need a session."""
    from bench.workloads.demo import PLAIN, WORKLOADS
    from bench.workloads.every import EVERY
    from bench.workloads.workload import handles_of
    from watersmeet.api.builder import StreamsBuilder

    for name, workload in EVERY.items():
        if name not in {**WORKLOADS, **PLAIN}:
            builder = StreamsBuilder("bench")
            for number, handle in enumerate(handles_of(workload, builder, workload.topics)):
                handle.to("out" if number == 0 else f"out-{number + 1}")
            yield name, builder.build()


KEPT: dict[str, tuple[Callable[[], Named], Callable[[str, Topology], str]]] = {
    "golden": (golden, whole),
    "recorded": (recorded, digests),
    "drawn": (drawn, digests),
}
KEPT_WITH_SPARK = {"demo": (demo, whole), "bench": (bench, whole)}


def text_of(name: str) -> str:
    """What a kept text must be now."""
    named, page = (KEPT | KEPT_WITH_SPARK)[name]
    return "".join(page(title, topology) for title, topology in named())


def kept(name: str) -> Path:
    """Where a text is kept."""
    return Path(__file__).with_name(f"{name}.txt")


def _recorded(history: History) -> Topology:
    builder, _ = build_recorded(history, ArrowLibrary(), lambda g: arrow_builder("recorded", generation=g))
    return builder.build()
