"""What a process loads that is to die at a named moment: nothing of it is in the product.

The functions of watersmeet at which the moments lie are wrapped when their modules are imported. Each asks, when it
is called, whether there is an order to strike here (`<folder>/order.json`); how many calls are let pass, and who is
to die, stands in the order. One process alone carries an order out: it takes it away first.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from random import SystemRandom
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER, WRITERS = "CHAOS_FOLDER", "CHAOS_WRITERS"
LIMITS = (0, 2_000, 3_000, 4_000, 6_000, 256 << 10)
"""Bytes up to which a task hands its records back to the driver, where both write; a batch's task has about 4,000."""
ORDER, KEPT, CHECKPOINT, ROUND = "order.json", "kept", "checkpoint", "round.json"
_passed: Counter[int] = Counter()


def install() -> None:
    """Have the modules wrapped as they come."""
    if FOLDER in os.environ:
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules in which there are moments, and wraps them when they have been run."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name not in _WRAPPED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_wrap(module: Any) -> None:
            run(module)
            _WRAPPED[name](module)

        spec.loader.exec_module = run_and_wrap  # type: ignore[method-assign]
        return spec


def reached(moment: str) -> None:
    """Carry out the order for this moment, if there is one and enough calls have passed."""
    path = Path(os.environ[FOLDER]) / ORDER
    try:
        order = json.loads(path.read_text())
    except FileNotFoundError:
        return
    if order["moment"] != moment or (order["victim"] != "driver" and not _in_a_task()):
        return
    _passed[order["number"]] += 1
    if _passed[order["number"]] <= order["let_pass"]:
        return
    try:
        path.rename(path.with_name(f"struck-{order['number']}"))
    except FileNotFoundError:
        return  # another process was first
    if order["victim"] == "driver":
        kill_session(os.getsid(0))
    if order["victim"] == "executor":
        # whoever forks workers is the executor's child
        os.kill(int(stat_of(os.getppid())[1]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _in_a_task() -> bool:
    from pyspark import TaskContext

    return TaskContext.get() is not None


def launch(
    folder: Path, module: Sequence[str], writers: str, more: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a process that may be struck, in a session of its own, so that it is killed whole.

    Parameters
    ----------
    folder : where its orders come, and its log lies.
    module : its name, and the arguments.
    writers : a name of `strikes.WRITERS`.
    more : of its environment.
    """
    paths = [ROOT / "chaos" / "site", ROOT / "src", ROOT]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), FOLDER: str(folder), WRITERS: writers}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", *module],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**environment, **(more or {})},
            start_new_session=True,
        )


def kill_session(session: int) -> None:
    """Kill the process that leads a session and all that it has brought into being: Python, JVM, daemon, workers."""
    mine = os.getpid()
    # whoever would start others anew comes first; we come last
    for pid in sorted(members(session), key=lambda pid: (pid == mine, pid)):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def members(session: int) -> list[int]:
    """The processes of a session, as far as they are alive."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = stat_of(int(entry.name))
            if fields and int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def stat_of(pid: int) -> list[str]:
    """The fields of a process behind its name: state, parent, group, session, ...; none if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return text[text.rindex(")") + 2 :].split()


# -- the moments -------------------------------------------------------------------------------------------


def _after(owner: Any, name: str, moment: str) -> None:
    function = getattr(owner, name)

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        reached(moment)
        return result

    setattr(owner, name, wrapped)


def _before(owner: Any, name: str, moment: str, when: Callable[..., bool] = lambda *_: True) -> None:
    function = getattr(owner, name)

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if when(*args):
            reached(moment)
        return function(*args, **kwargs)

    setattr(owner, name, wrapped)


def _after_each_result(owner: Any, name: str, moment: str) -> None:
    """Of a generator: behind each of its results."""
    function = getattr(owner, name)

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Iterator[Any]:
        for result in function(*args, **kwargs):
            reached(moment)
            yield result

    setattr(owner, name, wrapped)


def _wrap_exchange(module: Any) -> None:
    _after_each_result(module, "route_rows", "pack")


def _wrap_state(module: Any) -> None:
    _after(module.SparkChunkStore, "put_chunk", "put_chunk")
    _after(module.SparkChunkStore, "put_manifest", "put_manifest")


def _wrap_merge(module: Any) -> None:
    # what a step of a merge begins with: the old runs are read, the new one is not written
    _after(module, "take_front", "merge")


def _wrap_level(module: Any) -> None:
    # the second level's tasks start when those of the first have saved their state
    _before(module, "run_operator", "between_levels", lambda setting, *_: setting.operator.level > 1)


def _wrap_producers(module: Any) -> None:
    for kind in (module.Sender, module.TransactionalSender):
        _before(kind, "commit", "before_commit")
        _after(kind, "commit", "after_commit")


def _wrap_database(module: Any) -> None:
    for kind in (
        each
        for each in vars(module).values()
        if isinstance(each, type) and hasattr(each, "set_mark") and hasattr(each, "commit")
    ):
        if not getattr(kind, "__abstractmethods__", None):
            _before(kind, "commit", "before_commit")
            _after(kind, "commit", "after_commit")


def _wrap_stored(module: Any) -> None:
    _before(module.DatabaseTableWriter, "_commit", "handed_back")


def _wrap_driver_commit(module: Any) -> None:
    _before(module.DriverCommit, "write", "handed_back")
    writers, limit = os.environ.get(WRITERS), module.limit
    if writers == "driver":
        return

    # in the module that owns it: whoever takes it from there comes later
    @wraps(limit)
    def drawn(tasks: int) -> int:
        # for each run of a batch: one that is run again has another limit than before
        return 0 if writers == "tasks" else SystemRandom().choice(LIMITS)

    module.limit = drawn


def _wrap_sinks(module: Any) -> None:
    write = module.BatchSinks.__call__

    @wraps(write)
    def wrapped(sinks: Any, frame: Any, batch: int) -> None:
        _keep_plan(frame, batch)
        write(sinks, frame, batch)
        reached("between_commits")

    module.BatchSinks.__call__ = wrapped


def _keep_plan(frame: Any, batch: int) -> None:
    """Copy what Spark planned for the batch, before Spark clears it away: the judge goes by it.

    A batch that is run again must be of the same records: if it is not, the difference is kept for the judge.
    """
    from watersmeet._spark.checkpoint.folders import Folder

    folder = Path(os.environ[FOLDER])
    checkpoint = json.loads((folder / ROUND).read_text())["store"]["checkpoint"]
    planned, kept = Folder(frame.sparkSession, checkpoint).text(f"offsets/{batch}"), folder / KEPT / str(batch)
    if kept.exists() and offsets_in(kept.read_text()) != offsets_in(planned):
        kept = kept.with_name(f"changed-{batch}")
    kept.with_suffix(".new").write_text(planned)
    kept.with_suffix(".new").rename(kept)


def offsets_in(text: str) -> list[str]:
    """The lines of an entry of Spark's offset log that are the sources' offsets."""
    return text.splitlines()[2:]


_WRAPPED: dict[str, Callable[[Any], None]] = {
    "watersmeet._engine.exchange": _wrap_exchange,
    "watersmeet._engine.operators": _wrap_level,
    "watersmeet._engine.state.merge": _wrap_merge,
    "watersmeet._spark.outputs.databases": _wrap_stored,
    "watersmeet._worker.databases": _wrap_database,
    "watersmeet._worker.writers.kafka": _wrap_driver_commit,
    "watersmeet._worker.kafka_client": _wrap_producers,
    "watersmeet._spark.outputs.outputs": _wrap_sinks,
    "watersmeet._worker.spark_worker": _wrap_state,
}
