"""Epochs: who starts takes the next one, and whoever had the one before commits nothing more."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from watersmeet._spark.checkpoint.folders import LocalFiles, local_folder
from watersmeet._spark.checkpoint.lease import KEPT, Epochs, may_be_shared
from watersmeet._spark.checkpoint.record import holding
from watersmeet.errors import ConfigError


def epochs(folder: Path, owner: str) -> Epochs:
    return Epochs(local_folder(folder), owner, f"host of {owner}", "cp")


def test_who_was_passed_by_is_told_by_whom(tmp_path: Path) -> None:
    first, second = epochs(tmp_path, "a"), epochs(tmp_path, "b")
    first.take()
    first.check()
    second.take()
    second.check()
    with pytest.raises(ConfigError, match=r"taken this checkpoint over(.|\n)*epoch 1, epoch 2 was taken by host of b"):
        first.check()


def test_of_many_that_start_at_once_each_epoch_has_one(tmp_path: Path) -> None:
    barrier, taken, refused = threading.Barrier(8), [], []

    def start(owner: str) -> None:
        mine = epochs(tmp_path, owner)
        barrier.wait()
        try:
            mine.take()
            taken.append(mine.number)
        except ConfigError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=start, args=(str(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(1, len(taken) + 1))
    assert len(taken) + len(refused) == 8
    assert all("is being started" in said for said in refused)


def test_an_answer_that_was_lost_leaves_an_epoch_that_is_ones_own(tmp_path: Path) -> None:
    class Forgetful(LocalFiles):
        def create(self, name: str, text: str) -> bool:
            super().create(name, text)
            return False

    mine = Epochs(Forgetful(None, f"file:{tmp_path}"), "a", "host", "cp")
    mine.take()
    assert mine.number == 1
    mine.check()


def test_a_file_that_nobody_wrote_into_is_nobodys_epoch(tmp_path: Path) -> None:
    (tmp_path / "0000000001").touch()
    mine = epochs(tmp_path, "a")
    mine.take()
    assert mine.number == 2
    assert not mine.is_fresh


def test_an_epoch_that_was_ended_says_that_nobody_runs_under_it(tmp_path: Path) -> None:
    first = epochs(tmp_path, "a")
    first.take()
    assert first.is_fresh
    first.end()
    first.end()
    second, third = epochs(tmp_path, "b"), epochs(tmp_path, "c")
    second.take()
    third.take()
    assert second.is_fresh
    assert not third.is_fresh


def test_a_checkpoint_that_was_replaced_ends_the_query_and_one_that_is_gone_stays_so(tmp_path: Path) -> None:
    folder = tmp_path / "epochs"
    mine = epochs(folder, "a")
    mine.take()
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    with pytest.raises(ConfigError, match=r"removed or replaced(.|\n)*epoch 1 of this query is gone"):
        mine.check()
    mine.end()
    assert not folder.exists()


def test_files_of_earlier_epochs_go(tmp_path: Path) -> None:
    for number in range(3 * KEPT):
        epochs(tmp_path, str(number)).take()
    assert len(list(tmp_path.iterdir())) == KEPT + 1


def test_the_record_of_the_later_epoch_holds_whatever_its_number() -> None:
    numbers_and_epochs = [(6, 1), (7, 2), (7, 1), (5, 1)]
    old, owner, passed_by, older = ({"number": number, "epoch": epoch} for number, epoch in numbers_and_epochs)
    assert holding([old, owner, passed_by]) is owner
    assert holding([old, older]) is old


@pytest.mark.parametrize(
    ("has_lock", "is_fresh", "shared"), [(True, False, False), (False, True, False), (False, False, True)]
)
def test_a_checkpoint_may_be_shared_where_no_lock_and_no_end_says_otherwise(
    has_lock: bool, is_fresh: bool, shared: bool
) -> None:
    assert may_be_shared(has_lock=has_lock, is_fresh=is_fresh) is shared


def test_an_epoch_that_is_given_back_leaves_the_one_before_its_owner_and_a_later_one_to_its_own(tmp_path: Path) -> None:
    first, refused, other = epochs(tmp_path, "a"), epochs(tmp_path, "b"), epochs(tmp_path, "c")
    first.take()
    refused.take()
    with pytest.raises(ConfigError, match="taken this checkpoint over"):
        first.check()
    refused.withdraw()
    first.check()
    other.take()
    refused.number = other.number
    refused.withdraw()
    other.check()
    refused.withdraw()
