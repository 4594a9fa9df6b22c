"""`make release-check`: the wheel in dist/ as its first user meets it, for each claimed pair of Python and PySpark.

Each pair has an empty environment in an empty folder, with what pip takes beside the wheel; nothing of the clone is on
the module path. There the README, as the wheel has it, is run, `watersmeet doctor` looks at the machine, and a project
of `watersmeet init` passes its test. The size of each environment is printed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from dev.release.build import DIST, BuildFailed, released
from dev.versions import PAIRS, python_of

DAILY = ("3.11", "4.3")
"""The versions of the daily environment."""
README = "import importlib.metadata as m; print(m.metadata('watersmeet').get_payload())"
PROGRAM = re.compile(r"^```python\n(.*?)^```.*?^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)


class TrialFailed(RuntimeError):
    """A step of the trial did not do what the README says."""


def first_program(readme: str) -> tuple[str, str]:
    """The first program of a README, and the output that the README shows for it.

    >>> first_program("Hello\\n```python\\nprint(1)\\n```\\nsays\\n```text\\n1\\n```\\n")
    ('print(1)\\n', '1\\n')
    """
    found = PROGRAM.search(readme)
    if found is None:
        raise TrialFailed("README has no program with its output.")
    return found[1], found[2]


def own_environment(python: Path) -> dict[str, str]:
    """The environment of somebody who has no clone: this program's, without what points into it."""
    left = ("PYTHONPATH", "SPARK_HOME", "VIRTUAL_ENV", "PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS")
    kept = {name: value for name, value in os.environ.items() if name not in left}
    return {**kept, "PATH": f"{python.parent}{os.pathsep}{kept.get('PATH', '')}"}


def ran(command: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    """What a command prints; an error, with all of it, if it fails."""
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise TrialFailed(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def tried(interpreter: str, spark: str, wheel: Path) -> None:
    """Install the wheel for one pair, and run its README, the doctor and a new project's test."""
    with tempfile.TemporaryDirectory(prefix="watersmeet-release-") as name:
        folder = Path(name)
        python = folder / "environment" / "bin" / "python"
        ran([interpreter, "-m", "venv", str(python.parents[1])], folder, os.environ)
        environment = own_environment(python)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        ran([*pip, f"watersmeet[kafka] @ {wheel.as_uri()}", f"pyspark=={spark}.*"], folder, environment)
        print(f"  installed: {megabytes(python.parents[1])}", flush=True)
        ran([*pip, "pytest"], folder, environment)
        program, shown = first_program(ran([str(python), "-c", README], folder, environment))
        (folder / "readme.py").write_text(program)
        printed = ran([str(python), "readme.py"], folder, environment)
        if printed != shown:
            raise TrialFailed(f"README's program prints {printed!r}, where README says {shown!r}.")
        print("  README's program prints what README says", flush=True)
        ran(["watersmeet", "doctor"], folder, environment)
        ran(["watersmeet", "init", "trial"], folder, environment)
        ran([str(python), "-m", "pytest", "-q"], folder / "trial", environment)
        print("  `watersmeet doctor` is content, and the test of a new project passes", flush=True)


def megabytes(environment: Path) -> str:
    """The size of an environment, and of its largest packages."""
    (packages,) = environment.glob("lib/python*/site-packages")
    sizes = {each.name: _bytes(each) for each in packages.iterdir()}
    largest = sorted(sizes, key=lambda name: -sizes[name])[:5]
    parts = ", ".join(f"{name} {sizes[name] / 1e6:.0f}" for name in (*largest, "watersmeet"))
    return f"{sum(sizes.values()) / 1e6:.0f} MB ({parts})"


def _bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())


def main() -> int:
    """Try the wheel with each pair that this machine has."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", metavar="3.11", help="only the pair with this Python")
    parser.add_argument("--all", action="store_true", help="fail where a Python is missing")
    options = parser.parse_args()
    missing = False
    try:
        wheels = sorted(DIST.glob("*.whl")) or [each for each in released() if each.suffix == ".whl"]
        for version, spark in (DAILY, *PAIRS):
            if options.python not in (None, version):
                continue
            interpreter = python_of(version)
            if interpreter is None:
                print(f"Python {version}: not on this machine, so PySpark {spark} was not tried with it", flush=True)
                missing = True
                continue
            print(f"Python {version} with PySpark {spark}: {wheels[-1].name}", flush=True)
            tried(interpreter, spark, wheels[-1])
    except (BuildFailed, TrialFailed) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 1 if missing and options.all else 0


if __name__ == "__main__":
    sys.exit(main())
