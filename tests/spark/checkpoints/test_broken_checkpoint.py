"""Whatever is deleted, cut off, emptied or altered in a checkpoint: the right result, or an error with a name.

One checkpoint of a topology of two levels is damaged in one place at a time and started again, with new input.
The table says what is expected. `named`: refused or failed by an error of watersmeet with a hint. `right`: the
file is not needed any more, or made again. `either`: it depends on how many lists of the state's files Spark has
written by then, which it does in the background; what was changed since the list before is still there.
Files keep the sums beside them that file systems of this machine write (`.2.crc`), except where the last test
removes them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from tests.spark.inputs_and_outputs.test_streaming import SCHEMA, Collector, put, reader, run

NEW = 3
"""Number of the batch that the new input is."""


@dataclass(frozen=True)
class Sound:
    """A checkpoint, a copy of it to go back to, and what each batch gives."""

    folder: Path
    rows: dict[int, list[tuple[Any, ...]]]

    def restored(self) -> Path:
        """The checkpoint as it was, in its own place: Spark keeps whole paths in it."""
        for name in ("cp", "cache"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            shutil.copytree(self.folder / f"{name}-copy", self.folder / name)
        return self.folder / "cp"


def started(spark: SparkSession, folder: Path) -> dict[int, list[tuple[Any, ...]]]:
    """Rows of each batch of a start that processes what is there."""
    builder = wm.StreamsBuilder("broken")
    options = {"key": "k", "value": "v", "timestamp": "ts"}
    left = builder.table(reader(spark, folder / "left"), name="left", **options)
    people = spark.createDataFrame([(n, f"p{n}", n) for n in range(6)], SCHEMA)
    right = builder.table(people, name="right", order="k", **options)
    reference = F.length  # the value's length is the key of its partner
    joined = left.join(right, F.concat, foreign_key=lambda value: reference(value).cast("long"))
    sink = Collector()
    joined.to(wm.ForeachBatch(sink), name="out")
    run(builder.build(), spark, folder)
    return {batch: sorted(tries[-1]) for batch, tries in sink.batches.items()}


@pytest.fixture(scope="module")
def sound(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sound:
    folder = tmp_path_factory.mktemp("broken")
    rows: dict[int, list[tuple[Any, ...]]] = {}
    for number in range(NEW + 1):
        put(spark, folder / "left", *((n, "a" * ((n + number) % 5 + 1), 100 * number + n) for n in range(12)))
        if number == NEW:
            for name in ("cp", "cache"):
                shutil.copytree(folder / name, folder / f"{name}-copy")
        if number:  # the first start has two batches
            rows |= started(spark, folder)
    assert sorted(rows) == list(range(NEW + 1))
    return Sound(folder, rows)


def outcome(spark: SparkSession, sound: Sound) -> str:
    """What becomes of a start upon the checkpoint as it is now."""
    try:
        rows = started(spark, sound.folder)
    except (wm.CorruptData, wm.ConfigError) as error:
        return "named" if error.given and error.hint else f"not explained: {error}"
    if NEW in rows and all(sound.rows[batch] == found for batch, found in rows.items()):
        return "right"
    return f"different: {rows}"


def delete(file: Path) -> None:
    file.unlink()
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def cut_off(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def alter(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def empty(file: Path) -> None:
    file.write_bytes(b"")


DAMAGES: tuple[Callable[[Path], None], ...] = (delete, cut_off, alter, empty)
# where the file is (the last of these names, or the first), and what is expected where it is deleted, cut off,
# altered, emptied; a hyphen: not tried, since it is the kind of the line above
FILES = {
    "Spark's id of the query": ("metadata", -1, "named named named named"),
    "the last plan": ("offsets/*", -1, "named named named named"),
    "the plan before": ("offsets/*", -2, "named named named named"),
    "an older plan": ("offsets/*", 0, "right named - named"),
    "the last commit": ("commits/*", -1, "right named named named"),
    "an older commit": ("commits/*", 0, "right - named named"),
    "the last list of files": ("sources/0/*", -1, "named named named named"),
    "an older list of files": ("sources/0/*", 0, "named - named -"),
    "the last changes of state": ("state/0/0/*.changelog", -1, "named named named named"),
    "changes of the other level": ("state/1/1/*.changelog", -1, "named - named -"),
    "the state's file list": ("state/0/0/*.zip", -1, "either - either -"),
    "a file of the state": ("state/0/0/SSTs/*.sst", -1, "either either - -"),
    "what the state is of": ("state/0/_metadata/v2/*", -1, "right named named named"),
    "the state's schema": ("state/0/_stateSchema/default/*", -1, "named named named named"),
    "watersmeet's record": ("watersmeet/topology/part-*", -1, "named named named named"),
    "the copy of a static frame": ("watersmeet/static/right/part-*", -1, "named - - -"),
    "the numbers of the last batch": ("watersmeet/totals/*", -1, "right right - -"),
    "the end of that copy": ("watersmeet/static/right/_content.json", -1, "named named named named"),
}
TRIED = [
    (pattern, place, damage, expected, f"{what}-{damage.__name__}")
    for what, (pattern, place, outcomes) in FILES.items()
    for damage, expected in zip(DAMAGES, outcomes.split(), strict=True)
    if expected != "-"
]
# every third without --proof, of another kind of damage for each file in turn
CELLS = [
    pytest.param(*cell, id=name, marks=() if number % 3 == 0 else pytest.mark.proof)
    for number, (*cell, name) in enumerate(TRIED)
]


@pytest.mark.parametrize(("pattern", "place", "damage", "expected"), CELLS)
def test_a_damaged_file_is_an_error_with_a_name_or_is_not_needed(
    spark: SparkSession, sound: Sound, pattern: str, place: int, damage: Callable[[Path], None], expected: str
) -> None:
    files = sorted(file for file in sound.restored().glob(pattern) if not file.name.startswith("."))
    damage(files[place])
    assert outcome(spark, sound) in (("named", "right") if expected == "either" else (expected,))


FOLDERS = {
    "offsets": "named",
    "commits": "right",
    "sources": "named",
    "state": "named",
    "state/0/0": "named",
    "state/0/_metadata": "named",
    "state/0/_stateSchema": "named",
    "watersmeet": "named",
    "watersmeet/static": "named",
    "offsets commits": "named",
    "offsets commits sources metadata": "named",
    "offsets/2 commits/2": "named",
    "offsets/2 offsets/1 commits/2 commits/1": "named",
    "offsets commits state sources metadata": "right",
}


@pytest.mark.parametrize(("names", "expected"), FOLDERS.items(), ids=FOLDERS)
def test_what_is_left_of_a_checkpoint_is_refused_unless_it_is_a_beginning(
    spark: SparkSession, sound: Sound, names: str, expected: str
) -> None:
    checkpoint = sound.restored()
    for name in names.split():
        path = checkpoint / name
        shutil.rmtree(path) if path.is_dir() else delete(path)
    assert outcome(spark, sound) == expected


def test_damaged_files_of_the_cache_are_fetched_again(spark: SparkSession, sound: Sound) -> None:
    sound.restored()
    files = sorted((sound.folder / "cache").glob("*.run"))
    assert len(files) > len(DAMAGES)
    for number, file in enumerate(files):
        DAMAGES[number % len(DAMAGES)](file)
    assert outcome(spark, sound) == "right"


@pytest.mark.parametrize(("level", "source"), [("0", "0"), ("1", "0"), ("1", "1")])
def test_changes_of_state_in_the_place_of_others_are_refused_where_no_sums_are_kept(
    spark: SparkSession, sound: Sound, level: str, source: str
) -> None:
    folder = sound.restored() / "state" / level
    other, last = folder / source / f"{NEW - 1}.changelog", folder / "1" / f"{NEW}.changelog"
    assert last.stat().st_size > 256
    delete(last)
    shutil.copyfile(other, last)
    assert outcome(spark, sound) == "named"


def test_where_no_sums_are_kept_a_plan_that_goes_back_is_refused(spark: SparkSession, sound: Sound) -> None:
    checkpoint = sound.restored()
    for file in checkpoint.rglob(".*.crc"):
        file.unlink()
    plan = checkpoint / "offsets" / "2"
    assert '{"logOffset":2}' in plan.read_text()
    plan.write_text(plan.read_text().replace('{"logOffset":2}', '{"logOffset":0}', 1))
    assert outcome(spark, sound) == "named"


def test_a_file_sink_that_has_later_batches_than_the_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    def start() -> None:
        builder = wm.StreamsBuilder("copied")
        records = builder.stream(reader(spark, tmp_path / "in"), name="in", key="k", value="v", timestamp="ts")
        records.to(wm.Writer("parquet", path=str(tmp_path / "out")), name="out")
        run(builder.build(), spark, tmp_path)

    for number in range(2):
        put(spark, tmp_path / "in", (number, "a", number))
    start()
    checkpoint = tmp_path / "cp"
    for log in ("offsets", "commits"):
        delete(checkpoint / log / "1")
    with pytest.raises(wm.CorruptData, match="batch 1 is there, the last one planned is 0"):
        start()
    # Spark's own sink would write none of a new checkpoint's first batches either
    shutil.rmtree(checkpoint)
    with pytest.raises(wm.CorruptData, match="batch 1 is there, the last one planned is -1"):
        start()
