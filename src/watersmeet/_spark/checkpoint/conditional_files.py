"""Has Spark write checkpoints on S3 conditionally: a file manager for the JVM, compiled when one is first needed.

Spark has none (docs/checkpoints.md#checkpoints-on-s3). Its source lies beside this module; Janino, which compiles
Spark's generated code, compiles it against the classes of the Spark that runs, so it fits each version. Executors get
it as they get any jar of a session.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import time
import zipfile
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from watersmeet._spark.fencing.file_systems import CONDITIONAL_MANAGER
from watersmeet.errors import ConfigError

_SOURCE = f"{CONDITIONAL_MANAGER.rpartition('.')[2]}.java"
_LOOK_SECONDS = 0.02
_loaders: dict[str, Any] = {}
"""By a Spark application's id: the class loader that has the class."""


def add_conditional_files(spark: SparkSession) -> None:
    """Give the application the class `CONDITIONAL_MANAGER`, which streams begun by this thread then find.

    Raises
    ------
    ConfigError : this Spark does not compile it.
    """
    threads, application = _jvm(spark).java.lang.Thread, spark.sparkContext.applicationId
    if application not in _loaders:
        path = str(_jar(spark)).replace("'", "\\'")
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


def _jar(spark: SparkSession) -> Path:
    """A jar with the class, in a folder of its own for as long as this process runs: executors may come at any time."""
    folder = Path(tempfile.mkdtemp(prefix="wm-"))
    atexit.register(partial(shutil.rmtree, folder, ignore_errors=True))
    jar = folder / "watersmeet-conditional-files.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for name, code in compiled(spark).items():
            archive.writestr(f"{name.replace('.', '/')}.class", code)
    return jar


def compiled(spark: SparkSession) -> dict[str, bytes]:
    """The bytecode of the file manager's classes, by name, for the Spark of this session.

    Raises
    ------
    ConfigError : this Spark does not compile it.
    """
    jvm = _jvm(spark)
    # also where the package lies in an archive
    source = resources.files(__package__).joinpath(_SOURCE)
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    try:
        compiler.cook(source.read_text(encoding="utf-8"))
    except Exception as error:
        said = str(getattr(error, "java_exception", error)).partition("\n")[0]
        raise ConfigError(
            "The file manager by which Spark writes checkpoints on S3 does not compile under this Spark.",
            given=f"Spark {spark.version}: {said}",
            hint="Put the checkpoint on HDFS, or on a volume that all machines mount (docs/checkpoints.md).",
        ) from error
    return {str(name): bytes(code) for name, code in dict(compiler.getBytecodes()).items()}


def _jvm(spark: SparkSession) -> Any:
    inner: Any = spark
    return inner._jvm
