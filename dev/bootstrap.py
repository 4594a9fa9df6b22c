"""Makes .venv and .jars ready, with nothing but Python and Java on the machine; a second run does little.

Each step leaves a stamp that holds the checksum of the files it depends on, so it runs again exactly when one
of them changes. It is what `make setup` runs, with the standard library alone, since nothing is installed yet.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dev.file_manager.build import CompilerMissing, built
from dev.jars import JARS, ROOT
from dev.jvm import JavaMissing, find_java

VENV = ROOT / ".venv"
ARCHIVE_SECONDS = 600
"""For the archive of classes, which takes twenty on an idle machine."""
# Kafka Streams is 90 MB that only the benchmark needs: `make jars` and `make bench` fetch it
DAILY_GROUPS = ("broker", "spark", "s3", "hdfs")
BENCH_GROUPS = (*DAILY_GROUPS, "streams")


class SetupFailed(RuntimeError):
    """A step failed; the message says which and what to do."""


def fingerprint(files: Iterable[Path], *words: str) -> str:
    """A checksum over the files' contents and the words."""
    total = hashlib.sha256()
    for file in files:
        total.update(file.read_bytes())
    for word in words:
        total.update(word.encode())
    return total.hexdigest()


def is_done(stamp: Path, mark: str) -> bool:
    """Whether the step was done for exactly this fingerprint."""
    return stamp.exists() and stamp.read_text() == mark


def venv_python() -> Path:
    """The interpreter of the project's virtual environment."""
    return VENV / "bin" / "python"


def make_venv() -> None:
    """The virtual environment with everything locked and watersmeet itself, editable."""
    requirements = [ROOT / "requirements" / name for name in ("bootstrap.txt", "dev.txt")]
    mark = fingerprint([*requirements, ROOT / "pyproject.toml"], sys.version, str(ROOT))
    stamp = VENV / "watersmeet.stamp"
    if is_done(stamp, mark) and venv_python().exists():
        return
    print(f"making .venv with Python {sys.version.split()[0]} (a minute or two the first time)", flush=True)
    stamp.unlink(missing_ok=True)
    if not _same_interpreter():
        shutil.rmtree(VENV, ignore_errors=True)
        _create_venv()
    # Hashes are demanded of all that is fetched. Builds are not isolated, since an isolated build would fetch
    # its tools past the lock: PySpark comes as a source archive and takes the locked setuptools.
    _pip("--require-hashes", "-r", str(requirements[0]))
    _pip("--require-hashes", "--no-build-isolation", "-r", str(requirements[1]))
    _pip("--no-deps", "--no-build-isolation", "-e", str(ROOT))
    stamp.write_text(mark)


def make_jars(groups: Sequence[str]) -> None:
    """The jars of the groups, as locked."""
    mark = fingerprint([ROOT / "dev" / "ivy.xml", ROOT / "dev" / "jars.sha256"])
    due = [group for group in groups if not is_done(_jar_stamp(group), mark)]
    if not due:
        return
    _run(
        [str(venv_python()), str(ROOT / "dev" / "fetch_jars.py"), *due],
        "The jars could not be fetched (see above).",
    )
    for group in due:
        _jar_stamp(group).write_text(mark)


def make_file_manager() -> None:
    """The jar of the file managers of checkpoints; where none can be built all else goes on without."""
    try:
        built()
    except CompilerMissing as problem:
        print(problem, flush=True)


def make_archive(python: Path, stamp: Path) -> None:
    """The archive of Spark's classes, with which topologies start sooner; where none can be made all goes on without.

    Parameters
    ----------
    python : of the environment that has watersmeet.
    stamp : holds for what the archive was made, and where it lies: nothing where none could be made.
    """
    java = find_java()
    version = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    places = [os.environ.get(name, "") for name in ("XDG_CACHE_HOME", "HOME", "SPARK_HOME")]
    mark = fingerprint([ROOT / "requirements" / "dev.txt"], java, version, str(python), *places)
    before, _, place = stamp.read_text().partition("\n") if stamp.exists() else ("", "", "")
    if before == mark and (not place or Path(place).exists()):
        return
    print("making an archive of Spark's classes (half a minute, once)", flush=True)
    made, problem = "", f"it took more than {ARCHIVE_SECONDS} s"
    with suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            [str(python), "-m", "watersmeet.prepare"],
            env=_own_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ARCHIVE_SECONDS,
            check=False,
        )
        made = "" if done.returncode else (done.stdout.strip().splitlines() or [""])[-1]
        problem = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
    if not made:
        print(f"There is none, so topologies start a second or two later: {problem}", flush=True)
    stamp.write_text(f"{mark}\n{made}")


def _jar_stamp(group: str) -> Path:
    return JARS / group / "watersmeet.stamp"


def _same_interpreter() -> bool:
    """Whether .venv is one of this very Python version: packages of another do not load."""
    if not venv_python().exists():
        return False
    shown = subprocess.run(
        [str(venv_python()), "-c", "import sys; print(sys.version)"],
        capture_output=True,
        text=True,
        check=False,
    )
    return shown.stdout.strip() == sys.version.strip()


def _create_venv() -> None:
    done = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        shutil.rmtree(VENV, ignore_errors=True)
        raise SetupFailed(
            f"{sys.executable} cannot make a virtual environment:\n{done.stdout}{done.stderr}"
            "Hint: on Debian or Ubuntu `apt-get install python3-venv`."
        )


def _pip(*arguments: str) -> None:
    _run(
        [str(venv_python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments],
        f"pip could not install (pip install {' '.join(arguments)}).\n"
        "Hint: is the network reachable? pip takes proxies and mirrors from its settings and environment.",
    )


def _run(command: Sequence[str], failure: str) -> None:
    if subprocess.run(command, env=_own_environment(), stdin=subprocess.DEVNULL, check=False).returncode != 0:
        raise SetupFailed(failure)


def _own_environment() -> dict[str, str]:
    """The caller's own environment must not lend modules to .venv, nor hide that some are missing there."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Sets everything up; `--all-jars` with the benchmark's."""
    parser = argparse.ArgumentParser(description="Make .venv and .jars ready.")
    parser.add_argument("--all-jars", action="store_true", help="Kafka Streams too, for the benchmark")
    options = parser.parse_args(arguments)
    try:
        find_java()
        make_venv()
        make_jars(BENCH_GROUPS if options.all_jars else DAILY_GROUPS)
        make_file_manager()
        make_archive(venv_python(), VENV / "classes.stamp")
    except (SetupFailed, JavaMissing) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
