"""SQL as a front end: what statements become, and that they use the public API alone."""

from __future__ import annotations

import ast
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf import any_pb2, api_pb2, descriptor_pb2, source_context_pb2, type_pb2

import watersmeet as wm
from watersmeet.testing import TopologyTestDriver

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
FOLDER = Path(wm.__file__).parent / "sql"
# what no name of `wm` is, and the Python API shows: the builder's hooks, readers of options, hints of what is missing
VOCABULARY = {
    "read_sql_by",
    "names_after",
    "named_groups",
    "installing",
    "missing_packages",
    "answered",
    "elsewhere",
    "duration_ms",
    "formats",
    "did_you_mean",
}
STREAMS = """
    CREATE STREAM clicks (user STRING PRIMARY KEY, page STRING, at TIMESTAMP) WITH (timestamp = 'at');
    CREATE STREAM buys (id BIGINT PRIMARY KEY, user STRING, amount INT, t TIMESTAMP)
        WITH (timestamp = 't', grace = '1 minute');
    CREATE TABLE users (name STRING PRIMARY KEY, city STRING) WITH (history = '1 day');
"""


def at(seconds):
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


CLICKS = [
    ("clicks", "ann", {"page": "a", "at": at(0)}),
    ("clicks", "bob", {"page": "a", "at": at(70)}),
    ("clicks", "ann", {"page": "b", "at": at(75)}),
    ("clicks", "ann", {"page": "b", "at": at(300)}),
]


def results(text, records):
    builder = wm.StreamsBuilder("statements")
    handle = builder.sql(text)
    stream = handle if hasattr(handle, "select_key") else handle.to_stream()
    key = {"bigint": "long", "int": "int", "string": "string"}.get(stream.key_type.simpleString(), "json")
    stream.to("out", key=key, value="json")
    with TopologyTestDriver(builder.build()) as driver:
        for ts, (name, key, value) in enumerate(records):
            driver.pipe(name, key=key, value=value, ts=ts)
        return [None if record.value is None else tuple(record.value) for record in driver.read("out")]


def test_the_front_end_imports_public_names_alone():
    public, found = {*wm.__all__, *VOCABULARY}, []
    for file in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            module = getattr(node, "module", None) or ""
            if isinstance(node, ast.ImportFrom) and module.startswith("watersmeet."):
                own = module.startswith("watersmeet.sql")
                found += [(file.name, each.name) for each in node.names if not own and each.name not in public]
    assert found == []


def test_windows_of_a_stream_are_counted_as_they_change_and_once_where_final():
    query = "SELECT page, COUNT(*) AS n FROM TUMBLE(clicks, INTERVAL 1 MINUTE) GROUP BY page, window_start, window_end"
    assert results(f"{STREAMS} {query}", CLICKS) == [("a", 1), ("a", 1), ("b", 1), ("b", 1)]
    assert results(f"{STREAMS} {query} EMIT FINAL", CLICKS) == [("a", 1), ("a", 1), ("b", 1)]


def test_sessions_grow_together():
    query = "SELECT user, COUNT(*) AS n FROM SESSION(clicks, INTERVAL 100 SECONDS) GROUP BY user, window_start"
    assert results(f"{STREAMS} {query}", CLICKS)[-1] == ("ann", 1)


def test_two_streams_meet_in_the_time_that_the_condition_says():
    query = "SELECT c.page, b.amount FROM clicks c JOIN buys b ON c.user = b.user AND b.t BETWEEN c.at AND c.at + " + (
        "INTERVAL 1 MINUTE"
    )
    buy = ("buys", 1, {"user": "ann", "amount": 5, "t": at(80)})
    assert results(f"{STREAMS} {query}", [*CLICKS[:3], buy]) == [("b", 5)]


def test_what_says_how_two_streams_meet_may_stand_in_where():
    query = """
        SELECT c.page, b.amount FROM clicks c, buys b
        WHERE c.user = b.user AND b.t BETWEEN c.at AND c.at + INTERVAL '1' MINUTE AND b.amount > 4
    """
    buys = [("buys", n, {"user": "ann", "amount": n, "t": at(80)}) for n in (4, 5)]
    assert results(f"{STREAMS} {query}", [*CLICKS[:3], *buys]) == [("b", 5)]


def test_an_equality_beside_the_key_of_a_table_filters_the_records_of_a_stream():
    query = "SELECT c.page FROM clicks c JOIN users u ON c.user = u.name AND c.page = u.city"
    users = [("users", "ann", {"city": "a"}), ("users", "bob", {"city": "b"})]
    assert results(f"{STREAMS} {query}", [*users, *CLICKS[:2]]) == [("a",)]


