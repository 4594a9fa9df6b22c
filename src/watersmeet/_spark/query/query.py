"""A running topology: Spark's query, its end, its failures, its counts."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from functools import partial
from typing import Any

from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from watersmeet._plan.physical import Physical
from watersmeet._spark.batches.batches import QueryThread
from watersmeet._spark.checkpoint import lease as leases
from watersmeet._spark.checkpoint.folders import Folder
from watersmeet._spark.checkpoint.spark_logs import last_committed_batch, last_planned_batch
from watersmeet._spark.metrics.exporters import MetricsView, Telemetry
from watersmeet._spark.metrics.metrics import Metrics
from watersmeet._spark.metrics.query_facts import QueryFacts
from watersmeet._spark.metrics.texts import as_html, status_lines
from watersmeet._spark.outputs.batch_gate import BatchGate
from watersmeet._spark.query import failures
from watersmeet._spark.query.failures import with_topics
from watersmeet._spark.query.progress import BatchCounts, Drops
from watersmeet._spark.serving.access import Access
from watersmeet._spark.serving.client import ServedTable
from watersmeet._spark.serving.page import Explainer, QueryStatus
from watersmeet._spark.serving.replica import servable_columns
from watersmeet._spark.serving.server import MAX_BYTES, Listeners, TableServer, Tls, check_packages, served, widget_of
from watersmeet._spark.session import check_threads, overridden
from watersmeet._spark.stores.comparison import Comparison
from watersmeet._spark.stores.read import read_state
from watersmeet._spark.stores.table_columns import columns_of_stores
from watersmeet.errors import ConfigError
from watersmeet.hints import ByName, answering, missing_name
from watersmeet.io.kafka import Kafka
from watersmeet.windows import check_seconds

# A query that waits for Kafka: what is said of it while it waits, and how it is stopped all the same (law 6).
#
# Spark asks Kafka for the ends of its topics before each batch, and says nothing while no answer comes: it asks as
# often as `fetchOffset.numRetries` says, each time for `default.api.timeout.ms`, and then fails. Its stop waits for the
# answer.

LOG = logging.getLogger("watersmeet.query")
SECONDS = 2.0
"""Between two looks."""
END_REQUEST_SECONDS = 0.5
"""Between two looks whether the query is asked to end."""
SAID_AFTER = 10.0
"""Seconds without an answer before the first warning; each of the next comes after twice the time."""
STOP_MS = 3_000
"""How long a stop waits for Spark's thread before it looks what that waits for."""
_TIMEOUT = "spark.sql.streaming.stopTimeout"
_ASKING = "Getting offsets from Kafka"
_BROKEN_OFF = "Stopped"
"""Said when a query has left its batches for good and closes its sources, where a client of Kafka's waits as well."""
_stopping = threading.Lock()
"""The timeout is a setting of the session: of two stops at once one would leave the other's behind."""


