"""A program for `test_secrets`: runs topologies whose settings hold canaries, and leaves all that others may see.

Called with a folder, the servers, a topic to read and one to write. All files go below the folder.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import watersmeet as wm
from dev.jars import spark_jars
from dev.registry import SchemaRegistryServer
from watersmeet._spark.session import session

CANARIES = {
    place: f"canary-{place}-5431" for place in ("common", "consumer", "producer", "source", "typing", "registry")
}
LOG4J = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c: %m%n%ex
"""


def main(folder: Path, servers: str, source: str, sink: str) -> None:
    """Run everything and write what it shows to files."""
    # at DEBUG py4j's own logger shows all that goes to the JVM
    logging.basicConfig(filename=folder / "python.log", level=logging.INFO)
    logging.info("begun")
    tap(folder / "pickled")
    spark = started(folder)
    kafka = connection(servers)
    with shown(folder / "stdout"):
        good = topology(source, sink, lambda a, b: F.concat(a, b))
        print(good.describe(), kafka, repr(kafka))
        query = good.start(spark, checkpoint=str(folder / "checkpoint"), kafka=kafka, local_cache=str(folder / "cache"))
        query.processAllAvailable()
        print(query, vars(query), query.streaming.status, json.dumps(query.lastProgress.json))
        print([each.json for each in query.recentProgress])
        query.explain(True)
        query.stop()
        by_registry(spark, folder, kafka, source)
        bad = topology(source, sink, lambda a, b: F.raise_error(F.concat(a, b)).cast("string"))
        fail("a batch", lambda: run(bad, spark, folder / "failed", kafka=kafka))
        for number, (what, wrong) in enumerate(wrong_starts(servers)):
            fail(what, lambda number=number, wrong=wrong: run(good, spark, folder / f"wrong{number}", **wrong()))
    spark.stop()


def by_registry(spark: SparkSession, folder: Path, kafka: wm.Kafka, source: str) -> None:
    """The same topic, with values that only a registry can tell, which wants a login."""
    with SchemaRegistryServer(login=f"user:{CANARIES['registry']}").running() as server:
        server.add("strings", '"string"')
        registry = wm.SchemaRegistry(server.url, username="user", password=CANARIES["registry"])
        builder = wm.StreamsBuilder("registry")
        value = wm.avro(registry=registry, subject="strings")
        builder.stream(source, key="string", value=value).to(
            wm.Writer("parquet", path=str(folder / "local" / "out")), name="out"
        )
        made = builder.build()
        print(made.describe(), registry, repr(registry), value)
        run(made, spark, folder / "checkpoint" / "registry", kafka=kafka)
        rows = spark.read.parquet(str(folder / "local" / "out")).where("value = 'v'").count()
        print(f"read by a registry's schema: {rows} records")
        server.login = "nobody:else"
        fail("a registry", lambda: run(made, spark, folder / "failed" / "registry", kafka=kafka))


def tap(folder: Path) -> None:
    """Keep a copy of every function that Spark is given for its workers."""
    folder.mkdir()
    dumps = CloudPickleSerializer.dumps

    def tapped(self: Any, given: Any) -> bytes:
        content = dumps(self, given)
        (folder / str(len(list(folder.iterdir())))).write_bytes(content)
        return content

    CloudPickleSerializer.dumps = tapped  # type: ignore[method-assign]


def started(folder: Path) -> SparkSession:
    """A session that writes an event log, its own log, and its temporary files below the folder."""
    for name in ("events", "local"):
        (folder / name).mkdir()
    (folder / "log4j2.properties").write_text(LOG4J.format(folder / "jvm.log"))
    config = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(folder / "events"),
        "spark.eventLog.compress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={folder}/log4j2.properties",
        "spark.ui.enabled": "false",
    }
    return session("secrets", master="local[2]", jars=spark_jars(), config=config)


def connection(servers: str) -> wm.Kafka:
    """A connection with a canary in each place; a plain connection asks for none of them."""
    return wm.Kafka(
        servers,
        security_protocol="PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="user",
        sasl_password=CANARIES["common"],
        consumer={"ssl.key.password": CANARIES["consumer"]},
        producer={"ssl.key.password": CANARIES["producer"]},
        source={"kafka.ssl.truststore.password": CANARIES["source"]},
    )


def wrong_starts(servers: str) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """What is given to starts that fail."""
    typing = CANARIES["typing"]
    yield "an unknown setting", lambda: {"kafka": wm.Kafka(servers, producer={"sasl.pasword": typing})}
    yield "a value that is refused", lambda: {"kafka": wm.Kafka(servers, producer={"security.protocol": typing})}
    yield "a value that a client refuses", lambda: {"kafka": wm.Kafka(servers, producer={"debug": typing})}
    yield "an unknown option", lambda: {"kafak": connection(servers)}
    yield "a connection as text", lambda: {"kafka": f"kafka://user:{typing}@{servers}"}
    jaas = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": f"no {typing}"}
    yield "a login that cannot be read", lambda: {"kafka": wm.Kafka(servers, consumer=jaas)}


def topology(source: str, sink: str, joiner: Callable[[Any, Any], Any]) -> wm.Topology:
    """The topic joined with itself."""
    builder = wm.StreamsBuilder("secrets")
    table = builder.table(source, key="string", value="string")
    table.join(table.map_values(lambda value: F.upper(value)), joiner).to(sink)
    return builder.build()


def run(topology: wm.Topology, spark: SparkSession, checkpoint: Path, **options: Any) -> None:
    """Process what is there."""
    cache = f"{checkpoint}-cache"
    topology.start(
        spark, checkpoint=str(checkpoint), available_now=True, local_cache=cache, **options
    ).awaitTermination()


def fail(what: str, call: Callable[[], None]) -> None:
    """Show how a call fails; that it did is the line `failed: ...`."""
    try:
        call()
    except Exception:
        print(f"failed: {what}", traceback.format_exc())


@contextlib.contextmanager
def shown(path: Path) -> Iterator[None]:
    """All that is printed, in a file."""
    text = io.StringIO()
    try:
        with contextlib.redirect_stdout(text):
            yield
    finally:
        path.write_text(text.getvalue())


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
