"""Runs a tutorial as its readers do: block by block, from an empty folder.

A block with `title="shop.py"` is a file, a block of `diff` changes one. The commands of a block of `bash` run in the
folder; with `title="terminal 1"` they go on until the end, and the next step waits for them. Python without a title is
a cell of a notebook. A block of `text` shows what the block above it prints, where `...` stands for what differs from
run to run.

`python -m tests.examples.tutorial cdc` prints what each step of a page prints.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from dev.broker import free_ports
from dev.postgres import Postgres

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "tutorials"
POSTGRES = "postgresql://shop@localhost/shop"
_BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_TEXT = re.compile(r"You should now see[^.\n]*:\s*\Z")
_HUNK = re.compile(r"((?:^-.*\n)+)((?:^\+.*\n)*)", re.MULTILINE)
MOST_WARNINGS = 2
_SECONDS = 300.0
"""In which what goes on in a terminal has to show what the page says."""


@dataclass
class Step:
    """A block of a page.

    Parameters
    ----------
    kind : its language. title : of its heading, or none. text : of it. shows : what its readers see, or nothing.
    """

    kind: str
    title: str
    text: str
    shows: str = ""


def steps(page: str) -> list[Step]:
    """The blocks of a page, in their order; blocks of `text` belong to the step above."""
    found, end = list[Step](), 0
    for block in _BLOCK.finditer(page):
        kind, title, text = block[1], block[2] or "", block[3]
        if kind == "text":
            assert _TEXT.search(page[end : block.start()]), f"'You should now see:' has to stand above:\n{text}"
            found[-1].shows = text
        else:
            found.append(Step(kind, title, text))
        end = block.end()
    return found


def without_blocks(page: str) -> str:
    """The prose of a page."""
    return _BLOCK.sub("", page)


def fits(shows: str, printed: str) -> bool:
    """Whether a block of `text` shows all that was printed."""
    lines = [line.rstrip() for line in shows.splitlines()]
    parts = [".*" if line == "..." else re.escape(line).replace(r"\.\.\.", r"[^\n]*") for line in lines]
    trimmed = "\n".join(line.rstrip() for line in printed.strip("\n").splitlines())
    return re.fullmatch("\n".join(parts), trimmed, re.DOTALL) is not None


def is_plain(output: Any) -> bool:
    """Whether a notebook shows this output as text."""
    return "text" in output or not {"text/html", "image/svg+xml"} & set(output.get("data", {}))


@dataclass
class Reader:
    """One who follows a page.

    Parameters
    ----------
    folder : where the reader works. places : addresses of the page, by what stands in their place here.
    """

    folder: Path
    places: Mapping[str, str]
    _terminals: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _waits: bool = False
    _notebook: NotebookClient | None = None

    def follow(self, page: str) -> Iterator[tuple[Step, str]]:
        """Each step that prints, with what it printed.

        Raises
        ------
        AssertionError : a command failed; the text has what it said.
        """
        for place, here in self.places.items():
            page = page.replace(place, here)
        for step in steps(page):
            if step.kind == "diff":
                self._change(step)
            elif step.kind == "bash" and step.title.startswith("terminal"):
                yield step, self._go_on(step)
            elif step.kind == "bash" and not step.title.startswith("once"):
                yield step, self._run(step)
            elif step.title and step.kind != "bash":
                (self.folder / step.title).write_text(step.text)
            elif step.kind == "python":
                yield step, self._cell(step)

    def close(self) -> None:
        """End what goes on in terminals, and the notebook."""
        if self._notebook is not None:
            self._notebook._cleanup_kernel()
        for terminal in reversed(self._terminals):
            for number in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(terminal.pid, number)
                    terminal.wait(20)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue
            terminal.wait()

    def _cell(self, step: Step) -> str:
        """What a cell prints, and its last value."""
        if self._notebook is None:
            notebook = nbformat.v4.new_notebook()
            where = {"metadata": {"path": str(self.folder)}}
            self._notebook = NotebookClient(notebook, timeout=1200, kernel_name="python3", resources=where)
            self._notebook.create_kernel_manager()
            self._notebook.start_new_kernel(env=self._environment())
            self._notebook.start_new_kernel_client()
        cells = self._notebook.nb.cells
        cells.append(nbformat.v4.new_code_cell(step.text))
        self._notebook.execute_cell(cells[-1], len(cells) - 1)
        # Spark warns on standard error of what differs from machine to machine
        outputs = [output for output in cells[-1].outputs if output.get("name") != "stderr"]
        plain = (output.get("text") or output.data["text/plain"] for output in outputs if is_plain(output))
        return "".join(plain)

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "CLONE": str(ROOT)}

    def _change(self, step: Step) -> None:
        path = self.folder / step.title
        text = path.read_text()
        for old, new in _HUNK.findall(step.text):
            before, after = (re.sub(r"^.", "", part, flags=re.MULTILINE) for part in (old, new))
            assert text.count(before) == 1, f"{step.title} has no such lines:\n{before}"
            text = text.replace(before, after)
        path.write_text(text)

    def _run(self, step: Step) -> str:
        until = time.monotonic() + _SECONDS
        while True:
            done = subprocess.run(
                ["bash", "-ec", step.text],
                cwd=self.folder,
                env=self._environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            waits = self._waits and time.monotonic() < until
            if not waits or (done.returncode == 0 and fits(step.shows, done.stdout)):
                break
            time.sleep(1)
        self._waits = False
        assert done.returncode == 0, f"{step.text}\n{done.stdout}\n{done.stderr}"
        # Spark warns on standard error of what depends on times
        assert done.stderr.count(" WARN ") <= MOST_WARNINGS, f"{step.text}\n{done.stderr}"
        return done.stdout

    def _go_on(self, step: Step) -> str:
        log = self.folder / f"{step.title}.log"
        with log.open("wb") as out:
            command = ["bash", "-c", step.text]
            self._terminals.append(
                subprocess.Popen(
                    command, cwd=self.folder, env=self._environment(), stdout=out, stderr=out, start_new_session=True
                )
            )
        until = time.monotonic() + _SECONDS
        while step.shows and not fits(step.shows, log.read_text()) and time.monotonic() < until:
            time.sleep(0.2)
        self._waits = not step.shows
        return log.read_text() if step.shows else ""


def follow(name: str, folder: Path) -> Iterator[tuple[Step, str]]:
    """Each step of a tutorial that prints, with what it printed."""
    page = (PAGES / f"{name}.md").read_text()
    kafka, tables = free_ports(2)
    with ExitStack() as stack:
        places = {"9092": str(kafka), "8815": str(tables)}
        if POSTGRES in page:
            places[POSTGRES] = stack.enter_context(Postgres()).url
        reader = Reader(folder, places)
        stack.callback(reader.close)
        yield from reader.follow(page)


def main() -> None:
    """Follow the page that the command names."""
    with tempfile.TemporaryDirectory() as folder:
        for step, printed in follow(sys.argv[1], Path(folder)):
            print(f"$ {step.text}{printed}", "" if fits(step.shows, printed) else "-- DIFFERS", flush=True)


if __name__ == "__main__":
    main()