class Silence:
    """Follows one query: warns while Kafka does not answer it, and says when it does again.

    Parameters
    ----------
    query : the query; followed by a thread until it ends or `close`.

    Attributes
    ----------
    lasts : whether Kafka has not answered for so long that it was said.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._closed = threading.Event()
        self.lasts = False
        self._left = False
        threading.Thread(target=self._follow, name=f"silence of {query.runId}", daemon=True).start()

    def close(self) -> None:
        self._closed.set()

    def stop(self, spark: SparkSession) -> bool:
        """Stop the query as `StreamingQuery.stop` does, but without waiting for a Kafka that does not answer.

        Returns
        -------
        bool : whether it has ended. False: no batch is under way, and none is to come; it ends when Kafka answers,
            or when its client gives up.
        """
        while not self._left:  # a turn each time that the thread has not ended in time
            try:
                with _stopping, overridden(spark, {_TIMEOUT: str(STOP_MS)}):
                    self._query.stop()
                return True
            except Exception as error:  # what a timeout is raised as differs with Spark's version
                if _TIMEOUT not in str(error):
                    raise
                if asks(self._query) or self._query.status["message"] == _BROKEN_OFF:
                    self._left = True
                    LOG.warning(_LEFT)
        return False

    def _follow(self) -> None:
        since, warned_at = None, 0.0
        with suppress(PySparkException, OSError):  # Spark itself has ended
            while not self._closed.wait(min(SECONDS, SAID_AFTER)) and self._query.isActive:
                asking = asks(self._query)
                if not asking and warned_at:
                    LOG.warning("Kafka answers again, after %.0f seconds.", time.monotonic() - since[0])  # type: ignore[index]
                since = (since or (time.monotonic(), datetime.now())) if asking else None
                waited = time.monotonic() - since[0] if since else 0.0
                if since is None:
                    warned_at, self.lasts = 0.0, False
                elif waited >= max(SAID_AFTER, 2 * warned_at):
                    warned_at = waited
                    self.lasts = True
                    LOG.warning(_TEXT, since[1].isoformat(" ", "seconds"), waited)


_TEXT = (
    "Kafka has not answered since %s (%.0f seconds). The query waits and asks again; it fails after "
    "fetchOffset.numRetries (source=, default 3) times default.api.timeout.ms (consumer=, default 60000) of wm.Kafka."
)
_LEFT = (
    "The query is stopped, but closing its sources takes long, as where Kafka does not answer: that ends in the "
    "background. Until then nobody else gets the checkpoint; a start in this process waits for it."
)


def asks(query: StreamingQuery) -> bool:
    """Whether the query waits for Kafka to say how far its topics reach."""
    status: dict[str, Any] = query.status
    return str(status["message"]).startswith(_ASKING)


# Ctrl-C while a program waits for its query: the first ends it behind its batch, the second at once, a third raises.
#
# PySpark's own answer cancels the jobs under way, and the batch fails. A handler of the program's own stays.

INTERRUPTS_LOOK_SECONDS = 0.5
"""Between two looks whether Ctrl-C was pressed: a call into the JVM is not broken off by it."""
_MOST_PRESSES = 2
SAID = "watersmeet: the query ends when its batch is written; Ctrl-C again stops it at once."


def wait(
    query: StreamingQuery, timeout: float | None, drain: Callable[[float], bool], stop: Callable[[], None]
) -> bool | None:
    """Wait until the query ends, `timeout` seconds at most; whether it has ended where one is given.

    Parameters
    ----------
    query : Spark's.
    timeout : in seconds; None: as long as it takes.
    drain : ends the query behind its batch, waits so many seconds for that, and says whether it has ended.
    stop : ends the query at once.
    """
    if timeout is not None and timeout <= 0:
        return query.awaitTermination(timeout)  # type: ignore[arg-type]  # which says what is wrong
    until = None if timeout is None else time.monotonic() + timeout
    with _presses() as pressed:
        while not pressed():
            pause = INTERRUPTS_LOOK_SECONDS if until is None else min(INTERRUPTS_LOOK_SECONDS, until - time.monotonic())
            if pause <= 0:
                return False
            if query.awaitTermination(max(pause, 0.001)):  # type: ignore[arg-type]
                return None if until is None else True
        print(SAID, file=sys.stderr, flush=True)
        while not drain(INTERRUPTS_LOOK_SECONDS):
            if pressed() > 1:
                stop()
                break
    return None if until is None else True


@contextmanager
def _presses() -> Iterator[Callable[[], int]]:
    """Counts Ctrl-C while it lasts, where the answer to it would be Python's or PySpark's."""
    count = 0

    def press(*_: Any) -> None:
        nonlocal count
        count += 1
        if count > _MOST_PRESSES:
            # a sink that hangs keeps Spark's own stop waiting
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield lambda: count
        return
    handler = signal.getsignal(signal.SIGINT)
    ours = handler is signal.default_int_handler or str(getattr(handler, "__module__", "")).startswith("pyspark.")
    if ours:
        signal.signal(signal.SIGINT, press)
    try:
        yield lambda: count
    finally:
        if ours:
            signal.signal(signal.SIGINT, handler)


# Checks for ending a query between two batches; `batch_gate.BatchGate` ends it there.

DRAIN_LOOK_SECONDS = 0.1
"""Between two looks at a query that is to end."""


class EndRequest(QueryThread):
    """Drains a query when a start asks for its checkpoint, which takes its place.

    Parameters
    ----------
    query : the query.
    lease : the query's, of which it is asked.
    drain : ends it behind its batch.
    """

    def __init__(self, query: StreamingQuery, lease: leases.MachineLease, drain: Callable[[], object]) -> None:
        self._lease, self._drain, self._is_asked = lease, drain, False
        super().__init__(query, "end request")

    def follow(self) -> None:
        """Look now and then, which costs no request to any other machine."""
        pause = threading.Event()
        while self._query.isActive:
            if self._lease.is_asked:
                self._is_asked = True
                LOG.info("Another topology takes the place of this query, which ends behind its batch.")
                self._drain()
                return
            pause.wait(END_REQUEST_SECONDS)

    def join(self) -> None:
        """Wait for the drain; who was not asked does not keep anybody waiting."""
        if self._is_asked:
            super().join()

    def wait_for_all(self) -> None:
        """It reads nothing."""


def is_unfinished(checkpoint: Folder) -> bool:
    """Whether a batch was planned and not committed: the next start would run it (again)."""
    return last_planned_batch(checkpoint) > last_committed_batch(checkpoint)


@answering
class Query:
    """A running topology: Spark's StreamingQuery, with what watersmeet knows besides.

    Everything of `pyspark.sql.streaming.StreamingQuery` (id, isActive, lastProgress, ...) is reached through it
    unchanged. Its failure is raised as an error of watersmeet if it is one, or comes from a broken
    checkpoint (`CorruptData`), a record that cannot be read (`SourceError`), a Kafka sink (`SinkError`) or a second
    query (`ConfigError`); else as Spark's.

    Attributes
    ----------
    comparisons : of each store, if it was deployed, the rows that differed from those of the topology before.
    """

    def __init__(
        self,
        streaming: StreamingQuery,
        counts: BatchCounts,
        checkpoint: str,
        lease: leases.MachineLease,
        gate: BatchGate,
        run_unfinished: Callable[[], Query | None],
        spark: SparkSession,
        topology: Physical,
        kafka: Kafka | None,
        facts: QueryFacts,
        threads: Sequence[QueryThread] = (),
    ) -> None:
        self.streaming = streaming
        self.comparisons: tuple[Comparison, ...] = ()
        self._kafka, self._facts = kafka, facts
        for resource in (counts, lease):  # at the latest while nobody else can have the checkpoint
            resource.at_end(partial(facts.end, self.exception))
        self._topology = topology
        self._lease = lease
        self._counts = counts
        self._checkpoint = checkpoint
        self._gate = gate
        self._run_unfinished = run_unfinished
        self._silence = Silence(streaming)
        self._spark = spark
        self._view: MetricsView | None = None
        self._served: TableServer | None = None
        self._serving: dict[str, Any] = {}
        self._explainer: Explainer | None = None
        self._sent: list[Telemetry] = []
        self._threads: Sequence[QueryThread] = [*threads, EndRequest(streaming, lease, self.drain)]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"Query has no attribute {name!r}")
        try:
            return getattr(self.streaming, name)
        except AttributeError:
            raise missing_name(
                "Query", [attribute for attribute in dir(self) if not attribute.startswith("_")], name
            ) from None

    def __dir__(self) -> list[str]:
        names = [name for name in super().__dir__() if not name.startswith("_") or name.startswith("__")]
        return sorted({*names, *(name for name in dir(self.streaming) if not name.startswith("_"))})

    def __repr__(self) -> str:
        state = "active" if self.streaming.isActive else "ended"
        return f"Query({self.streaming.name!r}, {state}, checkpoint={self._checkpoint!r})"

    def _repr_html_(self) -> str:
        return as_html(status_lines(self._status().as_json()))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    @property
    def drops(self) -> Drops:
        """Dropped records since this start, by (operator, reason): nothing vanishes silently."""
        return ByName(self._counts.drops(), "query.drops", "number of drops by (operator, reason)")

    def metrics(self) -> Metrics:
        """How the query goes: records, times, tables, drops, since this start; docs/watch.md says what each is.

        It is read from the progress that Spark keeps, without a job and without reading state, and reaches to the last
        batch that was committed.
        """
        return self._facts.complete(self._counts.metrics())

    def state(self, store: str, *, batch: int | None = None, keys: Sequence[Any] | None = None) -> DataFrame:
        """A store of the query as a DataFrame, while it runs and afterwards; see `watersmeet.read_state`.

        Parameters
        ----------
        store : name of the store, as `store=` names it, or as `describe` does.
        batch : number of a batch with state that is still stored; None: the last that was committed.
        keys : keys of the wanted rows; None: all. Their hash ranges alone are read.
        """
        return read_state(self._spark, self._checkpoint, store, batch=batch, keys=keys)

    def why(self, table: str, key: Any) -> Any:
        """The input records that a table's row comes from; see `Topology.why`.

        Parameters
        ----------
        table : name of the table, as `store=` names it, or as `describe` does.
        key : the key; a struct as a dict or a Row.
        """
        return self._journal_answers().why(table, key)

    def trace(self, record: str) -> Any:
        """The way of an input record through the topology; see `Topology.trace`.

        Parameters
        ----------
        record : the record's place, as `why` shows it: "orders-0@812".
        """
        return self._journal_answers().trace(record)

    def _journal_answers(self) -> Explainer:
        if self._explainer is None:
            raise ConfigError(
                "The query keeps no journal of its input records.",
                hint='Start it with topology.start(..., explain="1 day").',
            )
        return self._explainer

    def explain_by(self, why: Callable[[str, Any], Any], trace: Callable[[str], Any]) -> None:
        self._explainer = Explainer(why, trace)

    def serve(
        self,
        address: str | None = None,
        *,
        tables: Sequence[str],
        token: str | None = None,
        tls: Tls | None = None,
        max_bytes: int = MAX_BYTES,
        flight_port: int | None = None,
    ) -> TableServer:
        """Serve tables while the query runs: by key, by range, as changes; docs/serve.md has the whole of it.

        At the address there is also a page on which the query is watched.

        Beside the query a replica of these tables is kept in memory, and advanced by each committed batch. Every answer
        is of one batch, says which, and has all its tables at that batch.

        Parameters
        ----------
        address : host and port where HTTP is listened for, "127.0.0.1:8815"; None: this process alone asks (`table`).
        tables : names of stores, as `store=` names them.
        token : what readers send as `Authorization: Bearer`, 16 characters or more; None: nothing.
        tls : files of a certificate and of its key, in PEM; None: nothing is encrypted. An address of another machine
            needs a token or this.
        max_bytes : how large the replica may become; beyond, nothing is served any more, and the query goes on.
        flight_port : port of Arrow Flight; None: the one behind HTTP's.

        Returns
        -------
        TableServer : with the addresses, and `close`.

        Examples
        --------
        >>> query.serve("127.0.0.1:8815", tables=["open-orders"])  # doctest: +SKIP
        >>> query.table("open-orders").get(42).value  # doctest: +SKIP
        {'customer': 'ann', 'open': 12.5}
        """
        if self._served is not None and not self._served.is_closed:
            raise ConfigError(
                f"The query serves tables already: {self._served!r}.",
                hint="Name all tables in one call; or close() what query.serve(...) has given.",
            )
        check_threads("query.serve(...)")
        listen = None
        if address is not None:
            check_packages()
            access = Access.of(address, flight_port, token, tls)
            listen = partial(Listeners, access=access, query=self._status(), explainer=self._explainer)
        query = (self._spark, self._checkpoint, self._gate, self._counts.reports)
        self._served = served(*query, tables, max_bytes, self._is_active, listen)
        self._serving = {"tables": tables, "token": token, "tls": tls, "max_bytes": max_bytes}
        return self._served

    def upgrade(self, topology: Any, **options: Any) -> Query:
        """Have a changed topology take the place of this query, in this process and on its checkpoint.

        This query writes until the other one has caught up, and ends behind a batch; the other one goes on with the
        next. Tables that are served (`serve`) are served by the other one from then on, at the same addresses. See
        docs/change.md.

        Parameters
        ----------
        topology : the changed topology, as `StreamsBuilder.build` returns it.
        options : of `Topology.start`. This query's connection is used, if they have none.

        Returns
        -------
        Query : of the changed topology; `comparisons` has the rows that differ.

        Raises
        ------
        ChangedTopology : the change is refused, or more rows differ than `if_equal=` allows: this query goes on.
        ConfigError : the changed topology does not have a table that is served, or an option does not fit.

        Examples
        --------
        >>> query = query.upgrade(changed, trigger="1 second", if_equal=0)  # doctest: +SKIP
        """
        served = None if self._served is None or self._served.is_closed else self._served
        for name in self._serving["tables"] if served else ():
            servable_columns(columns_of_stores(topology.physical), name)
        options = {"kafka": self._kafka, **options, "deploy": True}
        with served.extension() if served else nullcontext():
            upgraded: Query = topology.start(self._spark, checkpoint=self._checkpoint, **options)
        if served is not None:
            served.close()
            try:
                upgraded.serve(**self._serving, **served.place)
            except BaseException:
                upgraded.stop()
                raise
        return upgraded

    def table(self, name: str) -> ServedTable:
        """A table that is served (`serve`), read in this process.

        Parameters
        ----------
        name : of the table.
        """
        if self._served is None or self._served.is_closed:
            raise ConfigError(
                f"No tables are served, so {name!r} cannot be asked.",
                hint=f"Before, query.serve(tables=[{name!r}]); or query.state({name!r}) reads it from the checkpoint.",
            )
        return self._served.table(name)

    def widget(self) -> Any:
        """The page of the query (`serve`) as a widget: a notebook shows it as the last value of a cell.

        It has the tables that are served; `serve(tables=[...])` without an address is enough.

        Examples
        --------
        >>> query.widget()  # doctest: +SKIP
        """
        served = self._served
        replica = None if served is None or served.is_closed else served._replica
        return widget_of(self._status(), replica, self._explainer)

    def telemetry(self, *, tracer_provider: Any = None, meter_provider: Any = None) -> None:
        """Send a trace of each batch, and the numbers of `metrics`, to OpenTelemetry until the query ends.

        Needs the extra `otel`; docs/watch.md has the names.

        Parameters
        ----------
        tracer_provider, meter_provider : of OpenTelemetry; None: one that sends by OTLP over HTTP, to where
            OTEL_EXPORTER_OTLP_ENDPOINT says.

        Examples
        --------
        >>> query.telemetry()  # doctest: +SKIP
        """
        sent = Telemetry(self._topology.plan.application, self.metrics, tracer_provider, meter_provider)
        self._counts.tell(sent.trace)
        self._sent.append(sent)

    def _status(self) -> QueryStatus:
        return QueryStatus(
            str(self.streaming.name or self._topology.plan.application),
            self._checkpoint,
            self._topology,
            self.exception,
            self._is_active,
            lambda: str(self.streaming.status["message"]),
            self.metrics,
            self._kafka,
        )

    def _is_active(self) -> bool:
        return bool(self.streaming.isActive)

    @property
    def metrics_port(self) -> int | None:
        """The port at which Prometheus asks for the numbers; None where `metrics_port` was not given."""
        return None if self._view is None else self._view.port

    def show(self, view: MetricsView) -> None:
        """Have the numbers shown until the query has ended."""
        self._view = view
        view.begin(self._spark, self.metrics)

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait until the query ends, `timeout` seconds at most; whether it has ended where one is given.

        Ctrl-C drains the query and returns; a second one stops it.
        """
        check_seconds(timeout, "awaitTermination")
        try:
            with self._translated():
                finished = wait(self.streaming, timeout, self.drain, self.stop)
                for thread in self._threads if finished is not False else ():
                    thread.join()
                return finished
        finally:
            # a query that is drained gives its lease back when its batch is committed
            if self._lease.ended and not self._gate.closed:
                self._leave()

    def processAllAvailable(self) -> None:
        """Wait until all is processed that the sources have now."""
        with self._translated():
            for thread in self._threads:
                thread.wait_for_all()
            self.streaming.processAllAvailable()

    def exception(self) -> Exception | None:
        """Why the query ended by itself; None while it runs, or where it was stopped."""
        failure: Any = self.streaming.exception()
        failures_beside = (thread.failure for thread in self._threads if thread.failure is not None)
        return next(failures_beside, None if failure is None else self._cause(failure))

    def _cause(self, failure: Exception) -> Exception:
        return with_topics(failures.translate(failure, self._checkpoint), self._kafka, self._topology.plan)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except StreamingQueryException as failure:
            raise failures.printed(failure, self._cause(failure)) from None
        except Exception as failure:
            ended = failures.of_jvm(failure, self._checkpoint)
            if ended is failure:
                raise
            raise ended from None

    def stop(self) -> None:
        """Stop the query; the batch under way is computed again at the next start.

        When it returns nothing of the query runs any more, but for what waits for a Kafka that does not answer: that
        ends in the background, which a warning says, and keeps the checkpoint until then.
        """
        self._silence.close()
        self._silence.stop(self._spark)
        self._leave()

    def _leave(self) -> None:
        """End serving, give the checkpoint back, and close the views of the numbers."""
        if self._served is not None:
            # first: the next query serves later batches
            self._served.close()
        self._lease.release_at_end()
        with suppress(Exception):  # whatever a session says that is gone
            self._counts.close()
        if self._view is not None:
            self._view.close()
        for sent in self._sent:
            sent.close()

    def drain(self, timeout: float | None = None) -> bool:
        """Stop the query when the batch under way is written and committed: the next start runs nothing again.

        `stop` breaks that batch off instead, which loses no record either, but the next start has it to do again.
        A query that has nothing to do, or that Kafka does not answer, stops at once; one that has ended already
        stays as it is. Where one Spark writer is the only sink (`Writer`), Spark leaves no place to stop behind a
        batch: the batch is broken off and run again to its end here.

        Parameters
        ----------
        timeout : seconds to wait, the commit of a batch that is written apart; None: as long as it takes.

        Returns
        -------
        bool : whether it has stopped; False when time was up before: it stops behind its batch all the same.
        """
        check_threads("query.drain()")
        check_seconds(timeout, "drain")
        self._gate.close(self.streaming.stop)
        with self._translated():
            if not self._drained(None if timeout is None else time.monotonic() + timeout):
                return False
        self._leave()
        successor = self._run_unfinished()
        if successor is not None:
            successor.awaitTermination()
            successor.stop()
            self._counts.add(successor._counts)
        return True

    def _drained(self, until: float | None) -> bool:
        """Whether the query has ended behind its batch, before it was too late."""
        pending = False
        while not self.streaming.awaitTermination(DRAIN_LOOK_SECONDS):  # type: ignore[arg-type]
            if until is not None and time.monotonic() > until:
                return False
            if not self.streaming.status["isTriggerActive"] or not self._gate.stands or self._silence.lasts:
                pending = not self._silence.stop(self._spark)
        if not pending:
            # Spark says that it has ended as soon as that is decided; the batch's commit may be to come
            self.streaming.awaitTermination()
        return True