@pytest.mark.parametrize(
    "clause",
    ["tags LATERAL VIEW explode(split(page, ' ')) x AS tag", "tags CROSS JOIN UNNEST(split(page, ' ')) AS x(tag)"],
)
def test_the_elements_of_an_array_are_records_of_a_stream(clause):
    query = f"SELECT user, tag FROM clicks AS {clause} WHERE tag <> 'b'"
    records = [("clicks", "ann", {"page": "a b c", "at": at(0)}), ("clicks", "bob", {"page": None, "at": at(1)})]
    assert results(f"{STREAMS} {query}", records) == [("ann", "a"), ("ann", "c")]
    query = "SELECT EXPLODE(split(page, ' ')) AS tag, user FROM clicks WHERE user = 'ann'"
    assert results(f"{STREAMS} {query}", records) == [("a", "ann"), ("b", "ann"), ("c", "ann")]


def test_partition_by_is_the_key_of_a_stream(spark):
    views = wm.sql(
        spark, f"{STREAMS} CREATE STREAM pages WITH (topic = 'p') AS SELECT user FROM clicks PARTITION BY page"
    )
    with TopologyTestDriver(views.build()) as driver:
        driver.pipe("clicks", key="ann", value={"page": "a", "at": at(0)}, ts=0)
        assert [(record.key, tuple(record.value)) for record in driver.read("p")] == [("a", ("ann",))]


def test_a_subquery_of_a_whole_key_or_of_a_view_of_one_row_is_a_value():
    tables = "CREATE TABLE o (id BIGINT PRIMARY KEY, c STRING); CREATE TABLE c (n STRING PRIMARY KEY, s INT);"
    rows = [("o", 1, {"c": "a"}), ("c", "a", {"s": 5}), ("c", "b", {"s": 7}), ("c", "b", None), ("c", "a", None)]
    query = "SELECT id, (SELECT s FROM c WHERE c.n = o.c) AS s FROM o"
    assert results(f"{tables} {query}", rows) == [(1, None), (1, 5), (1, None)]
    query = "CREATE VIEW m AS SELECT MAX(s) AS s FROM c; SELECT id FROM o WHERE 6 > (SELECT s FROM m)"
    assert results(f"{tables} {query}", rows[:4]) == [None, (1,), None, (1,)]


def test_several_values_may_be_looked_for_together():
    tables = (
        "CREATE TABLE o (id BIGINT PRIMARY KEY, c STRING, p STRING); CREATE TABLE c (n STRING PRIMARY KEY, s STRING);"
    )
    query = "SELECT id FROM o WHERE (c, p) IN (SELECT n, s FROM c)"
    rows = [("c", "a", {"s": "x"}), ("o", 1, {"c": "a", "p": "x"}), ("o", 2, {"c": "a", "p": "y"})]
    assert results(f"{tables} {query}", rows) == [(1,), None]


def test_texts_are_put_together_in_their_order_and_a_variance_is_that_of_spark(spark):
    table = "CREATE TABLE o (id BIGINT PRIMARY KEY, p VARCHAR(9) COMMENT 'p', n INT);"
    query = "SELECT STRING_AGG(p, '-') AS p, ANY_VALUE(p) AS a, VARIANCE(n) AS v FROM o"
    rows = [("o", number, {"p": p, "n": n}) for number, (p, n) in enumerate([("b", 1), (None, 2), ("a", 4)])]
    (batch,) = (
        spark.sql(
            "SELECT listagg(p, '-') WITHIN GROUP (ORDER BY p), any_value(p, true) IS NOT NULL, variance(n) "
            "FROM VALUES ('b', 1), (NULL, 2), ('a', 4) AS o(p, n)"
        ).collect()
        if spark.version >= "4"
        else [("a-b", True, 7 / 3)]
    )
    text, _, variance = results(f"{table} {query}", rows)[-1]
    assert (text, variance) == (batch[0], pytest.approx(batch[2]))
    assert results(f"{table} {query}", [("o", 1, {"p": None, "n": 1})]) == [(None, None, None)]


def test_a_stream_sees_a_table_as_of_its_time():
    query = "SELECT c.page, u.city FROM clicks c LEFT JOIN users FOR SYSTEM_TIME AS OF c.at AS u ON c.user = u.name"
    assert results(f"{STREAMS} {query}", CLICKS[:2]) == [("a", None), ("a", None)]


def test_the_first_rows_of_each_group_follow_changes():
    table = "CREATE TABLE o (id BIGINT PRIMARY KEY, c STRING, n INT);"
    query = "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY c ORDER BY n DESC) AS r FROM o) t WHERE r <= 1"
    rows = [("o", number, {"c": "a", "n": number}) for number in (1, 3, 2)]
    assert results(table + query, [*rows, ("o", 3, None)]) == [(1,), (3,), (3,), (2,)]


