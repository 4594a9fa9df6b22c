"""An HDFS for tests: a name node and a data node in a JVM each, on free loopback ports, empty at the start.

Owns their whole lives: a temporary folder, formatting, start, the wait until both serve, their end, which is as sure as
the broker's. Spark's own jars hold the client.

with Hdfs() as hdfs:
        topology.start(spark, checkpoint=f"{hdfs.url}/checkpoint")
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from xml.sax.saxutils import escape

from dev.broker import HOST, free_ports, kill_when_we_die
from dev.jars import classpath
from dev.jvm import SHORT_LIVED, find_java

_SERVER = "org.apache.hadoop.hdfs.server"
_NAMES, _DATA = f"{_SERVER}.namenode.NameNode", f"{_SERVER}.datanode.DataNode"
_READY = "successfully registered with NN"
_WAIT_SECONDS = 120.0
_LOGGING = """log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %c{1}: %m%n
"""


class HdfsFailed(RuntimeError):
    """It did not start; the message holds the end of a log."""


class Hdfs:
    """One name node and one data node.

    Attributes
    ----------
    folder : of its data and logs; removed at the end.
    url : where it answers, "hdfs://host:port".
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="watersmeet-hdfs-"))
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Hdfs:
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _start(self) -> None:
        port, web, data, data_web, data_rpc = free_ports(5)
        self.url = f"hdfs://{HOST}:{port}"
        given = {
            "fs.defaultFS": self.url,
            "dfs.namenode.http-address": f"{HOST}:{web}",
            "dfs.namenode.name.dir": f"file://{self.folder}/names",
            "dfs.namenode.safemode.extension": "0",
            "dfs.permissions.enabled": "false",
            "dfs.replication": "1",
            "dfs.datanode.data.dir": f"file://{self.folder}/data",
            "dfs.datanode.address": f"{HOST}:{data}",
            "dfs.datanode.http.address": f"{HOST}:{data_web}",
            "dfs.datanode.ipc.address": f"{HOST}:{data_rpc}",
            # a file system of the machine that is nearly full would leave no room for a block
            "dfs.datanode.du.reserved": "0",
            "hadoop.tmp.dir": str(self.folder / "tmp"),
        }
        settings = self.folder / "conf"
        settings.mkdir()
        lines = [
            f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in given.items()
        ]
        for name in ("core-site.xml", "hdfs-site.xml"):
            (settings / name).write_text("\n".join(["<configuration>", *lines, "</configuration>"]))
        (settings / "log4j.properties").write_text(_LOGGING)
        for pages in ("hdfs", "datanode", "static"):
            # Hadoop's distribution has web pages, its jars have none; without the folders no server starts
            (settings / "webapps" / pages).mkdir(parents=True)
        done = subprocess.run([*self._java(), _NAMES, "-format", "-force"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise HdfsFailed(f"HDFS could not be formatted:\n{(done.stdout + done.stderr)[-3000:]}")
        for name in (_NAMES, _DATA):
            self._run(name)
        self._wait()

    def _java(self) -> list[str]:
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", SHORT_LIVED, f"-Djava.io.tmpdir={self.folder}"]
        return [find_java(), *options, "-cp", f"{self.folder / 'conf'}:{classpath('hdfs')}"]

    def _run(self, name: str) -> None:
        with self._log(name).open("wb") as log:
            process = subprocess.Popen(
                [*self._java(), name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes += [process, kill_when_we_die(process.pid, self.folder)]

    def _log(self, name: str) -> Path:
        return self.folder / f"{name.rpartition('.')[2]}.log"

    def _wait(self) -> None:
        until = time.monotonic() + _WAIT_SECONDS
        while _READY not in self._log(_DATA).read_text(errors="replace"):
            if time.monotonic() > until or any(each.poll() is not None for each in self._processes):
                said = [self._log(name).read_text(errors="replace")[-2000:] for name in (_NAMES, _DATA)]
                raise HdfsFailed("HDFS did not start. Its logs end:\n" + "\n\n".join(said))
            time.sleep(0.1)

    def _end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        self._processes = []
        shutil.rmtree(self.folder, ignore_errors=True)
