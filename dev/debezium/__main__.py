"""`python -m dev.debezium [--into FOLDER] [CAPTURE...]`: records what real Debezium writes of a real database.

Owns the command: each capture has a new database, runs its script before and behind Debezium's snapshot, and is written
as one file of `tests/recordings/debezium`. Times and positions in the log are those of the run; all else is the same
again.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dev.debezium.captures import CAPTURES, INTO, MODES, Capture, Event, write
from dev.debezium.engine import PREFIX, Debezium
from dev.debezium.servers import SOURCES, Session, Source, schema_store

_FOLDER = Path(__file__).parent
_SECONDS = 120.0
"""In which an engine starts, and in which the last change arrives."""


def recorded(capture: Capture) -> tuple[list[Event], dict[int, Any]]:
    """The events of a capture, and the schemas that their numbers name."""
    script = (_FOLDER / capture.database / f"{capture.script}.sql").read_text(encoding="utf-8")
    before, after = script.split("-- STREAM\n")
    schemas = dict[int, Any]()
    with TemporaryDirectory() as folder, SOURCES[capture.database]() as source, schema_store(schemas) as store:
        properties = {**source.properties, **MODES[capture.mode], "converter.apicurio.registry.url": store}
        _run(source, f"create table marker (id int primary key);\n{before}")
        with Debezium(Path(folder), properties) as engine:
            _wait(engine, source.is_followed)
            _run(source, f"{after}\ninsert into marker values (1);")
            _wait(engine, lambda: _without_marker(list(engine.events())) is not None)
            return _without_marker(list(engine.events())) or [], schemas


def _run(source: Source, script: str) -> None:
    """A script, each part in the session that it names."""
    sessions, name = dict[str, Session](), ""
    for line in script.splitlines():
        command, _, argument = line.removeprefix("-- ").partition(" ")
        if command == "SESSION":
            name = argument
        elif command == "SLEEP":
            time.sleep(float(argument))
        else:
            if name not in sessions:
                sessions[name] = source.session()
            sessions[name].add(line)
            # a statement ends at the end of a line, and what another session does comes behind it
            if line.rstrip().endswith(";"):
                sessions[name].run()
    for session in sessions.values():
        session.close()


def _wait(engine: Debezium, happened: Any) -> None:
    until = time.monotonic() + _SECONDS
    while not happened():
        list(engine.events())  # raises when it has ended
        if time.monotonic() > until:
            raise RuntimeError(f"Debezium has not come so far in {_SECONDS:.0f} s:\n{engine.log.read_text()[-3000:]}")
        time.sleep(0.2)


def _without_marker(events: list[Event]) -> list[Event] | None:
    """Those before the marker's transaction; None: it is not there yet."""
    log = f"{PREFIX}.transaction"
    place = next((n for n, (topic, _, _) in enumerate(events) if topic.endswith(".marker")), None)
    if place is None:
        return None
    begun = place > 0 and events[place - 1][0] == log
    return events[: place - 1 if begun else place]


def main(arguments: Sequence[str] | None = None) -> int:
    """Record the captures named on the command line, all of them by default."""
    parser = argparse.ArgumentParser(prog="python -m dev.debezium", description=__doc__)
    parser.add_argument("--into", type=Path, default=INTO)
    parser.add_argument("captures", nargs="*", metavar="CAPTURE", help="such as postgres.types.json, or postgres.types")
    options = parser.parse_args(arguments)
    wanted = tuple(f"{name}." for name in options.captures) or ("",)
    asked = [each for each in CAPTURES if f"{each.name}.".startswith(wanted)]
    if not asked:
        parser.error(f"no such capture: {', '.join(options.captures)}; there are {', '.join(c.name for c in CAPTURES)}")
    for capture in asked:
        events, schemas = recorded(capture)
        path = write(capture.name, events, schemas, options.into)
        print(f"{path}: {len(events)} events", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
