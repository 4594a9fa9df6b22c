"""Says where the jars lie that `make setup` has fetched: one folder per class path under .jars/."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
JARS = ROOT / ".jars"
# broker: a Kafka broker; spark: Spark's Kafka connector; streams: Kafka Streams, for the comparison in bench/;
# delta, iceberg: tables in catalogs, each for the Spark that it is made for; s3: Hadoop's S3A; hdfs: HDFS;
# debezium: its embedded engine, with connectors and converters; registry: a Schema Registry and its serializers
GROUPS = ("broker", "spark", "s3", "hdfs", "streams", "delta", "iceberg", "debezium", "registry")
_FETCHED_BY = {
    "streams": "make jars",
    "delta": "make versions",
    "iceberg": "make versions",
    "debezium": "python -m dev.debezium",
    "registry": "python -m dev.fetch_jars registry",
}


class JarsMissing(RuntimeError):
    """The jars of a group have not been fetched; the message says how to."""


def jars(group: str) -> list[Path]:
    """The jars of one class path, sorted by name."""
    found = sorted((JARS / group).glob("*.jar"))
    if not found:
        how = _FETCHED_BY.get(group, "make setup")
        raise JarsMissing(f"There are no jars in {JARS / group}.\nHint: run `{how}` in {ROOT}.")
    return found


def spark_jars() -> list[str]:
    """Paths of Spark's Kafka connector and what it needs: `.config("spark.jars", ",".join(spark_jars()))`."""
    return [str(jar) for jar in jars("spark")]


def classpath(group: str) -> str:
    """What `java -cp` takes for this group."""
    jars(group)
    return str(JARS / group / "*")
