"""Setup: stamps, the search for a Python, jars against their checksums, and the lock files."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from dev import jars
from dev.bootstrap import fingerprint, is_done, make_archive, make_file_manager
from dev.fetch_jars import FetchFailed, differences, fetch, locked_sums, main, present_sums
from dev.file_manager import build as file_manager

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def run_setup(python, path):
    environ = {**os.environ, "PATH": path, "PYTHON": python}
    command = ["/bin/sh", str(ROOT / "dev" / "setup.sh"), "--help"]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)


def python_that_is(folder, *version):
    """A python3 that runs what it is given, and believes itself to be of this version."""
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "python3"
    program = f"import sys; sys.version_info = {version}; exec(sys.argv[1])"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}" "$2"\n')
    python.chmod(0o755)
    return python


def test_a_step_is_done_again_when_and_only_when_something_it_depends_on_has_changed(tmp_path):
    lock, stamp = tmp_path / "lock.txt", tmp_path / "stamp"
    lock.write_text("a==1\n")
    assert not is_done(stamp, fingerprint([lock]))
    stamp.write_text(fingerprint([lock]))
    assert is_done(stamp, fingerprint([lock]))
    assert not is_done(stamp, fingerprint([lock], "another interpreter"))
    os.utime(lock, (0, 0))
    assert is_done(stamp, fingerprint([lock]))
    lock.write_text("a==2\n")
    assert not is_done(stamp, fingerprint([lock]))


@pytest.fixture
def tree(tmp_path):
    """A clone's sources of the file managers, and the place of their jar."""
    shutil.copytree(ROOT / file_manager.SOURCES, tmp_path / file_manager.SOURCES)
    (tmp_path / file_manager.JAR).parent.mkdir(parents=True)
    return tmp_path


def test_the_file_manager_is_compiled_again_when_and_only_when_its_source_has_changed(tree, monkeypatch):
    compiled = []

    def compiler(sources, jars):
        compiled.append(sources)
        return {"watersmeet/Manager.class": sources[0].read_bytes()}

    monkeypatch.setattr(file_manager, "_compiled", compiler)
    first = file_manager.built(tree, tree).read_bytes()
    assert (file_manager.built(tree, tree).read_bytes(), len(compiled)) == (first, 1)
    source = tree / file_manager.SOURCES / "ConditionalCheckpointFileManager.java"
    source.write_text(source.read_text() + "// changed")
    assert file_manager.built(tree, tree).read_bytes() != first
    assert len(compiled) == 2


def test_without_a_java_compiler_the_setup_goes_on_and_says_what_does_not_work(tree, monkeypatch, capsys):
    monkeypatch.setattr(file_manager.built, "__defaults__", (tree, tree))
    monkeypatch.setenv("JAVA_HOME", str(tree))
    make_file_manager()
    said = capsys.readouterr().out
    assert "no Java compiler" in said
    assert "Hint: install a JDK 17 or later" in said
    assert not (tree / file_manager.JAR).exists()


def test_a_python_that_is_too_old_is_refused_with_its_version_and_what_to_do(tmp_path):
    old = python_that_is(tmp_path, 3, 10, 18)
    done = run_setup(str(old), os.environ["PATH"])
    assert done.returncode == 1
    assert f"asked for: PYTHON={old}" in done.stderr
    assert f"{old} is Python 3.10.18" in done.stderr
    assert "Hint: install one" in done.stderr


def test_without_any_python_setup_says_so(tmp_path):
    (tmp_path / "dirname").symlink_to(shutil.which("dirname"))
    done = run_setup("", str(tmp_path))
    assert done.returncode == 1
    assert "Python 3.11 or later is needed; found: none" in done.stderr


def test_an_old_python_at_the_front_of_the_path_does_not_hide_a_newer_one(tmp_path):
    python_that_is(tmp_path, 3, 8, 1)
    newer = tmp_path / "newer"
    newer.mkdir()
    (newer / "python").symlink_to(sys.executable)
    done = run_setup("", f"{tmp_path}:{newer}:{os.environ['PATH']}")
    assert done.returncode == 0
    assert "Make .venv and .jars ready" in done.stdout


def python_that_prepares(folder, status):
    """A python that counts how often it is asked for an archive, and makes one or fails."""
    python = folder / "python"
    made = folder / "classes-7.jsa"
    python.write_text(f"#!/bin/sh\necho $* >> {folder}/asked\ntouch {made}\necho {made}\necho no >&2\nexit {status}\n")
    python.chmod(0o755)
    return python, made, lambda: len((folder / "asked").read_text().splitlines())


