"""A running topology: Spark's query, its end, its failures, its counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from watersmeet._plan.physical import Physical
from watersmeet._spark.batches.synchronized_inputs import BatchEndPlanner
from watersmeet._spark.metrics.metrics import Metrics
from watersmeet._spark.metrics.query_facts import QueryFacts
from watersmeet._spark.metrics.telemetry import Telemetry
from watersmeet._spark.metrics.view import MetricsView
from watersmeet._spark.query import failures, interrupts, leases, silence
from watersmeet._spark.query.drain import LOOK_SECONDS
from watersmeet._spark.query.progress import BatchCounts, Drops
from watersmeet._spark.serving.client import ServedTable
from watersmeet._spark.serving.listening.access import Access
from watersmeet._spark.serving.listening.servers import Servers, check_packages
from watersmeet._spark.serving.notebook.display import as_html, widget_of
from watersmeet._spark.serving.page.status import QueryStatus
from watersmeet._spark.serving.serving import MAX_BYTES, TableServer, Tls, served
from watersmeet._spark.session.check import check_threads
from watersmeet._spark.sinks.barrier import StopBarrier
from watersmeet._spark.stores.read import read_state
from watersmeet.errors import ConfigError
from watersmeet.io.kafka import Kafka


class Query:
    """A running topology: Spark's StreamingQuery, with what watersmeet knows besides.

    Everything of `pyspark.sql.streaming.StreamingQuery` (id, isActive, lastProgress, ...) is reached through it
    unchanged. Its failure is raised as an error of watersmeet if it is one, or comes from a broken
    checkpoint (`CorruptData`), a record that cannot be read (`SourceError`), a Kafka sink (`SinkError`) or a second
    query (`ConfigError`); else as Spark's.
    """

    def __init__(
        self,
        streaming: StreamingQuery,
        counts: BatchCounts,
        checkpoint: str,
        lease: leases.MachineLease,
        barrier: StopBarrier,
        rest: Callable[[], Query | None],
        spark: SparkSession,
        topology: Physical,
        kafka: Kafka | None,
        facts: QueryFacts,
        together: BatchEndPlanner | None = None,
    ) -> None:
        self.streaming = streaming
        self._together = together
        self._kafka, self._facts = kafka, facts
        if together is not None:
            facts.lag = lambda: together.lag
        for each in (counts, lease):  # at the latest while nobody else can have the checkpoint
            each.at_end(partial(facts.end, self.exception))
        self._topology = topology
        self._lease = lease
        self._counts = counts
        self._checkpoint = checkpoint
        self._barrier = barrier
        self._rest = rest
        self._silence = silence.Silence(streaming)
        self._spark = spark
        self._shown: MetricsView | None = None
        self._served: TableServer | None = None
        self._why: Callable[[str, Any], Any] | None = None
        self._sent: list[Telemetry] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"Query has no attribute {name!r}")
        return getattr(self.streaming, name)

    def __dir__(self) -> list[str]:
        own = [name for name in super().__dir__() if not name.startswith("_") or name.startswith("__")]
        return sorted({*own, *(name for name in dir(self.streaming) if not name.startswith("_"))})

    def __repr__(self) -> str:
        state = "active" if self.streaming.isActive else "ended"
        return f"Query({self.streaming.name!r}, {state}, checkpoint={self._checkpoint!r})"

    def _repr_html_(self) -> str:
        return as_html(self._status().as_json())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    @property
    def drops(self) -> Drops:
        """Dropped records since this start, by (operator, reason): nothing vanishes silently."""
        return self._counts.drops()

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

        Raises
        ------
        ConfigError : unknown store or batch, or a key is of another type.
        """
        return read_state(self._spark, self._checkpoint, store, batch=batch, keys=keys)

    def why(self, table: str, key: Any) -> Any:
        """The input records that a table's row comes from; see `Topology.why`.

        Parameters
        ----------
        table : name of the table, as `store=` names it, or as `describe` does.
        key : the key; a struct as a dict or a Row.

        Raises
        ------
        ConfigError : the query was started without `explain=`, unknown table, or the key is of another type.
        """
        if self._why is None:
            raise ConfigError(
                "The query keeps no journal of its input records.",
                hint='Start it with topology.start(..., explain="1 day").',
            )
        return self._why(table, key)

    def explain_by(self, why: Callable[[str, Any], Any]) -> None:
        """Answer `why` by this function."""
        self._why = why

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

        Raises
        ------
        ConfigError : an option does not fit, a table is none, a port is taken, or tables are served already.

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
        servers = None
        if address is not None:
            check_packages()
            access = Access.of(address, flight_port, token, tls)
            servers = partial(Servers, access=access, query=self._status(), why=self._why)
        asked = (self._spark, self._checkpoint, self._barrier, tables, max_bytes, self._is_active, servers)
        self._served = served(*asked)
        return self._served

    def table(self, name: str) -> ServedTable:
        """A table that is served (`serve`), read in this process.

        Parameters
        ----------
        name : of the table.

        Raises
        ------
        ConfigError : it is not served.
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

        Raises
        ------
        ConfigError : a package is missing.

        Examples
        --------
        >>> query.widget()  # doctest: +SKIP
        """
        served = self._served
        replica = None if served is None or served.is_closed else served._replica
        return widget_of(self._status(), replica, self._why)

    def telemetry(self, *, tracer_provider: Any = None, meter_provider: Any = None) -> None:
        """Send a trace of each batch, and the numbers of `metrics`, to OpenTelemetry until the query ends.

        Needs the extra `otel`; docs/watch.md has the names.

        Parameters
        ----------
        tracer_provider, meter_provider : of OpenTelemetry; None: one that sends by OTLP over HTTP, to where
            OTEL_EXPORTER_OTLP_ENDPOINT says.

        Raises
        ------
        ConfigError : a package is missing.

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
        return None if self._shown is None else self._shown.port

    def show(self, shown: MetricsView) -> None:
        """Have the numbers shown until the query has ended."""
        self._shown = shown
        shown.begin(self._spark, self.metrics)

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Wait until the query ends, `timeout` seconds at most; whether it has ended where one is given.

        Ctrl-C drains the query and returns; a second one stops it.
        """
        try:
            with self._named():
                ended = interrupts.wait(self.streaming, timeout, self.drain, self.stop)
                if self._together is not None and ended is not False:
                    self._together.join()
                return ended
        finally:
            # a query that is drained gives its lease back when its batch is committed
            if self._lease.ended and not self._barrier.closed:
                with suppress(Exception):  # whatever a session says that is gone
                    self._counts.close()
                self._lease.release_at_end()
                self._leave()

    def processAllAvailable(self) -> None:
        """Wait until all is processed that the sources have now."""
        with self._named():
            if self._together is not None:
                self._together.wait_for_all()
            self.streaming.processAllAvailable()

    def exception(self) -> Exception | None:
        """Why the query ended by itself; None while it runs, or where it was stopped."""
        failure: Any = self.streaming.exception()
        if self._together is not None and self._together.failure is not None:
            return self._together.failure
        return None if failure is None else failures.named(failure, self._checkpoint)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except StreamingQueryException as failure:
            found = failures.named(failure, self._checkpoint)
            if found is failure:
                raise
            # what Spark says of a setting may quote it
            raise found from (None if isinstance(found, ConfigError) else failure)

    def stop(self) -> None:
        """Stop the query; the batch under way is computed again at the next start.

        When it returns nothing of the query runs any more, but for what waits for a Kafka that does not answer: that
        ends in the background, which a warning says, and keeps the checkpoint until then.
        """
        self._silence.close()
        self._silence.stop(self._spark)
        self._lease.release_at_end()
        self._counts.close()
        self._leave()

    def _leave(self) -> None:
        """Nobody is shown the numbers any more, nor served."""
        if self._served is not None:
            self._served.close()
        if self._shown is not None:
            self._shown.close()
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

        Raises
        ------
        WatersmeetError, StreamingQueryException : the query has failed, now or before.
        ConfigError : PySpark is set not to keep a thread of the JVM for each of Python's.
        """
        check_threads("query.drain()")
        self._barrier.close(self.streaming.stop)
        with self._named():
            if not self._drained(None if timeout is None else time.monotonic() + timeout):
                return False
        self._lease.release_at_end()
        self._counts.close()
        self._leave()
        rest = self._rest()
        if rest is not None:
            rest.awaitTermination()
            rest.stop()
            self._counts.add(rest._counts)
        return True

    def _drained(self, until: float | None) -> bool:
        """Whether the query has ended behind its batch, before it was too late."""
        waits = False
        while not self.streaming.awaitTermination(LOOK_SECONDS):  # type: ignore[arg-type]
            if until is not None and time.monotonic() > until:
                return False
            if not self.streaming.status["isTriggerActive"] or not self._barrier.stands or self._silence.lasts:
                waits = not self._silence.stop(self._spark)
        if not waits:
            # Spark says that it has ended as soon as that is decided; the batch's commit may be to come
            self.streaming.awaitTermination()
        return True
