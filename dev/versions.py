"""`make versions`: watersmeet on each version of Python and of PySpark that it claims, in an environment of its own.

The daily environment has one version of each (`requirements/dev.txt`). Here every other one is tried at least once,
with whatever pip takes beside it, by `version_trial`, and by the other trials the table format that is made for its
Spark, which there is not for the daily one. A Python that this machine does not have is said to be missing, which fails
only with `--all`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path.insert(0, str(ROOT))

from dev.fetch_jars import FetchFailed, fetch
from dev.jvm import JavaMissing

PLACE = ROOT / ".versions"
PAIRS = (("3.12", "4.2"), ("3.13", "4.1"))
"""(Python, PySpark) beside the daily pair: each claimed version once."""
_SAID: Any = {"check": False, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}


def candidates(version: str) -> Iterator[str]:
    """Where a Python may be: on the path, or among those that pyenv keeps."""
    found = shutil.which(f"python{version}")
    if found:
        yield found
    if shutil.which("pyenv"):
        listed = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True, check=False).stdout
        for name in listed.split():
            if name.startswith(f"{version}."):
                prefix = subprocess.run(["pyenv", "prefix", name], capture_output=True, text=True, check=False)
                yield str(Path(prefix.stdout.strip()) / "bin" / "python")


def python_of(version: str) -> str | None:
    """An interpreter of that version; None where there is none."""
    test = f"import sys; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    for candidate in candidates(version):
        if subprocess.run([candidate, "-c", test], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def environment(python: str, spark: str, folder: Path) -> Path:
    """An environment with watersmeet and that PySpark; what is there already is used again."""
    inside = folder / "bin" / "python"
    if not inside.exists():
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # of a minor version the newest release
    subprocess.run([*pip, f"pyspark=={spark}.*", "-e", str(ROOT)], check=True)
    return inside


def tried(version: str, spark: str) -> bool | None:
    """Whether watersmeet works on a pair of versions; None where this machine has no such Python."""
    python = python_of(version)
    if python is None:
        print(f"Python {version}: not on this machine, so PySpark {spark} was not tried with it", flush=True)
        return None
    inside = environment(python, spark, PLACE / f"python-{version}-pyspark-{spark}")
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    trials = [ROOT / "dev" / f"{name}_trial.py" for name in ("version", "catalog", "changes", "history")]
    # pairs are tried side by side: what each says is printed as a whole
    ran = [subprocess.run([str(inside), str(trial)], env=kept, **_SAID) for trial in trials]
    print(f"Python {version} with PySpark {spark}", *(done.stdout for done in ran), sep="\n", flush=True)
    return all(done.returncode == 0 for done in ran)


def main() -> int:
    """Try every pair."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="fail where a Python is missing")
    options = parser.parse_args()
    try:
        fetch(("delta", "iceberg"))
    except (FetchFailed, JavaMissing) as problem:
        print(problem, file=sys.stderr)
        return 1
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(tried, *zip(*PAIRS, strict=True)))
    return 1 if False in found or (options.all and None in found) else 0


if __name__ == "__main__":
    sys.exit(main())
