"""A table of mistakes: each row is a piece of a program, and the words that its error has to have.

A row is (program, words before the hint, words of the hint); " .. " stands between several words. The program is run
as a file of the user's own: with its source at hand, and with the inputs of `scene`.
"""

from __future__ import annotations

import linecache
import traceback
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import watersmeet as wm
from watersmeet._spark.serving.client import ServedTable
from watersmeet.errors import WatersmeetError, is_others
from watersmeet.testing import TopologyTestDriver

Row = tuple[str, str, str]
LINES_OF_OURS = 4
"""So many frames of the package may stand in a trace."""


def parsed(spark: SparkSession) -> dict[str, Any]:
    """Schemas of the inputs, which Spark parses once for all rows."""
    texts = {
        "click": "page string, user long, seconds double, at timestamp, tags array<string>, marks map<string,long>",
        "user": "name string, country string",
    }
    return {name: StructType.fromDDL(text) for name, text in texts.items()}


def scene(spark: SparkSession, schemas: dict[str, Any], frames: dict[str, Any]) -> dict[str, Any]:
    """What a row finds: a builder, an input of each kind, and what is made of them."""
    builder = wm.StreamsBuilder("mistakes")
    clicks = builder.stream("clicks", key="long", value=wm.json(schemas["click"]))
    users = builder.table("users", key="long", value=wm.json(schemas["user"]), store="users")
    return {
        "wm": wm,
        "F": F,
        "pd": pd,
        "spark": spark,
        "builder": builder,
        "clicks": clicks,
        "views": builder.stream("views", key="long", value=wm.json(schemas["click"])),
        "texts": builder.stream("texts", key="long", value="string"),
        "named": builder.stream("named", key="string", value="string"),
        "users": users,
        "others": builder.table("others", key="long", value=wm.json(schemas["user"])),
        "countries": builder.global_table("countries", key="string", value="string"),
        "grouped": clicks.group_by_key(),
        "hour": wm.TimeWindows.of_size_and_grace("1 hour", "1 minute"),
        "served": ServedTable("open", Asked()),
        "driver": lambda: TopologyTestDriver(builder.build()),
        "near": wm.JoinWindows.of_time_difference_and_grace("5 minutes", "1 minute"),
        **frames,
    }


class Asked:
    """What a served table asks, and that has nothing to answer."""

    def schema(self, table: str) -> StructType:
        return StructType().add("key", "long").add("value", "string").add("timestamp", "long")

    def read(self, read: Any) -> Any:
        raise AssertionError(f"it was asked: {read}")

    def changes(self, table: str, since: int | None) -> Any:
        raise AssertionError(f"it was asked for the changes since {since}")


def run(program: str, names: dict[str, Any], file: str) -> BaseException | None:
    """What the program raises; None: nothing."""
    linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
    try:
        exec(compile(program, file, "exec"), names)
    except BaseException as error:
        return error
    return None


def faults(row: Row, error: BaseException | None, file: str) -> list[str]:
    """What is wrong with the answer to a mistake."""
    _, said, hint = row
    if error is None:
        return ["nothing was raised"]
    if not isinstance(error, WatersmeetError):
        return [f"a bare {type(error).__name__}: {error}"]
    found = [f"no hint: {error}"] if not error.hint else []
    before = str(error).partition("\nHint: ")[0]
    found += [f"{word!r} is not said: {error}" for word in said.split(" .. ") if word and word not in before]
    found += [f"{word!r} is no hint: {error}" for word in hint.split(" .. ") if word and word not in (error.hint or "")]
    places = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    if file not in places:
        found.append("not raised on the user's own line")
    ours = [place for place in places if is_others(place)]
    if len(ours) > LINES_OF_OURS:
        found.append(f"a wall of trace: {ours}")
    return found
