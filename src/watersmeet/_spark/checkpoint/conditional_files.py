"""Has Spark write checkpoints on S3 conditionally: a file manager for the JVM, compiled when one is first needed.

Spark has none (docs/checkpoints.md#checkpoints-on-s3). Its source lies beside this module; Janino, which compiles
Spark's generated code, compiles it against the classes of the Spark that runs, so it fits each version. Executors get
it as they get any jar of a session.
"""

from __future__ import annotations

import time
import zipfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from watersmeet._spark.checkpoint.disk import first_line
from watersmeet._spark.fencing.file_systems import CONDITIONAL_MANAGER, ELSEWHERE
from watersmeet._spark.session.session import temporary_folder
from watersmeet.errors import ConfigError

_SOURCE = f"{CONDITIONAL_MANAGER.rpartition('.')[2]}.java"
_LOOK_SECONDS = 0.02
_loaders: dict[str, Any] = {}
"""The class loader that has the class, by the id of the Spark application."""


def add_conditional_files(spark: SparkSession, checkpoint: str) -> None:
    """Give the application the class `CONDITIONAL_MANAGER`, which streams begun by this thread then find.

    Parameters
    ----------
    checkpoint : as the user wrote it.

    Raises
    ------
    ConfigError : this Spark does not compile it.
    """
    jvm: Any = spark.sparkContext._jvm
    threads, application = jvm.java.lang.Thread, spark.sparkContext.applicationId
    if application not in _loaders:
        try:
            classes = compiled(spark)
        except Exception as error:
            raise ConfigError(
                f"checkpoint={checkpoint!r} cannot lie on S3 under Spark {spark.version}: the file manager that "
                "watersmeet adds for S3 does not compile.",
                given=f"checkpoint={checkpoint!r}: {first_line(error)}",
                hint=f"Put {ELSEWHERE}.",
            ) from error
        path = str(_jar(classes)).replace("'", "\\'")
        spark.sql(f"ADD JAR '{path}'")
        # it gives the loader to this thread alone
        _loaders[application] = threads.currentThread().getContextClassLoader()
    threads.currentThread().setContextClassLoader(_loaders[application])


def await_sources(query: StreamingQuery) -> None:
    """Wait until a query has made its sources, or has ended.

    A source of files has a log of its own, which it writes as the session says when the source is made: by the query's
    thread, after `start` has returned.
    """
    while query.isActive and query.status["message"].startswith("Initializing"):
        time.sleep(_LOOK_SECONDS)


def _jar(classes: Mapping[str, bytes]) -> Path:
    """A new jar with the classes. It stays until this process ends, since executors that start later fetch it too."""
    jar = Path(temporary_folder()) / "watersmeet-conditional-files.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for name, code in classes.items():
            archive.writestr(f"{name.replace('.', '/')}.class", code)
    return jar


def compiled(spark: SparkSession) -> dict[str, bytes]:
    """The bytecode of the file manager's classes, by name, for the Spark of this session.

    Raises
    ------
    Exception : py4j's, with Janino's reason, where this Spark does not compile it.
    """
    jvm: Any = spark.sparkContext._jvm
    # also where the package lies in an archive
    source = resources.files(__package__).joinpath(_SOURCE)
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source.read_text(encoding="utf-8"))
    return {str(name): bytes(code) for name, code in dict(compiler.getBytecodes()).items()}
