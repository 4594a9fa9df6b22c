"""The archive of Spark's classes: made by a command, taken by sessions, and by nobody who has chosen otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from watersmeet._spark.session import archive_options, archive_place, archives
from watersmeet.prepare import prepare

PROGRAM = """
import watersmeet as wm
spark = wm.session(master="local[1]", config={"spark.ui.enabled": "false"})
print(spark.conf.get("spark.driver.defaultJavaOptions"))
print(spark.range(3).count())
"""


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_an_archive_is_named_where_there_is_one_and_nobody_has_chosen(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = archive_place()
    assert place.is_relative_to(cache)
    assert archive_options([]) == ""
    place.parent.mkdir(parents=True)
    file = place.with_name(f"{place.name}-5.jsa")
    # one that was cut off ends the JVM
    file.write_text("some")
    assert archive_options([]) == ""
    file.write_text("whole")
    assert archive_options(["-Xmx2g"]).startswith(f"-XX:SharedArchiveFile={file} ")
    for others in (
        "-Xshare:off",
        "-XX:SharedArchiveFile=mine",
        "-XX:ArchiveClassesAtExit=mine",
        "-XX:AOTCache=mine",
        "-javaagent:a.jar",
    ):
        assert archive_options(["-Xmx2g", others]) == ""
    monkeypatch.setenv("JAVA_HOME", "/another/java")
    assert archive_place() != place
    assert archive_options([]) == ""


@pytest.mark.proof
def test_a_session_takes_the_archive_that_was_made_and_passes_over_one_that_was_cut_off(cache: Path) -> None:
    file = prepare()
    assert archives(archive_place()) == [file]
    for size, taken in ((file.stat().st_size, True), (1_000, False)):
        with file.open("r+b") as archive:
            archive.truncate(size)
        ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
        options, count = ended.stdout.splitlines()[-2:]
        assert (f"-XX:SharedArchiveFile={file}" in options) == taken
        assert count == "3"
