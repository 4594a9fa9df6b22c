"""What a windowed join keeps while one of its partitions is quiet: each domain's rows go with its own time."""

from __future__ import annotations

from proof.arrow import arrow_builder
from proof.engine import EngineDriver
from tests.engine.stream_kit import PLUS
from watersmeet._engine.state.runs import State
from watersmeet.windows import JoinWindows

BATCHES = 100
ROWS = 20


def test_nothing_grows_while_a_partition_with_an_early_record_is_quiet() -> None:
    builder = arrow_builder("quiet")
    left, right = (builder.stream(name, key="string", value="string") for name in ("left", "right"))
    left.left_join(right, PLUS, JoinWindows(1_000, 1_000, 0), name="join").to("out")
    driver = EngineDriver(builder.build(), shards=1, partitioned=True)
    (operator,) = driver.topology.physical.operators
    assert operator.time.domains
    driver.pipe("left", "early", "e", ts=0, partition=1)
    kept: list[dict[str, int]] = []
    for batch in range(BATCHES):
        start = 10_000 + batch * 500
        # what the batch before left waiting is matched now
        for row in range(ROWS):
            driver.pipe("right", f"{batch - 1}-{row}", "r", ts=start, partition=0)
            driver.pipe("left", f"{batch}-{row}", "l", ts=start, partition=0)
        driver.run_batch()
        tables = State(driver.stores[(operator.id, 0)]).manifest.tables
        kept.append({name: sum(level.rows for level in entry.levels) for name, entry in tables.items()})
    assert set(kept[-1]) == {"join.left", "join.right", "join.matched"}
    for name, rows in kept[-1].items():
        assert 0 < rows <= max(some[name] for some in kept[10:20]), (name, rows)
    values = {r.value for r in driver.read("out")}
    assert values == {"l+r"}
