"""Builds the jar of the file managers of checkpoints into the package, where a session finds it: the wheel carries it.

`make setup` builds it in a clone, `make release` in the tree of a commit, the stand-in for S3 before its first test.
Whoever runs watersmeet needs no compiler. One jar serves every Spark: compiled against 4.1, 4.2 and 4.3 it has the same
bytes (`docs/decisions/checkpoints.md#s3`), and `make versions` runs a query with it on each.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from dev.jars import ROOT
from dev.jvm import OLDEST_JAVA

SOURCES = Path("dev/file_manager")
JAR = Path("src/watersmeet/_spark/checkpoint/file_managers.jar")


class CompilerMissing(RuntimeError):
    """There is no Java compiler; the message says what to do."""


def built(tree: Path = ROOT, spark_jars: Path | None = None) -> Path:
    """The jar of the tree; it is built anew when its source has changed.

    Parameters
    ----------
    spark_jars : the folder of Spark's jars to compile against. None: those of the clone's environment.

    Raises
    ------
    CompilerMissing : this machine has a Java runtime at most.
    """
    jar, sources = tree / JAR, sorted((tree / SOURCES).glob("*.java"))
    mark = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest().encode()
    if jar.exists():
        with zipfile.ZipFile(jar) as archive:
            if archive.comment == mark:
                return jar
    classes = _compiled(sources, spark_jars or _spark_jars())
    with tempfile.NamedTemporaryFile(dir=jar.parent, delete=False) as file, zipfile.ZipFile(file, "w") as archive:
        archive.comment = mark
        for name, code in sorted(classes.items()):
            # without the times of this machine: two builds have equal bytes
            archive.writestr(zipfile.ZipInfo(name), code)
    os.chmod(file.name, 0o644)
    # tests run side by side
    os.replace(file.name, jar)
    return jar


def _spark_jars() -> Path:
    return next((ROOT / ".venv").glob("lib/python*/site-packages/pyspark/jars"))


def _compiled(sources: Sequence[Path], spark_jars: Path) -> dict[str, bytes]:
    """The classes, by their places in a jar."""
    compiler = _compiler()
    if compiler is None:
        raise CompilerMissing(
            "The file managers are not built: this machine has no Java compiler (`javac`).\n"
            f"Hint: install a JDK {OLDEST_JAVA} or later (on Debian or Ubuntu `apt-get install\n"
            "openjdk-17-jdk-headless`, on macOS `brew install openjdk@17`), and run `make setup` again. Until then\n"
            "checkpoints on S3 cannot be used from this clone, and those on a disk cost a little more."
        )
    with tempfile.TemporaryDirectory(prefix="watersmeet-javac-") as name:
        command = [compiler, "--release", str(OLDEST_JAVA), "-proc:none", "-g:none", "-d", name]
        command += ["-classpath", str(spark_jars / "*"), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"javac does not compile the file managers:\n{done.stdout}{done.stderr}")
        return {str(file.relative_to(name)): file.read_bytes() for file in Path(name).rglob("*.class")}


def _compiler() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("javac", path=str(Path(home) / "bin") if home else None)
