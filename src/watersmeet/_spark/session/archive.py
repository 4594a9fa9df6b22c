"""The archive of Spark's classes: a JVM that finds one reads and checks no class files, which is a third of a start.

Made once (`watersmeet.prepare`), it lies in the user's cache folder; a JVM of another version, or with other jars of
Spark's, passes over it by itself (the JDK's class data sharing: JEP 310 and 350). A matter of speed alone.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

import pyspark

from watersmeet._spark.session.machine.java import java_program

_OTHERS = re.compile(r"-Xshare|SharedArchiveFile|ArchiveClassesAtExit|AOTCache|AOTMode|-agent|-javaagent")
"""Options of somebody who has an archive or a cache (JEP 483), or with which the JVM takes none."""
_NAME = re.compile(r"[0-9a-f]+-(\d+)\.jsa")
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""Else the JVM says on the console where an archive does not fit it."""


def java() -> Path:
    """The program that Spark starts."""
    return Path(java_program() or "java").resolve()


def archive_place() -> Path:
    """The name of the archive for this Java and this Spark, without its size."""
    told = f"{java()} {Path(os.environ.get('SPARK_HOME') or pyspark.__file__).resolve()} {pyspark.__version__}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "watersmeet" / "classes" / hashlib.sha256(told.encode()).hexdigest()[:16]


def archives(place: Path) -> list[Path]:
    """The archives of this place that are whole: the size is in the name, since a JVM dies of one that was cut off."""
    found = [(_NAME.fullmatch(file.name), file) for file in place.parent.glob(f"{place.name}-*.jsa")]
    return [file for name, file in found if name is not None and int(name[1]) == file.stat().st_size]


def archive_options(said: Iterable[str]) -> str:
    """The JVM's options that name the archive; nothing where there is none, or somebody has chosen.

    Parameters
    ----------
    said : options that others give to the JVM.
    """
    found = archives(archive_place())
    if not found or re.search(r"\s", str(found[0])) or any(_OTHERS.search(text) for text in said):
        return ""
    return f"-XX:SharedArchiveFile={found[0]} {_QUIET}"
