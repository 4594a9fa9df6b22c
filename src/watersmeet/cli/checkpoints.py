"""Checkpoints that a command names, looked at before Spark starts if they lie on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from watersmeet._spark.checkpoint.checkpoint import not_started, started_in
from watersmeet._spark.checkpoint.files import Folder, on_this_machine
from watersmeet._spark.session.master import default_settings
from watersmeet._spark.session.settings import path_on_this_machine
from watersmeet.errors import ConfigError
from watersmeet.topology import checkpoint_folder

_OF_QUERIES = frozenset({"watersmeet", "offsets", "commits", "metadata", "state", "sources"})


def check_started(checkpoint: str) -> None:
    """Raise where a folder of this machine is not the checkpoint of a topology.

    Raises
    ------
    ConfigError : no topology was started with it.
    """
    here = on_this_machine(checkpoint)
    if here is not None:
        started_in(here)
    elif _must_be_here(checkpoint):
        raise not_started(Folder(None, checkpoint))  # type: ignore[arg-type]


def check_startable(checkpoint: str) -> None:
    """Raise where a query cannot start with a folder of this machine: it is a file, or has other things in it.

    Raises
    ------
    ConfigError : so it is.
    """
    path = path_on_this_machine(checkpoint_folder(checkpoint))
    here = None if path is None else Path(path)
    if here is None or not here.exists():
        return
    if not here.is_dir():
        raise ConfigError(f"The checkpoint {checkpoint!r} is a file.", hint="Name a folder, a new one or the query's.")
    names = {each.name for each in here.iterdir() if not each.name.startswith(".")} - {"lost+found"}
    if names and not names & _OF_QUERIES:
        raise ConfigError(
            f"The checkpoint {checkpoint!r} is a folder with other files in it: {', '.join(sorted(names)):.80}.",
            hint="Name a folder of the query's own: it need not exist yet.",
        )


def _must_be_here(checkpoint: str) -> bool:
    """Whether a path is one of this machine, since Spark knows no other file system."""
    scheme = checkpoint.rpartition(":")[0]
    elsewhere = {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & os.environ.keys()
    of_spark = any("defaultFS" in name for name in default_settings())
    return path_on_this_machine(checkpoint) is not None and (scheme == "file" or not (elsewhere or of_spark))
