"""The command `init`: a new project that runs at once."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import click

from watersmeet.cli.shared import examples, with_errors_as_text
from watersmeet.errors import ConfigError

FILES = ("README.md", "topology.py", "test_topology.py", "run.toml", "compose.yaml")


@click.command(epilog=examples("watersmeet init orders", "cd orders && python -m pytest"))
@click.argument("name")
@with_errors_as_text
def init(name: str) -> None:
    """Make a project in the new folder NAME: a topology, its test, a configuration, a Kafka for trials."""
    folder = Path(name)
    if not re.fullmatch(r"[A-Za-z][\w-]*", folder.name):
        raise ConfigError(
            f"The name of a project has letters, digits, - and _, and begins with a letter: {folder.name!r:.80}.",
            hint="For example: watersmeet init orders.",
        )
    if folder.exists():
        raise ConfigError(f"{name!r} is there already.", hint="Name a folder that does not exist.")
    folder.mkdir(parents=True)
    project = files("watersmeet.cli.project")
    for file in FILES:
        text = (project / f"{file}.txt").read_text(encoding="utf-8")
        (folder / file).write_text(re.sub(r"\bNAME\b", folder.name, text), encoding="utf-8")
    click.echo(f"{name}: {', '.join(FILES)}\nNext: cd {name}, then python -m pytest, and read README.md.")
