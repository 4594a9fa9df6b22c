"""The net around decoders: what raises at a record, and what ends the process at one, leaves out that record alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet._worker.formats import guard
from watersmeet._worker.formats.decode import Deserializer, Deserializers
from watersmeet._worker.formats.serdes import Decoded
from watersmeet.errors import SourceError

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Frail:
    """Reads bytes as they are, unless they are of those that break it."""

    breaks: Any

    def read(self, raw: pa.Array) -> Decoded:
        for each in raw.to_pylist():
            if each is not None:
                self.breaks(each)
        return Decoded(raw, np.zeros(len(raw), dtype=np.bool_))

    def fault(self, raw: bytes) -> str:
        self.read(pa.array([raw], pa.binary()))
        return "none"

    def write(self, values: pa.Array) -> pa.Array:
        return values


def raises(error: Exception) -> Any:
    def breaks(raw: bytes) -> None:
        if raw.startswith(b"bad"):
            raise error

    return breaks


def kills(raw: bytes) -> None:
    if raw.startswith(b"kill"):
        os.kill(os.getpid(), signal.SIGSEGV)


RAW: list[bytes | None] = [b"a", None, b"bad 1", b"b", b"bad 2", b"", b"c"]


def test_a_decoder_that_raises_leaves_out_the_records_at_which_it_does() -> None:
    found = guard.read_net(Frail(raises(OverflowError("too much"))), pa.array(RAW, pa.binary()))
    assert found.bad.tolist() == [False, False, True, False, True, False, False]
    assert found.values.to_pylist() == [b"a", None, None, b"b", None, b"", b"c"]
    assert guard.fault_net(Frail(raises(RecursionError())), b"bad") == "its decoder fails with RecursionError: "


@pytest.mark.parametrize("error", [SourceError("no answer"), MemoryError(), ConnectionResetError()])
def test_what_says_nothing_of_a_record_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        guard.read_net(Frail(raises(error)), pa.array(RAW, pa.binary()))


def test_a_decoder_that_reads_nothing_at_all_raises() -> None:
    def always(raw: bytes) -> None:
        raise ValueError

    @dataclass(frozen=True)
    class Broken(Frail):
        def read(self, raw: pa.Array) -> Decoded:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        guard.read_net(Broken(always), pa.array(RAW, pa.binary()))


@dataclass(frozen=True)
class OfEvents(Frail):
    """The same, of events that tell their time, and of some that say nothing."""

    def read(self, raw: pa.Array) -> Decoded:
        found = super().read(raw)
        ignored = np.array([each == b"" for each in raw.to_pylist()])
        return Decoded(found.values, found.bad, ignored, pa.array([5] * len(raw), pa.int64()))


def test_times_and_what_is_ignored_are_those_of_the_good_records() -> None:
    found = guard.read_net(OfEvents(raises(KeyError())), pa.array(RAW, pa.binary()))
    assert found.ignored is not None
    assert found.ignored.tolist() == [False, False, False, False, False, True, False]
    assert found.ts is not None
    assert found.ts.to_pylist() == [5, 5, None, 5, None, 5, 5]


@pytest.mark.parametrize("bad", [[], [0], [6], [2, 3], [0, 1, 2, 3, 4, 5, 6]])
def test_the_records_that_end_a_process_are_found_by_halving(bad: list[int]) -> None:
    raw = pa.array([b"kill" if n in bad else b"%d" % n for n in range(7)], pa.binary())
    found = guard.parts(lambda given: Frail(kills).read(given), raw)
    assert [(part.start, part.killed_by) for part in found if part.killed_by] == [(n, signal.SIGSEGV) for n in bad]
    assert [n for part in found for n in range(part.start, part.end)] == list(range(7))


def test_a_process_that_is_killed_from_outside_says_nothing_of_its_records() -> None:
    found = guard.parts(lambda given: os.kill(os.getpid(), signal.SIGKILL), pa.array([b"a", b"b"], pa.binary()))
    assert found == [guard.TrialPart(0, 2)]


def frame(raw: list[bytes | None], first: int = 100) -> pa.Table:
    count = len(raw)
    return pa.table(
        {
            "root": pa.array([0] * count, pa.int32()),
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(first, first + count), pa.int64()),
            "ts": pa.array([0] * count, pa.int64()),
            "raw_value": pa.array(raw, pa.binary()),
        }
    )


def deserializers(topic: str, *, fails: bool) -> Deserializers:
    part = Deserializer(0, "value", "value", "frail", topic, fails, Frail(kills))
    return Deserializers((part,))


DIES = """
import json, sys
from tests.formats.test_guard import RAW_THAT_KILLS, deserializers, frame
from watersmeet.errors import SourceError
try:
    made = deserializers(sys.argv[1], fails=sys.argv[2] == "fail")(frame(RAW_THAT_KILLS))
except SourceError as error:
    print(json.dumps(str(error)))
else:
    values = [each and each.decode() for each in made.column("value").to_pylist()]
    print(json.dumps([values, made.column("reason").to_pylist()]))
"""
RAW_THAT_KILLS: list[bytes | None] = [b"a", b"kill", None, b"b"]


def decoded_elsewhere(folder: Path, topic: str, policy: str = "skip") -> tuple[int, Any]:
    """How a process ends that decodes `RAW_THAT_KILLS`, and what it says."""
    ran = subprocess.run(
        [sys.executable, "-c", DIES, topic, policy],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, json.loads(ran.stdout) if ran.stdout else ran.stderr


def test_who_decodes_the_records_over_which_a_process_died_finds_the_one_that_ended_it(tmp_path: Path) -> None:
    assert decoded_elsewhere(tmp_path, "orders")[0] == -signal.SIGSEGV
    # the note is of these records alone
    assert decoded_elsewhere(tmp_path, "others")[0] == -signal.SIGSEGV
    assert decoded_elsewhere(tmp_path, "orders") == (0, [["a", None, None, "b"], [0, 2, 0, 0]])
    said = decoded_elsewhere(tmp_path, "orders", "fail")[1]
    assert "topic orders, partition 3, offset 101" in said
    assert "decoding it ended the process, each time it was tried (SIGSEGV)" in said


def test_a_note_is_of_what_a_process_decodes_at_this_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_folder", lambda: tmp_path)
    guard._own_file.cache_clear()
    spans = {3: (100, 103)}
    with guard.decoding("orders/value", spans):
        # this process lives
        assert guard.of_the_dead() == []
        (file,) = tmp_path.iterdir()
        # as a process would have it that has ended
        (tmp_path / f"{2**22 + 1}-7").write_text(file.read_text())
    (note,) = guard.of_the_dead()
    assert guard.overlap(note, "orders/value", {3: (103, 110), 4: (0, 1)})
    assert not guard.overlap(note, "orders/key", spans)
    assert not guard.overlap(note, "orders/value", {3: (104, 110)})
    assert not guard.overlap(note, "orders/value", {2: (100, 103)})
    assert file.read_text() == ""
    (tmp_path / f"{2**22 + 2}-7").write_text('{"what":')
    (tmp_path / "anything").write_text("x")
    assert guard.of_the_dead() == [note]
    guard._own_file.cache_clear()


def test_bytes_that_arrow_reads_are_not_noted_and_those_of_other_formats_are() -> None:
    assert guard._spans(frame([b"a", None, b"b"]), pa.array([None, b"a", b"b"], pa.binary())) == {3: (101, 102)}
