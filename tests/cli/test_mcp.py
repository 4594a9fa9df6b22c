"""`watersmeet mcp`: a language model's client reads a query that is served. The client is that of the `mcp` package."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters

from tests.spark.serving.standing import ROWS, ask, served, standing
from watersmeet import errors
from watersmeet._spark.serving.client import TableServerAddress
from watersmeet._spark.serving.page import Explainer
from watersmeet._spark.serving.server import Listeners
from watersmeet.cli.commands import made_server, main
from watersmeet.errors import ConfigError

TOKEN = "a token of enough length"


def explained(table: str, key: Any) -> Any:
    return SimpleNamespace(as_json=lambda: json.dumps({"table": table, "key": key, "causes": ["t-0@1"]}))


@pytest.fixture(scope="module")
def listeners() -> Iterator[Listeners]:
    with served(standing(), TOKEN, explainer=Explainer(explained, lambda record: None)) as made:
        yield made


class Asked:
    """A client of a server, in this process or in another."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def text(self, tool: str, **given: Any) -> tuple[bool, str]:
        """Whether the tool refuses, and its text."""
        found: Any = await self._client.call_tool(tool, given)
        (part,) = found.content
        return bool(found.is_error), part.text

    async def json(self, tool: str, **given: Any) -> Any:
        """The answer of a tool."""
        refused, text = await self.text(tool, **given)
        assert not refused, text
        return json.loads(text)

    async def tools(self) -> dict[str, Any]:
        """The tools by name."""
        return {tool.name: tool for tool in (await self._client.list_tools()).tools}


def within(given: Any, work: Callable[[Asked], Awaitable[None]]) -> None:
    """Do something with a client of this server."""

    async def done() -> None:
        async with Client(given) as client:
            await work(Asked(client))

    anyio.run(done)


def test_a_model_gets_the_same_rows_as_a_reader_over_http(listeners: Listeners) -> None:
    async def work(asked: Asked) -> None:
        keys = "&".join(f"key={key}" for key in (3, 5))
        assert await asked.json("get", table="t", keys=[3, "5"]) == ask(f"{listeners.url}/tables/t?{keys}", TOKEN)[1]
        first = await asked.json("range", table="t", first=ROWS - 3, limit=2)
        assert [row["key"] for row in first["rows"]] == [ROWS - 3, ROWS - 2]
        last = await asked.json("range", table="t", limit=2, after=first["next"])
        assert ([row["key"] for row in last["rows"]], last["next"], last["batch"]) == ([ROWS - 1], None, 7)
        assert await asked.json("tables") == ask(f"{listeners.url}/tables", TOKEN)[1]

    within(made_server(TableServerAddress(listeners.url, TOKEN)), work)


def test_a_model_is_given_the_topology_the_numbers_and_what_was_dropped(listeners: Listeners) -> None:
    async def work(asked: Asked) -> None:
        said = await asked.json("describe")
        assert (said["query"], said["active"], said["error"]) == ("q", True, None)
        assert "clicks by page" in said["topology"]
        assert (await asked.json("metrics"))["consumed"] == {"clicks": 10}
        drops = await asked.json("drops")
        assert drops["drops"] == [{"operator": "count", "reason": "null_key", "records": 3}]
        assert drops["dead_letters"] == [{"topic": "bad", "of": "clicks", "records": 1}]
        assert await asked.json("why", table="t", key=4) == {"table": "t", "key": 4, "causes": ["t-0@1"]}

    within(made_server(TableServerAddress(listeners.url, TOKEN)), work)


def test_each_tool_only_reads_and_says_what_it_is_for(listeners: Listeners) -> None:
    async def work(asked: Asked) -> None:
        tools = await asked.tools()
        assert set(tools) == {"describe", "tables", "get", "range", "metrics", "drops", "dead_letters", "why"}
        for tool in tools.values():
            assert tool.annotations.read_only_hint
            assert len(tool.description) > 20

    within(made_server(TableServerAddress(listeners.url, TOKEN)), work)


def test_a_query_without_a_journal_has_no_tool_why() -> None:
    async def work(asked: Asked) -> None:
        assert "why" not in await asked.tools()

    with served(standing()) as unexplained:
        within(made_server(TableServerAddress(unexplained.url)), work)


def test_a_question_that_is_refused_is_answered_with_the_reason_and_the_hint(listeners: Listeners) -> None:
    async def work(asked: Asked) -> None:
        refused, text = await asked.text("get", table="none", keys=[1])
        assert (refused, text.partition(": ")[2]) == (True, "No table 'none' is served.\nHint: Tables: t.")
        for given in ({"keys": ["no number"]}, {"keys": []}):
            refused, text = await asked.text("get", table="t", **given)
            assert refused
            assert "\nHint: " in text
        refused, _ = await asked.text("get", table="../status", keys=[1])
        assert refused

    within(made_server(TableServerAddress(listeners.url, TOKEN)), work)


def test_a_wrong_token_ends_the_command_before_it_listens(listeners: Listeners) -> None:
    ended = CliRunner().invoke(main, ["mcp", listeners.url], env={"WATERSMEET_TOKEN": "a wrong token of some length"})
    assert ended.exit_code == 1
    assert "the token is missing or wrong" in ended.output


def test_without_the_package_the_command_names_the_extra(listeners: Listeners, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"(?s)not installed: mcp.*\[mcp\]"):
        made_server(TableServerAddress(listeners.url, TOKEN))


def test_the_command_speaks_over_stdin_and_stdout_alone(listeners: Listeners) -> None:
    async def work(asked: Asked) -> None:
        assert [row["key"] for row in (await asked.json("get", table="t", keys=[7]))["rows"]] == [7]

    arguments = ["-m", "watersmeet", "mcp", listeners.url]
    command = StdioServerParameters(command=sys.executable, args=arguments, env={"WATERSMEET_TOKEN": TOKEN})
    within(command, work)
