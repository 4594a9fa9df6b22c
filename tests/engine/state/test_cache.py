"""The cache of runs: never the truth. Whatever happens to its files, the rows are the manifest's."""

from __future__ import annotations

import multiprocessing
import os
import stat
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.state.state_kit import T, looked_up, scanned, write
from watersmeet._engine.state import cache as sums
from watersmeet._engine.state.cache import RunCache
from watersmeet._engine.state.merge import Policy
from watersmeet._engine.state.runs import MemoryChunkStore, State
from watersmeet.errors import CorruptData


def batch_of(number: int) -> pa.RecordBatch:
    columns = {"hash": np.arange(1000) + number, "value": [f"{number}-{i}" * 5 for i in range(1000)]}
    return pa.RecordBatch.from_pydict(columns)


class Fetches:
    """A fetch that counts how often it is needed."""

    def __init__(self, number: int = 0) -> None:
        self.count = 0
        self.number = number

    def __call__(self) -> pa.RecordBatch:
        self.count += 1
        return batch_of(self.number)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_a_run_is_fetched_once_and_then_read_from_its_file(root: Path) -> None:
    fetch = Fetches()
    for cache in (RunCache(root), RunCache(root)):
        assert all(cache.open("run", fetch).equals(batch_of(0)) for _ in range(3))
    assert fetch.count == 1
    assert (cache.use.opened, cache.use.hits) == (1, 2)


def test_what_is_published_needs_no_fetch(root: Path) -> None:
    RunCache(root).publish("run", batch_of(0))
    fetch = Fetches()
    assert RunCache(root).open("run", fetch).equals(batch_of(0))
    assert fetch.count == 0


def test_the_rows_lie_in_the_file_not_in_memory(root: Path) -> None:
    before = pa.total_allocated_bytes()
    cache = RunCache(root)
    cache.publish("run", batch_of(0))
    opened = cache.open("run", Fetches())
    assert opened.nbytes > 20_000
    assert pa.total_allocated_bytes() - before < 10_000


def test_the_directory_is_for_its_owner_alone(root: Path) -> None:
    root.mkdir(mode=0o755)
    cache = RunCache(root)
    cache.publish("run", batch_of(0))
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "run.run").stat().st_mode) == 0o600


@pytest.mark.parametrize("at", [0, 4, 9, 17, 30, 64, 500, 20_000, -1])
@pytest.mark.parametrize("fresh", [True, False], ids=["another process", "this process"])
def test_an_altered_file_is_fetched_again(root: Path, at: int, fresh: bool) -> None:
    cache, path = RunCache(root), root / "run.run"
    cache.open("run", Fetches())
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    before = path.stat().st_mtime_ns
    path.write_bytes(content)
    os.utime(path, ns=(before, before + 1))
    fetch = Fetches()
    cache = RunCache(root) if fresh else cache
    assert cache.open("run", fetch).equals(batch_of(0))
    assert (fetch.count, cache.use.rejected) == (1, 1)
    assert RunCache(root).open("run", fetch).equals(batch_of(0))
    assert fetch.count == 1


@pytest.mark.parametrize("size", [0, 10, 64, 1000])
def test_a_file_cut_off_is_fetched_again(root: Path, size: int) -> None:
    RunCache(root).open("run", Fetches())
    os.truncate(root / "run.run", size)
    fetch = Fetches()
    assert RunCache(root).open("run", fetch).equals(batch_of(0))
    assert fetch.count == 1


def test_the_file_of_another_run_under_this_name_is_not_taken(root: Path) -> None:
    cache = RunCache(root)
    cache.publish("other", batch_of(1))
    os.replace(root / "other.run", root / "run.run")
    assert cache.open("run", Fetches(0)).equals(batch_of(0))