def test_a_column_that_is_never_null_may_be_a_group_of_null_in_an_outer_join():
    tables = "CREATE TABLE o (id BIGINT PRIMARY KEY, c STRING); CREATE TABLE c (n STRING PRIMARY KEY, s INT NOT NULL);"
    query = "SELECT c.s, COUNT(*) AS n FROM o LEFT JOIN c ON o.c = c.n GROUP BY c.s"
    rows = [("o", 1, {"c": "a"}), ("c", "a", {"s": 5})]
    assert results(f"{tables} {query}", rows[:1]) == [(None, 1)]
    assert results(f"{tables} {query}", rows)[1:] == [None, (5, 1)]


def test_a_subquery_with_a_further_condition_meets_rows_of_an_outer_join_without_a_partner():
    tables = "CREATE TABLE o (id BIGINT PRIMARY KEY, c STRING); CREATE TABLE c (n STRING PRIMARY KEY, s STRING);"
    joined = "SELECT o.id FROM o LEFT JOIN c ON o.c = c.s"
    query = f"{joined} WHERE NOT EXISTS (SELECT 1 FROM c d WHERE d.n = o.c AND o.id > 0)"
    assert results(f"{tables} {query}", [("o", 1, {"c": "a"}), ("c", "a", {"s": "z"})]) == [(1,), None]


def test_a_dropped_statement_is_as_if_it_were_not_written(spark):
    views = wm.sql(
        spark,
        "CREATE TABLE o (id BIGINT PRIMARY KEY, n INT); CREATE TABLE a WITH (topic = 'a') AS SELECT id, n FROM o;"
        "CREATE TABLE IF NOT EXISTS o (id BIGINT PRIMARY KEY, m INT); DROP TABLE a; DROP VIEW IF EXISTS b;"
        "CREATE TABLE b WITH (topic = 'b') AS SELECT id, n + 1 AS n FROM o",
    )
    explained = views.explain("b")
    assert explained.key == ("id",)
    assert explained.columns == {"id": "bigint", "n": "int"}
    assert [sink.output for sink in views.build().plan.sinks] == ["b"]


def test_sql_and_python_mix(spark):
    builder = wm.StreamsBuilder("mixed")
    orders = builder.table("orders", key="long", value=wm.json("customer string, n int"))
    counted = builder.sql(
        "SELECT customer, SUM(n) AS n FROM big GROUP BY customer", big=orders.filter(lambda o: o["n"] > 1)
    )
    counted.filter(lambda row: row["n"] > 3).to("out", value="json", key="json")
    with TopologyTestDriver(builder.build()) as driver:
        driver.pipe("orders", key=1, value={"customer": "ann", "n": 4}, ts=0)
        driver.pipe("orders", key=2, value={"customer": "ann", "n": 1}, ts=0)
        assert [tuple(record.value) for record in driver.read("out")] == [("ann", 4)]


def test_a_row_that_is_deleted_is_gone_from_a_join_by_key_of_its_table_with_itself():
    text = """
        CREATE TABLE staff (name STRING PRIMARY KEY, city STRING, boss STRING);
        SELECT a.name, a.city, b.boss FROM staff a JOIN staff b ON a.name = b.name
    """
    row = {"city": "Bern", "boss": "eve"}
    assert results(text, [("staff", "ann", row), ("staff", "ann", None)])[-1] is None


def test_explain_tells_the_key_the_columns_and_what_is_kept_for_how_long(spark):
    builder = wm.StreamsBuilder("explained")
    builder.sql(STREAMS)
    query = """
        SELECT c.page, u.city, COUNT(*) AS n FROM TUMBLE(clicks, INTERVAL 1 MINUTE, INTERVAL 5 SECONDS) c
        JOIN users FOR SYSTEM_TIME AS OF c.at AS u ON c.user = u.name WHERE c.page <> ';'
        GROUP BY c.page, u.city, window_start, window_end EMIT FINAL
    """
    text = str(builder.sql(f"EXPLAIN {query}"))
    assert text.startswith("key: page, city, (window_start), (window_end)\ncolumns:\n  page: string\n  city: string\n")
    assert ": versions for 1 day of stream time behind the next one, and the latest one of each key\n" in text
    assert ": windows for 1 minute 5 seconds of stream time\n" in text


def test_explain_takes_a_name_and_a_declaration(spark):
    builder = wm.StreamsBuilder("explained")
    builder.sql(STREAMS)
    declared = builder.sql("EXPLAIN CREATE MATERIALIZED VIEW n AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page")
    assert declared.key == ("page",)
    assert "a row for each key, without end" in str(builder.sql("explain n"))
    assert builder.sql("EXPLAIN PLAN FOR SELECT page FROM clicks").key == ("(user)",)


