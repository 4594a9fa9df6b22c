"""Lookups of single keys over HTTP: those that come at one time are answered at once.

A lookup of one key costs about a millisecond, and one of a hundred keys hardly more: the engine looks up, and JSON is
written, for all of them by the same few kernels.
"""

from __future__ import annotations

import asyncio

from watersmeet._spark.serving.answers import answer, answers_of_keys
from watersmeet._spark.serving.reads import TableQuestion
from watersmeet._spark.serving.replica import Replica
from watersmeet.errors import WatersmeetError


class KeyLookups:
    """Answers lookups; all calls are of one event loop.

    Parameters
    ----------
    replica : what is asked.
    """

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._waiting: list[tuple[TableQuestion, asyncio.Future[str]]] = []

    @staticmethod
    def takes(read: TableQuestion) -> bool:
        """Whether a question is one that is answered here: for a key, and nothing besides."""
        return read.keys is not None and len(read.keys) == 1 and read == TableQuestion(read.table, keys=read.keys)

    async def answer(self, read: TableQuestion) -> str:
        """The answer's JSON; there is a batch.

        Raises
        ------
        WatersmeetError : as `answers.answer` does.
        """
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._answer_all)
        future: asyncio.Future[str] = loop.create_future()
        self._waiting.append((read, future))
        return await future

    def _answer_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for table in dict.fromkeys(read.table for read, _ in waiting):
            some = [(read, future) for read, future in waiting if read.table == table]
            keys = [key for read, _ in some for key in read.keys or ()]
            try:
                texts = answers_of_keys(self._replica.moment(), table, keys)
            except WatersmeetError:
                # of one of them: each gets its own
                for read, future in some:
                    self._answer_one(read, future)
                continue
            for (_, future), text in zip(some, texts, strict=True):
                if not future.done():
                    future.set_result(text)

    def _answer_one(self, read: TableQuestion, future: asyncio.Future[str]) -> None:
        try:
            text = answer(self._replica, read).as_json()
        except WatersmeetError as error:
            if not future.done():
                future.set_exception(error)
            return
        if not future.done():
            future.set_result(text)
