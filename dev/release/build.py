"""`make release`: sdist and wheel of the last commit into dist/, built twice, with equal bytes.

The files come from `git archive`, the times from the commit (SOURCE_DATE_EPOCH), and the tools from
`requirements/release.txt`, so anybody can build the same bytes from the same commit. The wheel has a list of components
(CycloneDX, PEP 770): what watersmeet needs, in the versions of `requirements/runtime.txt`, with checksums.

`--repository URL` is where the project is published. pyproject.toml names no address; a release that is given one has
it as its project URLs, and README's links lead there.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dev.bootstrap import fingerprint, is_done
from dev.file_manager.build import CompilerMissing, built
from dev.jars import ROOT
from dev.release.components import write_components

DIST = ROOT / "dist"
TOOLS = ROOT / ".release"
LINK = re.compile(r"\]\((?![a-z]+:|#)([^()\s#]+)(#[^()\s]*)?\)")


class BuildFailed(RuntimeError):
    """The files cannot be built, or two builds differ; the message says which."""


def tools() -> Path:
    """The interpreter of an environment with the locked tools."""
    locked = ROOT / "requirements" / "release.txt"
    stamp, python = TOOLS / "watersmeet.stamp", TOOLS / "bin" / "python"
    mark = fingerprint([locked], sys.version)
    if not is_done(stamp, mark):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(TOOLS)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--require-hashes", "-r", str(locked)], check=True)
        stamp.write_text(mark)
    return python


def with_addresses(tree: Path, repository: str) -> None:
    """Project URLs into pyproject.toml, and links of README that lead into the repository at the release's tag."""
    project = tree / "pyproject.toml"
    urls = {
        "Source": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Documentation": f"{repository}/blob/main/docs/start.md",
    }
    lines = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    project.write_text(project.read_text().replace("[project.scripts]", f"[project.urls]\n{lines}\n[project.scripts]"))
    readme = tree / "README.md"
    readme.write_text(absolute(readme.read_text(), f"{repository}/blob/v{version_of(tree)}"))


def absolute(text: str, place: str) -> str:
    """A page with its links into the repository made absolute; pictures are taken raw.

    >>> absolute("[start](docs/start.md#a) [x](https://x)", "https://host/us/watersmeet/blob/v1")
    '[start](https://host/us/watersmeet/blob/v1/docs/start.md#a) [x](https://x)'
    >>> absolute("![page](docs/page.png)", "https://host/us/watersmeet/blob/v1")
    '![page](https://host/us/watersmeet/raw/v1/docs/page.png)'
    """
    picture = re.compile(r"(!\[[^\[\]]*)" + LINK.pattern)
    raw = place.replace("/blob/", "/raw/")
    text = picture.sub(lambda found: f"{found[1]}]({posixpath.join(raw, found[2])})", text)
    return LINK.sub(lambda found: f"]({posixpath.join(place, found[1])}{found[2] or ''})", text)


def version_of(tree: Path) -> str:
    """The version that the package of a tree says."""
    found = re.search(r'^__version__ = "(.+)"$', (tree / "src/watersmeet/__init__.py").read_text(), re.MULTILINE)
    if found is None:
        raise BuildFailed(f"{tree} has no __version__ in src/watersmeet/__init__.py.")
    return found[1]


def commits_time() -> str:
    """When the last commit was made, in seconds."""
    shown = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=True)
    return shown.stdout.strip()


def build(folder: Path, python: Path, repository: str | None) -> list[Path]:
    """Sdist and wheel of the last commit, below a folder that is empty."""
    tree, made, out = folder / "tree", folder / "made", folder / "out"
    for each in (tree, made, out):
        each.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive, check=True)
    # modes of files are those of the commit, not of the machine's habits
    subprocess.run(["chmod", "-R", "u=rwX,go=rX", str(tree)], check=True)
    try:
        built(tree)
    except CompilerMissing as problem:
        raise BuildFailed(str(problem)) from None
    if repository:
        with_addresses(tree, repository.rstrip("/"))
    own = {**os.environ, "SOURCE_DATE_EPOCH": commits_time(), "PYTHONHASHSEED": "0", "TZ": "UTC"}
    own.pop("PYTHONPATH", None)
    _run([python, "-m", "build", "--no-isolation", "--outdir", made, tree], own)
    (wheel,) = made.glob("*.whl")
    _run([python, "-m", "wheel", "unpack", "--dest", folder / "wheel", wheel], own)
    (unpacked,) = (folder / "wheel").iterdir()
    (info,) = unpacked.glob("*.dist-info")
    write_components(info / "sboms" / "watersmeet.cdx.json", tree, version_of(tree), python, own)
    subprocess.run(["chmod", "-R", "u=rwX,go=rX", str(unpacked)], check=True)
    _run([python, "-m", "wheel", "pack", "--dest-dir", out, unpacked], own)
    for sdist in made.glob("*.tar.gz"):
        shutil.copy(sdist, out)
    return sorted(out.iterdir())


def _run(command: list[str | Path], environment: dict[str, str]) -> None:
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildFailed(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")


def built_twice(repository: str | None = None) -> dict[str, bytes]:
    """The files of a release by their names, of two builds that are equal."""
    python = tools()
    builds = []
    for _ in range(2):
        with tempfile.TemporaryDirectory() as name:
            builds.append({file.name: file.read_bytes() for file in build(Path(name), python, repository)})
    different = [name for name in builds[0] if builds[0][name] != builds[1].get(name)]
    if different or builds[0].keys() != builds[1].keys():
        raise BuildFailed(f"Two builds of one commit differ: {different}.")
    return builds[0]


def released(repository: str | None = None) -> list[Path]:
    """Build, and leave the files in dist/, with their checksums in SHA256SUMS."""
    files = built_twice(repository)
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    for name, content in files.items():
        (DIST / name).write_bytes(content)
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
    # not in dist/ itself: all that is there is uploaded
    (TOOLS / "SHA256SUMS").write_text(sums)
    print(sums, end="")
    return [DIST / name for name in files]


def main() -> int:
    """Build the files of a release."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", metavar="URL", help="where the project is published")
    try:
        released(parser.parse_args().repository)
    except BuildFailed as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
