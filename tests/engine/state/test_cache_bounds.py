"""What a cache keeps: no more than lies in its folder, no more bytes than it may, and nothing that others can write."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.state.state_kit import T, looked_up, write
from watersmeet._engine.state.cache import RunCache, own_folder
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet.errors import ConfigError


def batch_of(number: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"hash": np.arange(1000) + number, "value": np.arange(1000)})


def deleted_maps(root: Path) -> int:
    """How many files of the folder this process has mapped although they are gone."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum(str(root) in line and line.endswith("(deleted)") for line in lines)


def test_two_readers_of_3000_runs_keep_what_lives_and_nothing_else(tmp_path: Path) -> None:
    store, caches = MemoryChunkStore(), [RunCache(tmp_path / "cache") for _ in range(2)]
    runs: set[str] = set()
    number = 0
    while len(runs) < 3_000:
        cache = caches[number % 2]
        cache.let_go()
        state = State(store, cache, policy=Policy(small=1))
        table = state.table(T)
        looked_up(table, [f"k{number % 50}"])
        write(table, {f"k{number % 50}": number, f"k{number % 7}": -number})
        state.commit()
        runs |= {run.id for run in state.manifest.tables["t"].runs()}
        number += 1
    for cache in caches:
        cache.let_go()
    files = {path.stem for path in (tmp_path / "cache").iterdir()}
    assert len(files) < 60
    for cache in caches:
        assert cache.known <= files
        assert cache.mapped_bytes <= sum(path.stat().st_size for path in (tmp_path / "cache").iterdir())
    if Path("/proc/self/maps").exists():
        del state, table
        assert deleted_maps(tmp_path / "cache") == 0


def test_files_beyond_the_limit_in_bytes_go_the_oldest_first(tmp_path: Path) -> None:
    RunCache(tmp_path / "one").publish("run", batch_of(0))
    size = (tmp_path / "one" / "run.run").stat().st_size
    cache = RunCache(tmp_path / "cache", max_bytes=10 * size)
    for number in range(60):
        cache.open(f"run-{number}", partial(batch_of, number))
        path = tmp_path / "cache" / f"run-{number}.run"
        os.utime(path, ns=(number * 10**9 + 10**18, path.stat().st_mtime_ns))
        files = [file.name for file in (tmp_path / "cache").iterdir()]
        assert len(files) <= 11
        assert cache.mapped_bytes <= 10 * size
    assert f"run-{59}.run" in files
    assert cache.open("run-0", lambda: batch_of(0)).equals(batch_of(0))


def test_a_folder_that_others_may_write_or_that_is_anothers_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "shared"
    other.mkdir()
    other.chmod(0o777)
    with pytest.raises(ConfigError, match=r"others may write(.|\n)*Hint: "):
        own_folder(other)
    (tmp_path / "link").symlink_to(other)
    with pytest.raises(ConfigError, match="link"):
        own_folder(tmp_path / "link")
    made = own_folder(tmp_path / "a" / "b")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    if os.getuid() == 0:
        os.chown(made, 12345, -1)
        with pytest.raises(ConfigError, match="12345"):
            own_folder(made)


def used(root: Path) -> RunCache:
    """A cache of which some runs were asked for."""
    cache = RunCache(root)
    for number in range(3):
        assert cache.open(f"run-{number}", partial(batch_of, number)).equals(batch_of(number))
    return cache


def test_forged_rows_in_a_folder_that_others_may_write_are_not_read_and_that_is_said_once(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    RunCache(root).publish("run-1", batch_of(666))
    root.chmod(0o777)
    with pytest.warns(UserWarning, match=r"cache of state(.|\n)*others may write") as said:
        used(root)
    assert len(said) == 1
    assert [path.name for path in root.iterdir()] == ["run-1.run"]


def test_a_cache_that_cannot_be_written_says_so_once(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    for number in range(3):
        RunCache(root)
        (root / f"run-{number}.run").mkdir()
    with pytest.warns(UserWarning, match=r"fetched from the state store(.|\n)*Hint: ") as said:
        cache = used(root)
    assert len(said) == 1
    assert cache.use.failed_writes == 3
