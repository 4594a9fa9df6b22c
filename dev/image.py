"""Runs the steps of examples/deploy/Dockerfile without Docker, in a folder: `python dev/image.py FOLDER`.

A virtual environment stands for the image's Python, FOLDER for its root. What cannot be done so is left out, and said:
packages of the system, users, files of other images. At the end the command of the image describes its topology, which
starts Spark with the Java of this machine.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

if not __package__:  # run by its path: the repository's root is then not on the module path
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dev.jars import ROOT

DOCKERFILE = ROOT / "examples" / "deploy" / "Dockerfile"
_OF_THE_SYSTEM = re.compile(r"\b(?:apt-get|useradd)\b")
_ROOTS = re.compile(r"(?<![\w./-])/(?=(?:opt|data)\b)")
_LEFT_OUT = {
    "FROM": "this machine's system and Python stand for it",
    "USER": "there is one user here",
    "ENTRYPOINT": "`watersmeet describe` runs in place of it",
    "CMD": "it needs a Kafka",
}
LAST = ("watersmeet describe clicks:topology --master 'local[1]'",)


class ImageFailed(RuntimeError):
    """A step failed; the message says which, and has the end of what it said."""


@dataclass(frozen=True)
class Step:
    """A line of a Dockerfile, with those that go on with it.

    Parameters
    ----------
    kind : RUN, COPY and so on.
    text : what is behind that.
    """

    kind: str
    text: str

    @property
    def left_out(self) -> str:
        """Why it is not run here; "" if it is."""
        if self.kind == "RUN" and _OF_THE_SYSTEM.search(self.text):
            return "it changes the system"
        if self.kind == "COPY" and self.text.startswith("--from="):
            return "it takes files of another image"
        return _LEFT_OUT.get(self.kind, "")


def steps(text: str) -> list[Step]:
    """The steps of a Dockerfile.

    >>> steps("# why\\nRUN a \\\\\\n  && b\\n")
    [Step(kind='RUN', text='a   && b')]
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    whole = "\n".join(lines).replace("\\\n", "")
    return [Step(*line.split(maxsplit=1)) for line in whole.splitlines()]


@dataclass
class Root:
    """A folder in which steps run.

    Parameters
    ----------
    folder : in place of the image's root.
    """

    folder: Path
    place: Path = field(init=False)
    environment: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.place = self.folder
        for name in ("opt", "data", "home"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "venv", str(self.folder / "venv")], check=True)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "PYTHON"))
        }
        path = f"{self.folder / 'venv' / 'bin'}{os.pathsep}{kept['PATH']}"
        self.environment = {**kept, "PATH": path, "HOME": str(self.folder / "home")}

    def run(self, step: Step) -> None:
        """Run a step.

        Raises
        ------
        ImageFailed : it failed, or is of a kind that is not known here.
        """
        text = _ROOTS.sub(f"{self.folder}/", step.text)
        if step.kind == "RUN":
            self._shell(text)
        elif step.kind == "WORKDIR":
            self.place = Path(text)
            self.place.mkdir(parents=True, exist_ok=True)
        elif step.kind == "COPY":
            *sources, target = text.split()
            self._copy(sources, self.place / target, into=target.endswith("/"))
        elif step.kind == "ENV":
            # what pip has fetched is kept here, so that a second run fetches nothing
            given = dict(each.split("=", 1) for each in text.split())
            self.environment |= {name: value for name, value in given.items() if name != "PIP_NO_CACHE_DIR"}
        else:
            raise ImageFailed(f"Steps of the kind {step.kind} are not known here: {step.text:.80}")

    def _shell(self, text: str) -> None:
        done = subprocess.run(
            ["sh", "-ec", text], cwd=self.place, env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ImageFailed(f"RUN {text}\nended with {done.returncode}:\n{(done.stdout + done.stderr)[-2_000:]}")

    @staticmethod
    def _copy(sources: list[str], target: Path, *, into: bool) -> None:
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
                continue
            place = target / Path(source).name if into else target
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, place)


def main() -> None:
    """Run all steps in the folder that the command line names; say of each whether it ran."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    root = Root(parser.parse_args().folder.resolve())
    wanted = [*steps(DOCKERFILE.read_text(encoding="utf-8")), *(Step("RUN", command) for command in LAST)]
    for step in wanted:
        why = step.left_out
        print(f"{'left out, ' + why if why else 'run'}: {step.kind} {step.text}", flush=True)
        if not why:
            root.run(step)


if __name__ == "__main__":
    main()