def test_each_format_of_a_topic_is_read_and_written_by_its_options(spark, tmp_path):
    files = descriptor_pb2.FileDescriptorSet()
    for module in (source_context_pb2, any_pb2, type_pb2, api_pb2):
        files.file.add().ParseFromString(module.DESCRIPTOR.serialized_pb)
    (tmp_path / "api.desc").write_bytes(files.SerializeToString())
    (tmp_path / "order.avsc").write_text(
        '{"type": "record", "name": "O", "fields": [{"name": "root", "type": "string"}]}'
    )
    (tmp_path / "order.json").write_text('{"type": "object", "properties": {"name": {"type": "string"}}}')
    protobuf = f"format = 'protobuf', schema = '{tmp_path}/api.desc', message = 'google.protobuf.Mixin'"
    views = wm.sql(
        spark,
        f"""
        CREATE TABLE mixins (id BIGINT PRIMARY KEY, name STRING, root STRING) WITH ({protobuf}, ttl = '1 day');
        CREATE TABLE again WITH ({protobuf}) AS SELECT id, name, root FROM mixins;
        CREATE TABLE roots WITH (format = 'avro', schema = '{tmp_path}/order.avsc') AS SELECT id, root FROM mixins;
        CREATE TABLE names WITH (format = 'json-schema', schema = '{tmp_path}/order.json', validate = false)
            AS SELECT id, name FROM mixins;
        CREATE TABLE files WITH (path = '{tmp_path}/out', format = 'json', 'option.compression' = 'gzip')
            AS SELECT id, name FROM mixins;
        """,
    )
    with TopologyTestDriver(views.build()) as driver:
        driver.pipe("mixins", key=1, value={"name": "a", "root": "r"}, ts=0)
        found = {
            name: [record.value and tuple(record.value) for record in driver.read(name)]
            for name in ("again", "roots", "names")
        }
    assert found == {"again": [("a", "r")], "roots": [("r",)], "names": [("a",)]}


def test_the_keys_of_windows_are_written_and_read_as_kafka_streams_has_them(spark):
    views = wm.sql(
        spark,
        f"""{STREAMS}
        CREATE TABLE hours WITH (topic = 'hours', key_format = 'time_windowed') AS
            SELECT page, COUNT(*) AS n FROM HOP(clicks, INTERVAL 1 MINUTE, INTERVAL 2 MINUTES)
            GROUP BY page, window_start;
        """,
    )
    with TopologyTestDriver(views.build()) as driver:
        for name, key, value in CLICKS[:1]:
            driver.pipe(name, key=key, value=value, ts=0)
        start = int(at(0).timestamp() * 1000)
        keys = [
            (record.key.key.page, record.key.start - start, record.key.end - start) for record in driver.read("hours")
        ]
    assert keys == [("a", -60_000, 60_000), ("a", 0, 120_000)]
    builder = wm.StreamsBuilder("read")
    key = "w STRUCT<key: STRING, start: BIGINT, end: BIGINT> PRIMARY KEY"
    options = "WITH (key_format = 'time_windowed', window_size = '2 minutes')"
    table = builder.sql(f"CREATE TABLE hours ({key}, n BIGINT) {options}; SELECT w.key AS page, n FROM hours")
    assert table.value_type.simpleString() == "struct<page:string,n:bigint>"


def test_what_ksqldb_flink_and_duckdb_write_alike_is_taken(spark):
    builder = wm.StreamsBuilder("alike")
    builder.sql(STREAMS)
    builder.sql("CREATE TABLE o (id BIGINT, c STRING, n INT, PRIMARY KEY (id) NOT ENFORCED) WITH (topic = 'o')")
    builder.sql("CREATE VIEW v (a, b) AS SELECT id, n FROM o")
    columns = {
        "SELECT c, SUM(n) AS n FROM o GROUP BY ALL": ["c", "n"],
        "SELECT * EXCLUDE (n) FROM o": ["id", "c"],
        "SELECT id, n::BIGINT AS k FROM o": ["id", "k"],
        "FROM o": ["id", "c", "n"],
        "SELECT id FROM o ORDER BY n FETCH FIRST 3 ROWS ONLY": ["id"],
        "SELECT COUNT(*) AS n FROM HOP(clicks, at, INTERVAL '1 minute', INTERVAL '5 minutes') GROUP BY window_end": [
            "n"
        ],
        "DROP STREAM IF EXISTS z; CREATE TABLE z (id INT PRIMARY KEY, n INT) WITH (format = 'JSON'); FROM z": [
            "id",
            "n",
        ],
        "SELECT b FROM v": ["b"],
        "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(at), INTERVAL '10' MINUTES)) "
        "GROUP BY window_start, window_end": ["window_start", "n"],
    }
    assert {query: builder.sql(query).value_type.names for query in columns} == columns
