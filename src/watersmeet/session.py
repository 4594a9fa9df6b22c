"""A Spark session with the settings and jars that topologies need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from watersmeet.errors import ConfigError
from watersmeet.hints import answered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@answered
def session(
    app_name: str = "watersmeet",
    *,
    master: str | None = None,
    kafka: bool = False,
    jars: Sequence[str] | None = None,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """A Spark session for topologies, or the one there is, checked.

    Parameters
    ----------
    app_name : the application's name in Spark.
    master : where it runs; default: what spark-submit, the environment or Spark's files say, else all cores here.
    kafka : whether topologies read Kafka: fetches Spark's connector of the running version, or where that is not to be
        had the newest one that works with it.
    jars : paths of the connector's jars, where they are at hand and nothing is to be fetched.
    config : further settings of Spark; they win over watersmeet's.

    Raises
    ------
    ConfigError : there is a session already, and it was made with other settings than wanted here; or the connector
        is not there and cannot be had.
    """
    from watersmeet._spark.session import session as make

    _check(app_name, kafka, jars, config)
    return make(app_name, master=master, kafka=kafka, jars=jars, config=None if config is None else dict(config))


def _check(app_name: Any, kafka: Any, jars: Any, config: Any) -> None:
    """Raise where an option has a value of another kind."""
    checks = (
        (isinstance(app_name, str) and bool(app_name), "app_name", app_name, "a text", "wm.session('orders')"),
        (
            isinstance(kafka, bool),
            "kafka",
            kafka,
            "True or False",
            "kafka=True; the address goes to the start: "
            "topology.start(spark, checkpoint=..., kafka=wm.Kafka('host:9092'))",
        ),
        (jars is None or isinstance(jars, list | tuple), "jars", jars, "several paths", f"jars=[{jars!r}]"),
        (
            config is None or isinstance(config, Mapping),
            "config",
            config,
            "settings by name",
            "config={'spark.sql.shuffle.partitions': '4'}",
        ),
    )
    for fits, name, value, expected, example in checks:
        if not fits:
            raise ConfigError(f"{name} must be {expected}: {name}={value!r:.80}.", hint=f"For example {example}.")
