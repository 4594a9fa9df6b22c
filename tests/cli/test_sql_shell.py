"""`watersmeet sql` as a shell: over a query that runs a file of SQL, and over a table that stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from tests.spark.serving.standing import ROWS, served, standing
from watersmeet.cli import shell as shells
from watersmeet.cli.commands import main
from watersmeet.cli.run import RunOptions, starting
from watersmeet.cli.shell import Shell, completion, interact, pieces
from watersmeet.errors import SqlError
from watersmeet.sql import served as served_tables

TOKEN = "a token of enough length"
ORDERS = [(1, "ann", 5, 10.0), (2, "bob", 2, 4.0), (3, "ann", 1, 1.5), (4, None, 7, 2.0)]
VIEWS = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, n INT, price DOUBLE, at BIGINT)
    WITH (path = 'FOLDER/orders', timestamp = 'at', store = 'orders');
CREATE MATERIALIZED VIEW by_customer AS SELECT customer, SUM(n * price) AS total FROM orders GROUP BY customer;
CREATE TABLE sums WITH (url = 'sqlite:///FOLDER/sums.db', create = true)
    AS SELECT customer, total FROM by_customer WHERE customer IS NOT NULL;
EXPLAIN by_customer;
"""


@pytest.fixture(scope="module")
def lines(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., list[str]]]:
    """What the shell answers to a statement, of a query of `VIEWS`."""
    folder = tmp_path_factory.mktemp("shell")
    rows = [(*order, number) for number, order in enumerate(ORDERS)]
    spark.createDataFrame(rows, "id long, customer string, n int, price double, at long").coalesce(1).write.parquet(
        str(folder / "orders")
    )
    (folder / "views.sql").write_text(VIEWS.replace("FOLDER", str(folder)))
    options = RunOptions(str(folder / "views.sql"), str(folder / "cp"), start={"shards": 1, "tasks": 1})
    options.check()
    query = starting(options)()
    try:
        query.processAllAvailable()
        server = query.serve("127.0.0.1:0", tables=["orders", "by_customer"], token=TOKEN)
        query.table("orders").get(1, at_least=0, timeout=300)
        made = Shell(shells.TableServerAddress(str(server.url), TOKEN), master=spark.sparkContext.master)
        yield lambda text: list(made.run(text))
    finally:
        query.stop()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A table of many keys that stands still."""
    with served(standing(), TOKEN) as servers:
        yield str(servers.url)


def asked(url: str, text: str, *options: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["sql", url, "--token", TOKEN, *options], input=text)
    return done.exit_code, done.output


def test_rows_of_keys_and_of_ranges_are_read_from_standard_input_without_a_spark(url: str, monkeypatch) -> None:
    monkeypatch.setattr(served_tables, "session", None)
    code, output = asked(url, "SELECT key FROM t WHERE key = 7; select key as k from t where key in (3, 5)", "--json")
    assert (code, output.splitlines()) == (0, ['{"key": 7}', '{"k": 3}', '{"k": 5}'])
    code, output = asked(url, f"SELECT key FROM t WHERE key >= {ROWS - 2}", "--json")
    assert (code, output.splitlines()) == (0, [f'{{"key": {ROWS - 2}}}', f'{{"key": {ROWS - 1}}}'])
    assert asked(url, "SELECT key FROM t LIMIT 2")[1] == "key\n---\n0\n1\n(2 rows)\n"
    assert asked(url, "SELECT * FROM t WHERE 9 = key", "--json")[1].startswith('{"key": 9, "value": "xxx')
    assert asked(url, "SELECT t.key FROM t WHERE t.key = 4", "--json")[1] == '{"key": 4}\n'
    assert asked(url, "SELECT key FROM t WHERE key = -1")[1] == "key\n---\n(0 rows)\n"


def test_a_statement_that_the_shell_does_not_take_ends_with_its_place(url: str) -> None:
    code, output = asked(url, "SHOW TABLES;\nSELECT key FROM tt;\nSHOW TABLES")
    assert code == 1
    assert output.startswith("t\nError: The query serves no table tt.")
    assert "line 2, column 17:\n  SELECT key FROM tt;\n                  ^\nHint: Did you mean t?" in output
    assert "INSERT is no statement of the shell, which reads." in asked(url, "INSERT INTO t VALUES (1)")[1]
    assert "t has no column keys." in asked(url, "SELECT keys FROM t")[1]
    assert "answers once" in asked(url, "SELECT key FROM t EMIT CHANGES")[1]
    assert "The query reads no table." in asked(url, "SELECT 1")[1]
    assert "is no SQL of Spark" in asked(url, "SELECT FROM WHERE")[1]


def test_what_other_shells_call_tables_is_shown(url: str) -> None:
    for text in ("SHOW STREAMS", "list tables", "SHOW MATERIALIZED VIEWS", "\\dt", "\\d"):
        assert asked(url, text) == (0, "t\n")
    assert asked(url, "DESCRIBE EXTENDED t") == asked(url, "DESC t")


def test_a_table_with_more_rows_than_are_read_whole_asks_for_keys(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_tables, "MOST_ROWS", 100)
    assert "t has more than 100 rows there." in asked(url, "SELECT * FROM t")[1]
    assert asked(url, "SELECT key FROM t WHERE key BETWEEN 5 AND 6", "--json")[1] == '{"key": 5}\n{"key": 6}\n'


def test_a_wrong_token_and_an_address_without_a_query_are_refused(url: str) -> None:
    for arguments in ([url], ["http://127.0.0.1:9"]):
        done = CliRunner().invoke(main, ["sql", *arguments], input="SHOW TABLES", env={"WATERSMEET_TOKEN": ""})
        assert (done.exit_code, "Hint: " in done.output) == (1, True)


def test_the_loop_goes_on_behind_an_error_and_ends_with_exit(url: str) -> None:
    made, said = Shell(shells.TableServerAddress(url, TOKEN)), []
    typed = iter(["SELECT key", "FROM t WHERE key = 3;", "SELECT nosuch FROM t;", "help", "exit", "never"])
    interact(made, lambda _: next(typed), said.append)
    assert said[:4] == ["key", "---", "3", "(1 row)"]
    assert said[4].startswith("Error: t has no column nosuch.")
    assert said[5].startswith("SHOW TABLES;")
    assert next(typed) == "never"
    assert completion(made.words(), "des", 0) == "DESCRIBE"
    assert completion(made.words(), "timest", 0) == "timestamp"
    assert completion(made.words(), "timest", 1) is None


def test_a_semicolon_in_a_text_or_a_remark_ends_no_statement() -> None:
    text = "SELECT ';' -- one; two\n; /* ; */ SELECT 2;;"
    assert [piece.strip() for _, piece in pieces(text)] == ["SELECT ';' -- one; two", "/* ; */ SELECT 2"]


@pytest.mark.spark
def test_the_shell_answers_from_a_query_that_runs_a_file_of_sql(lines: Callable[[str], list[str]]) -> None:
    assert sorted(lines("SHOW TABLES")) == ["by_customer", "orders"]
    assert lines("DESCRIBE orders")[:3] == ["key: bigint, of the key", "customer: string", "n: int"]
    assert lines("SELECT customer, n FROM orders WHERE key = 2") == [
        "customer  n",
        "--------  -",
        "bob       2",
        "(1 row)",
    ]
    assert lines("EXPLAIN SELECT n FROM orders WHERE key = 2") == [
        "orders: looks up 1 key: 2",
        "then: nothing, the rows are the answer",
    ]
    assert lines("EXPLAIN SELECT COUNT(*) FROM orders WHERE key > 2") == [
        "orders: reads a range of keys: 2.., 100,000 rows at most",
        "then: Spark, over these rows",
    ]
    assert "table_aggregate" in lines("SHOW TOPOLOGY")[0]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT COUNT(*) AS n FROM orders WHERE key > 2", [["n"], ["2"]]),
        ("SELECT customer, total FROM by_customer WHERE customer = 'ann'", [["customer", "total"], ["ann", "51.5"]]),
        (
            "SELECT o.key FROM orders o JOIN by_customer b ON o.customer <=> b.customer WHERE b.total = 14",
            [["key"], ["4"]],
        ),
        ("SELECT key, n * price AS sum FROM orders WHERE key = 1 AND n > 4", [["key", "sum"], ["1", "50.0"]]),
        ("SELECT key FROM orders WHERE key IN (1, 2) AND customer = 'bob'", [["key"], ["2"]]),
        ("WITH a AS (SELECT * FROM orders) SELECT MAX(n) AS most FROM a", [["most"], ["7"]]),
    ],
)
def test_what_is_more_than_columns_of_rows_is_what_sparks_sql_says(
    lines: Callable[[str], list[str]], query: str, rows: list[list[str]]
) -> None:
    found = [line.split() for line in lines(query)[:-1]]
    assert [found[0], *found[2:]] == rows


@pytest.mark.spark
def test_a_query_that_spark_does_not_take_is_refused_with_its_reason(lines: Callable[[str], list[str]]) -> None:
    with pytest.raises(SqlError, match=r"(?s)Spark does not take this query.*nosuch.*Hint: DESCRIBE"):
        lines("SELECT nosuch + 1 FROM orders")
