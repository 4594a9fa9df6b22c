"""The command `mcp`: a running query for language models, by the Model Context Protocol over stdin and stdout.

Its tools read what the query serves over HTTP (docs/serve.md), and nothing else: they change nothing, start no Spark
and have no rights beyond the token. Answers are the JSON that the query's server has written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from watersmeet._spark.serving.client import TableServerAddress
from watersmeet._spark.serving.replica import to_json
from watersmeet.errors import ConfigError, WatersmeetError, installing, missing
from watersmeet.versions import own_version

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

WHY_SECONDS = 3600.0
"""For an answer to `why`, which replays a journal."""
_INSTRUCTIONS = """The tools read a running streaming query of watersmeet: its topology, its numbers, its tables.
Begin with `describe`. Every answer about rows says of which batch it is; all tables are at one batch."""


def made_server(address: TableServerAddress) -> MCPServer[Any]:
    """The server of the query at an address.

    Raises
    ------
    ConfigError : nothing answers there, the token is another, or the package is missing.
    """
    if missing(["mcp"]):
        raise ConfigError("`watersmeet mcp` needs a package that is not installed: mcp.", hint=f"{installing('mcp')}.")
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import ToolAnnotations

    catalog = address.json("tables")
    server: MCPServer[Any] = MCPServer(
        f"watersmeet {catalog['query']}", version=own_version(), instructions=_INSTRUCTIONS, log_level="WARNING"
    )
    for tool in _Reads(address, ToolError).tools(with_why=bool(catalog["why"])):
        server.add_tool(
            tool,
            description=tool.__doc__,
            annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True),
            structured_output=False,
        )
    return server


class _Reads:
    """The reads of a served query; a refused one is an error that the model reads."""

    def __init__(self, address: TableServerAddress, refusal: type[Exception]) -> None:
        self._address, self._refusal = address, refusal

    def tools(self, *, with_why: bool) -> list[Callable[..., str]]:
        """The functions; their names, signatures and docstrings are those of the tools."""
        functions: list[Callable[..., str]] = [
            self.describe,
            self.tables,
            self.get,
            self.range,
            self.metrics,
            self.drops,
        ]
        return [*functions, self.dead_letters, *([self.why] if with_why else [])]

    def describe(self) -> str:
        """Describe the query: its topology (inputs, operators, levels, outputs), whether it runs, and its error."""
        status = self._status()
        names = ("query", "application", "active", "doing", "error", "reason", "checkpoint", "versions", "served")
        return json.dumps({name: status[name] for name in names} | {"topology": self._text("topology.txt")})

    def tables(self) -> str:
        """List the tables that can be read: name, type of the key, columns."""
        return self._text("tables")

    def get(self, table: str, keys: list[Any], window_from: str | None = None, window_to: str | None = None) -> str:
        """Read the rows of some keys, all of one batch.

        Keys are JSON: numbers, text, structs as objects, bytes as Base64, times as ISO 8601. Of a windowed table,
        window_from and window_to (ISO 8601, or ms since 1970) choose the windows that begin between them.
        """
        key_parameters = [("key", _as_text(key)) for key in keys]
        if not key_parameters:
            raise self._refusal("keys=[] names no key.\nHint: range(table) reads all keys.")
        return self._rows(table, [*key_parameters, *_parameters(window_from=window_from, window_to=window_to)])

    def range(
        self, table: str, first: Any = None, last: Any = None, limit: int = 100, after: list[Any] | None = None
    ) -> str:
        """Read rows in the order of their keys, from the key first to the key last, both included.

        Without them it begins with the smallest key, and ends with the largest one. If there are more than limit
        rows, the answer has "next": give it as after to read on.
        """
        ends = [(name, _as_text(key)) for name, key in (("from", first), ("to", last)) if key is not None]
        cursor = None if after is None else to_json(after)
        return self._rows(table, [*ends, *_parameters(limit=str(limit), after=cursor)])

    def metrics(self) -> str:
        """Say the query's numbers since its start: records, rates, lag, latency, tables, times of the last batch."""
        return json.dumps(
            {name: value for name, value in self._status().items() if name not in ("picture", "versions")}
        )

    def drops(self) -> str:
        """Say how many records were dropped, by operator and reason, and how many became dead letters."""
        status = self._status()
        return json.dumps({name: status[name] for name in ("drops", "dead_letters")})

    def dead_letters(self) -> str:
        """Show the last dead letters: where the record lies, its key and value, the reason and the error."""
        return self._text("dead-letters")

    def why(self, table: str, key: Any) -> str:
        """Say which input records a row of a table comes from, with those that were late, replaced or dropped.

        It replays the query's journal of inputs, which may take minutes.
        """
        return self._text(f"why/{quote(table, safe='')}/{quote(_as_text(key), safe='')}", (), WHY_SECONDS)

    def _status(self) -> dict[str, Any]:
        status: dict[str, Any] = json.loads(self._text("status"))
        return status

    def _rows(self, table: str, query: Sequence[tuple[str, str]]) -> str:
        return self._text(f"tables/{quote(table, safe='')}", query)

    def _text(self, path: str, query: Sequence[tuple[str, str]] = (), timeout: float = 60.0) -> str:
        try:
            return self._address.text(path, query, timeout)
        except WatersmeetError as error:
            raise self._refusal(str(error)) from error


def _as_text(key: Any) -> str:
    """A key as it stands in an address: text without quotes."""
    return key if isinstance(key, str) else to_json(key)


def _parameters(**options: str | None) -> list[tuple[str, str]]:
    return [(name, value) for name, value in options.items() if value is not None]
