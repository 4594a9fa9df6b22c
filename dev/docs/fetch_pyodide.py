"""Fetches Pyodide, Python for browsers, with npm into .pyodide/, for the page "Joins in the browser" of the docs site.

The archive is checked against dev/docs/pyodide.lock (SHA-256 and name, with the version), so that what runs is what was
locked, whatever mirror npm takes it from. The site is built without it too: the page then says what is missing.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "dev" / "docs" / "pyodide.lock"
PYODIDE = ROOT / ".pyodide"
FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json", "package.json")
"""Of the archive, what the page loads; package.json tells version and licence (MPL-2.0)."""


class PyodideMissing(RuntimeError):
    """Pyodide cannot be fetched, or what came is not what is locked; the message says why."""


def locked(lock: Path = LOCK) -> tuple[str, str]:
    """SHA-256 and name of the archive.

    >>> digest, name = locked()
    >>> len(digest), name.startswith("pyodide-")
    (64, True)
    """
    digest, name = lock.read_text().split()
    return digest, name


def version_of(name: str) -> str:
    """The version in an archive's name.

    >>> version_of("pyodide-1.2.3.tgz")
    '1.2.3'
    """
    return name.removeprefix("pyodide-").removesuffix(".tgz")


def present(into: Path = PYODIDE, lock: Path = LOCK) -> bool:
    """Whether the folder holds what is locked."""
    stamp = into / "watersmeet.stamp"
    return stamp.is_file() and stamp.read_text() == lock.read_text()


def fetch(into: Path = PYODIDE, lock: Path = LOCK) -> None:
    """Make the folder hold the files of the locked archive.

    Raises
    ------
    PyodideMissing : npm is not there, cannot fetch it, or brings something else.
    """
    if present(into, lock):
        return
    with tempfile.TemporaryDirectory() as staging:
        archive = _packed(Path(staging), *locked(lock))
        unpack(archive, into)
    # last, so that an interrupted run is done again
    (into / "watersmeet.stamp").write_text(lock.read_text())


def _packed(folder: Path, digest: str, name: str) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise PyodideMissing("npm is not installed.\nHint: install Node.js, which brings it, then `make docs` again.")
    print(f"fetching {name} with npm (6 MB, once)", flush=True)
    command = [npm, "pack", f"pyodide@{version_of(name)}", "--silent", "--pack-destination", str(folder)]
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    archive = folder / name
    if done.returncode != 0 or not archive.is_file():
        said = "\n  ".join((done.stdout + done.stderr).strip().splitlines()[-10:])
        raise PyodideMissing(f"npm could not fetch {name}:\n  {said}\nHint: npm takes mirrors and proxies from .npmrc.")
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != digest:
        raise PyodideMissing(
            f"{name} has the SHA-256 {found}, and {LOCK.name} has {digest}.\n"
            f"Hint: the mirror has another archive; after a change of version, write its SHA-256 into "
            f"dev/docs/{LOCK.name}."
        )
    return archive


def unpack(archive: Path, into: Path) -> None:
    """Lay the wanted files of an archive into a folder that is made anew."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    with tarfile.open(archive) as packed:
        for file in FILES:
            content = packed.extractfile(f"package/{file}")
            assert content is not None, f"{file} is a file"
            (into / file).write_bytes(content.read())


def main() -> int:
    """Fetch it; where that is not possible, say so, since the site can be built without it."""
    try:
        fetch()
    except PyodideMissing as problem:
        print(f"The page of joins is built without Pyodide: {problem}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
