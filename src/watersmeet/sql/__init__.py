"""SQL as a front end: statements become the nodes that the Python API makes, and nothing else (docs/sql.md).

Only public names of watersmeet are used here, so that whatever SQL can do, Python can. sqlglot parses (the extra
`sql`); expressions go to Spark as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watersmeet.api.builder import StreamsBuilder, read_sql_by
from watersmeet.errors import ConfigError, installing, missing_packages
from watersmeet.hints import answered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from watersmeet.sql.script import Views


@answered
def sql(spark: SparkSession, text: str, *, application_id: str = "sql") -> Views:
    """A topology of statements in SQL.

    Parameters
    ----------
    spark : the session.
    text : CREATE TABLE, CREATE STREAM, CREATE VIEW, DROP, EXPLAIN and SELECT, with semicolons between them, in Spark's
        dialect (docs/sql.md).
    application_id : as of `StreamsBuilder`.

    Returns
    -------
    Views : `build()` is the topology, `start(checkpoint=...)` starts it, `views["name"]` is the handle of a view.

    Raises
    ------
    SqlError : a statement cannot be a topology.
    ConfigError : sqlglot is missing.

    Examples
    --------
    >>> views = sql(spark, "CREATE TABLE orders (id BIGINT PRIMARY KEY, n INT) WITH (topic = 'o')")  # doctest: +SKIP
    >>> views["orders"].key_type  # doctest: +SKIP
    LongType()
    """
    check_installed()
    from watersmeet.sql.script import Views, run

    builder = StreamsBuilder(application_id)
    return Views(spark, builder, run(builder, text, {}))


def check_installed() -> None:
    """Raise ConfigError where sqlglot is missing."""
    if missing_packages(["sqlglot"]):
        raise ConfigError("SQL needs sqlglot, which is missing.", hint=installing("sql"))


def _read(builder: StreamsBuilder, text: str, handles: dict[str, Any]) -> Any:
    check_installed()
    from watersmeet.sql.script import run

    results = run(builder, text, handles)
    return results[-1] if results else None


read_sql_by(_read)
