"""The page of a query as a widget of a notebook: the files of the page, and the answers of served tables.

The application that answers over HTTP answers the page here, too, in this process and without a port. The status
is sent by a thread, so that it moves while a cell of the notebook runs.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from functools import cache
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import anywidget
import traitlets

from watersmeet._spark.serving.page import MODULES, text_of_file

LOOK_SECONDS = 1.0
"""Between two statuses that are sent."""
Application = Callable[
    [dict[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]
]
"""An application of ASGI."""
T = TypeVar("T")
_IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE | re.DOTALL)


@cache
def module() -> str:
    """The script of the widget as one module: anywidget takes a single one."""
    parts = [_IMPORT.sub("", text_of_file(f"{name}.js")) for name in (*MODULES, "widget")]
    constants = {"PAGE": text_of_file("index.html"), "STYLE": text_of_file("page.css")}
    return "\n".join([*(f"const {name} = {json.dumps(text)};" for name, text in constants.items()), *parts])


class QueryWidget(anywidget.AnyWidget):
    """A query, watched in a notebook until it is closed, or the query ends.

    Take it from `Query.widget`.

    Parameters
    ----------
    application : answers what the page asks.
    is_active : whether the query runs.
    """

    _esm = module()
    status = traitlets.Unicode("").tag(sync=True)

    def __init__(self, application: Application, is_active: Callable[[], bool]) -> None:
        self._application, self._is_active = application, is_active
        # the application's own loop, which a thread of its own runs
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="watersmeet widget", daemon=True)
        self._thread.start()
        super().__init__(status=self._submit(self._fetch("/status")).result()[1])
        self._following = self._submit(self._follow())
        self.on_msg(self._message)

    def close(self) -> None:
        """Show the query no more; what is shown stays."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        super().close()

    def _run(self) -> None:
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _follow(self) -> None:
        active = True
        while active:
            await asyncio.sleep(LOOK_SECONDS)
            # the last status is that of the query's end
            active = self._runs()
            text = await self._status()
            if text is not None:
                self.status = text
            elif not active:
                self.status = json.dumps({**json.loads(self.status), "active": False, "doing": None})

    async def _status(self) -> str | None:
        try:
            status, text = await self._fetch("/status")
        except Exception:  # its session is gone: there are no numbers any more
            return None
        return text if status == HTTPStatus.OK else None

    def _runs(self) -> bool:
        try:
            return self._is_active()
        except Exception:  # its session is gone, and the query with it
            return False

    def _message(self, widget: Any, request: Any, buffers: Any) -> None:
        self._submit(self._answer(request))

    async def _answer(self, request: Any) -> None:
        try:
            status, text = await self._fetch(f"/{request['path']}")
        except Exception as error:  # the browser waits for an answer
            status, text = HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}"
        self.send({"id": request["id"], "status": status, "text": text})

    async def _fetch(self, address: str) -> tuple[int, str]:
        return await fetch(self._application, address)

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)


async def fetch(application: Application, address: str) -> tuple[int, str]:
    """Status and text of an answer of an application.

    Parameters
    ----------
    address : path and query.
    """
    parts = urlsplit(address)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [],
    }
    status, body = 500, list[bytes]()

    async def receive() -> dict[str, Any]:
        # the reader has sent all, and stays
        leave: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        return await leave

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = int(message["status"])
        body.append(message.get("body", b""))

    await application(scope, receive, send)
    return status, b"".join(body).decode()
