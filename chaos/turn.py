"""The process that runs a round's topology, until it is killed or told to finish; a failed query is started again.

`python -m chaos.turn FOLDER`, called by `round`; `<folder>/round.json` says what to run. What happens is appended to
`<folder>/events`. It ends with all its processes when its standard input does, so that nothing outlives the bench.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import watersmeet
from chaos.databases import TABLE
from chaos.hooks import ROUND, kill_session
from chaos.joins import JOINS, by_wall, handles
from dev.jars import spark_jars
from dev.jvm import SHORT_LIVED

FINISH, EVENTS = "finish", "events"
_LOOK_SECONDS = 0.2
_TELLING = ("SinkError", "ConfigError", "StateError", "CorruptData", "Hint", "Given", "Exception", "Error")


def main(folder: Path) -> None:
    """Run until told to finish."""
    threading.Thread(target=end_with_the_bench, daemon=True).start()
    given = json.loads((folder / ROUND).read_text())
    spark = session(folder, given["executors"], given["store"]["jars"], given["store"]["settings"])
    while not _ran(given, spark, folder):
        pass


def _ran(given: dict[str, Any], spark: Any, folder: Path) -> bool:
    """Whether the query has come to its end; False when it failed."""
    try:
        query = _topology(given).start(
            spark,
            checkpoint=given["store"]["checkpoint"],
            kafka=watersmeet.Kafka(given["servers"], max_records_per_batch=given["batch"], max_task_idle=given["idle"]),
            tasks=given["tasks"],
            shards=4,
            local_cache=str(folder / "cache"),
        )
        tell(folder, "started")
        while not query.awaitTermination(_LOOK_SECONDS):
            if (folder / FINISH).exists():
                _end(query, by_wall=by_wall(JOINS[given["join"]]))
                tell(folder, "finished")
                return True
    except Exception as error:
        # what a kill looks like from here is many kinds of errors; the bench counts them
        tell(folder, "failed", _telling(str(error)))
    return False


def _end(query: Any, *, by_wall: bool) -> None:
    """End it behind all that is there; where the wall clock goes on, there always is more."""
    if not by_wall:
        query.processAllAvailable()
        query.stop()
        return
    while not _caught_up(query.lastProgress):
        time.sleep(_LOOK_SECONDS)
    query.drain()


def _caught_up(progress: Any) -> bool:
    """Whether a batch has read all that there was of its topics."""
    sources = [] if progress is None else progress["sources"]
    topics = [each for each in sources if "Kafka" in each["description"]]
    return bool(topics) and all(each["endOffset"] == each["latestOffset"] for each in topics)


def _topology(given: dict[str, Any]) -> watersmeet.Topology:
    dead = given["topics"].get("dead")
    builder = watersmeet.StreamsBuilder("chaos", on_undecodable=watersmeet.DeadLetter(dead) if dead else "fail")
    joined = handles(JOINS[given["join"]], builder, given["topics"])
    if given["database"]:
        joined.to(watersmeet.DatabaseTable(given["database"], table=TABLE, create=True))
    else:
        joined.to(given["topics"]["out"], delivery=given["delivery"])
    return builder.build()


def session(folder: Path, executors: int, jars: Sequence[str] = (), settings: Mapping[str, str] | None = None) -> Any:
    """A session of two cores, in this process's JVM or on so many executors; what it writes here is in the folder.

    Parameters
    ----------
    jars, settings : by which it reaches a `stores.Store`.
    """
    options = f"{SHORT_LIVED} -XX:-UsePerfData -Djava.io.tmpdir={folder}"
    spark = watersmeet.session(
        "chaos",
        master=f"local-cluster[{executors},1,1024]" if executors else "local[2]",
        jars=[*spark_jars(), *jars],
        config={
            **(settings or {}),
            "spark.ui.enabled": "false",
            "spark.local.dir": str(folder / "local"),
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": options,
            "spark.executor.extraJavaOptions": options,
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def tell(folder: Path, what: str, text: str = "") -> None:
    """Append an event, whole or not at all."""
    with (folder / EVENTS).open("a") as events:
        events.write(json.dumps({"what": what, "text": text}) + "\n")


def _telling(text: str) -> str:
    """The lines of an error that say what it was."""
    lines = [line.strip() for line in text.splitlines() if any(word in line for word in _TELLING)]
    return " / ".join(lines[-3:])[-600:] or text[:300]


def end_with_the_bench() -> None:
    """End with all processes when the standard input does."""
    sys.stdin.buffer.read()
    kill_session(os.getsid(0))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
