"""What the page of joins loads: it stands alone, Pyodide is what is locked, and the site can do without it."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from dev.docs import fetch_pyodide, joins
from dev.docs.fetch_pyodide import FILES, PyodideMissing, fetch, present
from proof import golden

CASE = "operator: table-table\ntype: inner\n\nleft a 1 @1\nright a 2 @2"


def archive(folder: Path, content: bytes = b"wasm") -> Path:
    """An archive as npm packs it, and a lock for it."""
    folder.mkdir()
    with tarfile.open(folder / "pyodide-1.2.3.tgz", "w:gz") as packed:
        for name in FILES:
            (folder / name).write_bytes(content)
            packed.add(folder / name, f"package/{name}")
    return folder / "pyodide-1.2.3.tgz"


def npm_that_brings(folder: Path, packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program npm that knows one archive, and fails when it is asked for another version."""
    npm = folder / "npm"
    npm.write_text(f'#!/bin/sh\n[ "$2" = pyodide@1.2.3 ] || exit 1\n/bin/cp {packed} "$5/"\n')
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def lock_of(folder: Path, packed: Path) -> Path:
    lock = folder / "pyodide.lock"
    lock.write_text(f"{hashlib.sha256(packed.read_bytes()).hexdigest()}  {packed.name}\n")
    return lock


def test_the_archive_runs_a_case_with_the_standard_library_alone(tmp_path):
    joins.pack(tmp_path / "proof.zip")
    program = (
        f"import sys; sys.path.insert(0, sys.argv[1]); from proof.cases import run_to_json as run; print(run({CASE!r}))"
    )
    command = [sys.executable, "-I", "-S", "-c", program, str(tmp_path / "proof.zip")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["steps"][1]["results"][-1] == [["a", "1-2", 2]]


def test_the_same_files_give_the_same_archive(tmp_path):
    for name in ("a.zip", "b.zip"):
        joins.pack(tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    assert all(name.startswith("proof/") for name in zipfile.ZipFile(tmp_path / "a.zip").namelist())


def test_each_section_of_each_golden_page_has_a_link_to_its_own_case():
    listed = {page["name"]: page["cases"] for page in joins.pages()}
    for file in joins.GOLDEN.glob("*.md"):
        linked = joins.with_links(file.read_text(), f"golden/{file.name}")
        found = re.findall(rf"^## (.+)\n\n<a href=\"\.\./joins\.html#golden={file.stem}/(\d+)\">", linked, re.MULTILINE)
        titles = [title for title, _ in listed[file.stem]]
        assert [(title, int(number)) for title, number in found] == [(t, n) for n, t in enumerate(titles, 1)]
        assert titles == [history.id for history in golden.read(file)]


def test_the_tables_of_kafkas_own_pages_come_first():
    assert tuple(page["name"] for page in joins.pages())[: len(joins.FIRST)] == joins.FIRST


def test_without_pyodide_the_site_has_all_else_and_says_that_it_is_missing(tmp_path):
    joins.put(tmp_path / "site", pyodide=tmp_path / "nowhere")
    assert sorted(file.name for file in (tmp_path / "site" / "joins").iterdir()) == ["about.json", "proof.zip"]
    assert json.loads((tmp_path / "site" / "joins" / "about.json").read_text())["pyodide"] is False


def test_pyodide_is_fetched_once_and_again_when_the_lock_has_changed(tmp_path, monkeypatch):
    packed = archive(tmp_path / "first")
    npm_that_brings(tmp_path, packed, monkeypatch)
    lock = lock_of(tmp_path, packed)
    fetch(tmp_path / "into", lock)
    assert present(tmp_path / "into", lock)
    assert sorted(file.name for file in (tmp_path / "into").iterdir()) == sorted([*FILES, "watersmeet.stamp"])
    (tmp_path / "npm").unlink()
    fetch(tmp_path / "into", lock)
    lock.write_text(lock.read_text().replace("1.2.3", "1.2.4"))
    assert not present(tmp_path / "into", lock)


def test_an_archive_that_is_not_the_locked_one_is_refused_and_nothing_is_laid_down(tmp_path, monkeypatch):
    lock = lock_of(tmp_path, archive(tmp_path / "first"))
    npm_that_brings(tmp_path, archive(tmp_path / "second", b"another"), monkeypatch)
    with pytest.raises(PyodideMissing, match=r"has the SHA-256 .*\nHint: the mirror has another archive"):
        fetch(tmp_path / "into", lock)
    assert not (tmp_path / "into").exists()


def test_without_npm_or_where_it_fails_the_site_is_built_without_pyodide(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fetch_pyodide, "present", lambda *_: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert fetch_pyodide.main() == 0
    assert "npm is not installed.\nHint: install Node.js" in capsys.readouterr().err
    npm_that_brings(tmp_path, tmp_path / "nothing", monkeypatch)
    assert fetch_pyodide.main() == 0
    assert "npm could not fetch pyodide-" in capsys.readouterr().err


def test_what_is_locked_has_a_version_and_a_sum():
    digest, name = fetch_pyodide.locked()
    assert re.fullmatch(r"[0-9a-f]{64}", digest)
    assert re.fullmatch(r"\d+\.\d+\.\d+", fetch_pyodide.version_of(name))