def altered_in_place(path: Path) -> None:
    """Other bytes in the middle of a file, which keeps its size and times, as a failing disk leaves it."""
    before = path.stat()
    with open(path, "r+b") as file:
        file.seek(before.st_size // 2)
        byte = file.read(1)[0]
        file.seek(before.st_size // 2)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_file_that_is_altered_while_it_is_mapped_is_found_by_its_sum_and_ends_the_query(root: Path) -> None:
    cache = RunCache(root)
    for number in range(3):
        cache.open(f"run{number}", Fetches(number))
    for _ in range(6):
        cache.check_next()
    assert cache.open("run1", Fetches(1)).equals(batch_of(1))
    altered_in_place(root / "run1.run")
    for _ in range(3):
        cache.check_next()
    with pytest.raises(CorruptData, match=r"run1\.run(.|\n)*Hint: .*may be wrong(.|\n)*local_cache="):
        cache.open("run0", Fetches(0))
    fetch = Fetches(1)
    assert cache.open("run1", fetch).equals(batch_of(1))
    assert fetch.count == 1


def test_files_that_are_gone_or_others_by_now_are_no_error_in_the_background(root: Path) -> None:
    cache = RunCache(root)
    cache.check_next()
    for number in range(3):
        cache.open(f"run{number}", Fetches(number))
    (root / "run0.run").unlink()
    os.replace(root / "run2.run", root / "run1.run")
    for _ in range(6):
        cache.check_next()
    assert all(cache.open(f"run{number}", Fetches(number)).equals(batch_of(number)) for number in range(3))


def test_the_background_ends_with_its_cache(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums, "CHECK_SECONDS", 0.01)
    cache = RunCache(root)
    cache.open("run", Fetches())
    altered_in_place(root / "run.run")
    cache.watch()
    (watching,) = (thread for thread in threading.enumerate() if thread.name == "watersmeet: the cache's sums")
    until = time.monotonic() + 60
    while (root / "run.run").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    with pytest.raises(CorruptData):
        cache.open("run", Fetches())
    del cache
    watching.join(60)
    assert not watching.is_alive()


def test_a_file_that_vanished_is_fetched_again(root: Path) -> None:
    cache, fetch = RunCache(root), Fetches()
    cache.open("run", fetch)
    (root / "run.run").unlink()
    assert cache.open("run", fetch).equals(batch_of(0))
    assert fetch.count == 2


def test_removed_runs_leave_no_file_and_rows_in_use_stay_readable(root: Path) -> None:
    cache = RunCache(root)
    opened = cache.open("run", Fetches())
    cache.remove(["run", "never there"])
    assert list(root.iterdir()) == []
    assert opened.equals(batch_of(0))


def test_only_so_many_runs_stay_mapped(root: Path) -> None:
    cache = RunCache(root, open_runs=3)
    for number in range(10):
        cache.open(f"run-{number}", Fetches(number))
    opened = cache.use.opened
    for number in (7, 8, 9):
        assert cache.open(f"run-{number}", Fetches(number)).equals(batch_of(number))
    assert cache.use.opened == opened
    fetch = Fetches()
    assert cache.open("run-0", fetch).equals(batch_of(0))
    assert (cache.use.opened, fetch.count) == (opened + 1, 0)


def test_without_a_place_to_write_rows_are_held_in_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    with pytest.warns(UserWarning, match="cannot be used"):
        cache, fetch = RunCache(blocked / "cache"), Fetches()
    assert cache.open("run", fetch).equals(batch_of(0))
    cache.remove(["run"])
    assert cache.use.failed_writes == 1


def test_a_failed_write_leaves_nothing_half_done(root: Path) -> None:
    cache = RunCache(root)
    (root / "run.run").mkdir()
    with pytest.warns(UserWarning, match="cannot be used"):
        assert cache.open("run", Fetches()).equals(batch_of(0))
    assert cache.use.failed_writes == 1
    assert [path.name for path in root.iterdir()] == ["run.run"]


def test_the_sweep_takes_what_no_process_has_opened_for_long(root: Path) -> None:
    cache = RunCache(root, max_age=1000)
    for name in ("old", "new"):
        cache.publish(name, batch_of(0))
    (root / "crashed.tmp").write_bytes(b"half")
    (root / "not ours").write_bytes(b"kept")
    now = time.time()
    for name in ("old.run", "crashed.tmp", "not ours"):
        os.utime(root / name, (now - 2000, now))
    assert cache.sweep(now) == (root / "new.run").stat().st_size
    assert {path.name for path in root.iterdir()} == {"new.run", "not ours"}


def test_opening_a_run_keeps_it_from_the_sweep_and_does_not_look_like_a_change(root: Path) -> None:
    RunCache(root).publish("run", batch_of(0))
    now, path = time.time(), root / "run.run"
    changed = path.stat().st_mtime_ns
    os.utime(path, ns=(int((now - 9000) * 1e9), changed))
    other = RunCache(root)
    other.open("run", Fetches())
    assert path.stat().st_mtime_ns == changed
    assert RunCache(root, max_age=5000).sweep(now) == path.stat().st_size


def test_files_are_removed_one_commit_after_their_run_was_retired(root: Path) -> None:
    store = MemoryChunkStore()
    retired: tuple[str, ...] = ()
    for number in range(1, 30):
        state = State(store, RunCache(root), policy=Policy(small=1))
        files = {path.stem for path in root.iterdir()}
        # Should the last commit be taken back, its predecessor still finds its files.
        assert set(retired) <= files
        write(state.table(T), {f"k{i}": number for i in range(number % 7, 60, 7)})
        state.commit()
        files = {path.stem for path in root.iterdir()}
        assert not set(retired) & files
        retired = state.manifest.retired
        live = {run.id for run in state.manifest.tables["t"].runs()}
        assert files == live | set(retired)


def test_a_crashed_batch_does_not_disturb_its_replay(root: Path) -> None:
    store, expected = MemoryChunkStore(), dict[str, int]()
    for number in range(1, 25):
        before = store.snapshot()
        # First another attempt, with other content, that never commits; then the real one.
        for changes in (
            {f"k{i}": -number for i in range(40)},
            {f"k{i}": number for i in range(number % 3, 40, 3)},
        ):
            store.restore(before)
            state = State(store, RunCache(root), policy=Policy(small=1))
            table = state.table(T)
            assert scanned(table) == expected
            write(table, dict(changes))
            state.commit()
        expected |= changes
        assert looked_up(table, list(expected)) == expected


def _hammer(root: str, seed: int) -> int:
    rng, cache, wrong = np.random.default_rng(seed), RunCache(root, open_runs=4), 0
    for _ in range(150):
        number = int(rng.integers(8))
        match rng.integers(4):
            case 0:
                cache.publish(f"run-{number}", batch_of(number))
            case 1:
                cache.remove([f"run-{number}"])
            case _:
                wrong += not cache.open(f"run-{number}", Fetches(number)).equals(batch_of(number))
    return wrong


def test_processes_may_do_all_this_at_once(root: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        assert pool.starmap(_hammer, [(str(root), seed) for seed in range(3)]) == [0, 0, 0]
    assert not list(root.glob("*.tmp"))


@pytest.mark.parametrize("rows", [1_000, 40_000], ids=["put together in memory", "written as it comes"])
def test_a_file_has_a_sum_that_other_processes_find_right_whatever_its_size(root: Path, rows: int) -> None:
    batch = pa.RecordBatch.from_pydict({"hash": np.arange(rows), "value": ["x" * 30] * rows})
    RunCache(root).publish("run", batch)
    cache, fetch = RunCache(root), Fetches()
    assert cache.open("run", fetch).equals(batch)
    assert (fetch.count, cache.use.opened, cache.use.rejected) == (0, 1, 0)
    assert [path.name for path in root.iterdir()] == ["run.run"]