def test_the_archive_of_classes_is_made_once_and_again_when_it_is_gone(tmp_path):
    python, made, asked = python_that_prepares(tmp_path, 0)
    stamp = tmp_path / "stamp"
    for _ in range(2):
        make_archive(python, stamp)
    assert asked() == 1
    made.unlink()
    make_archive(python, stamp)
    assert (asked(), made.exists()) == (2, True)
    stamp.write_text("what was made for another Java\n")
    make_archive(python, stamp)
    assert asked() == 3


def test_setup_goes_on_where_no_archive_can_be_made_and_does_not_try_again(tmp_path, capsys):
    python, _, asked = python_that_prepares(tmp_path, 1)
    for _ in range(2):
        make_archive(python, tmp_path / "stamp")
    assert asked() == 1
    assert "There is none, so topologies start a second or two later: no" in capsys.readouterr().out


def test_jars_that_are_missing_strange_or_altered_are_each_named(tmp_path):
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "a.jar").write_bytes(b"a")
    present = present_sums("spark", tmp_path)
    assert differences(present, present) == []
    assert differences({**present, "spark/b.jar": "0"}, present) == ["missing: spark/b.jar"]
    assert differences({}, present) == ["not locked: spark/a.jar"]
    assert differences({"spark/a.jar": "0"}, present) == ["other content: spark/a.jar"]


def test_jars_that_are_there_and_right_are_not_fetched_again(monkeypatch):
    # without a Java on the path, fetching anything would fail
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    fetch(["broker", "spark"])


def test_every_group_of_jars_is_locked():
    groups = {name.partition("/")[0] for name in locked_sums()}
    assert groups == set(jars.GROUPS)
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in locked_sums().values())


def test_the_jars_of_spark_are_whole_paths_of_files():
    paths = jars.spark_jars()
    assert len(paths) == 4
    assert all(Path(path).is_absolute() and Path(path).is_file() for path in paths)


def test_jars_that_were_never_fetched_are_an_error_that_says_how_to(tmp_path, monkeypatch):
    monkeypatch.setattr(jars, "JARS", tmp_path)
    with pytest.raises(jars.JarsMissing, match=r"Hint: run `make jars`"):
        jars.classpath("streams")
    with pytest.raises(jars.JarsMissing, match=r"Hint: run `make setup`"):
        jars.spark_jars()


def test_an_unknown_group_of_jars_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["brokers"])
    assert "no such group: brokers" in capsys.readouterr().err


def test_jars_that_cannot_be_fetched_are_an_error_with_the_words_of_ivy(tmp_path, monkeypatch):
    settings = tmp_path / "settings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="empty"/><caches defaultCacheDir="${ivy.basedir}/cache"/>'
        f'<resolvers><filesystem name="empty"><artifact pattern="{tmp_path}/[module].[ext]"/>'
        "</filesystem></resolvers>"
        "</ivysettings>".replace("${ivy.basedir}", str(tmp_path))
    )
    monkeypatch.setenv("WATERSMEET_IVY_SETTINGS", str(settings))
    monkeypatch.setattr("dev.fetch_jars.JARS", tmp_path / "jars")
    with pytest.raises(FetchFailed, match=r"(?s)could not fetch the jars.*UNRESOLVED.*Hint: is the network reachable"):
        fetch(["spark"])
    assert not (tmp_path / "jars" / "spark").exists()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_pins_each_package_with_a_hash_and_says_nothing_of_where_it_comes_from(lock):
    entries = re.split(r"\n(?=\S)", lock.read_text().strip())
    assert entries
    assert [
        entry for entry in entries if not re.match(r"[a-z0-9-]+==[\w.]+ .*--hash=sha256:[0-9a-f]{64}", entry, re.S)
    ] == []
    assert not re.search(r"https?:|--(extra-)?index-url|--find-links", lock.read_text())


def test_the_lock_holds_all_that_the_project_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    asked = {
        "dev.txt": [
            *project["project"]["dependencies"],
            *(each for extra in project["project"]["optional-dependencies"].values() for each in extra),
            *project["dependency-groups"]["dev"],
            *project["dependency-groups"]["docs"],
        ],
        "bootstrap.txt": project["dependency-groups"]["bootstrap"],
        "lock.txt": project["dependency-groups"]["lock"],
    }
    for name, requirements in asked.items():
        text = (ROOT / "requirements" / name).read_text()
        locked = dict(re.findall(r"^([a-z0-9-]+)==([\w.]+)", text, re.M))
        for requirement in map(Requirement, requirements):
            assert requirement.specifier.contains(locked[requirement.name]), f"{requirement} in {name}"


def test_the_build_uses_the_tool_that_is_locked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (required,) = project["build-system"]["requires"]
    assert required in (ROOT / "requirements" / "bootstrap.txt").read_text()
