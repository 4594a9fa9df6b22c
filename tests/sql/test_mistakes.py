"""Mistakes in SQL: each is refused on its place in the text, with a reason and with what to write instead."""

from __future__ import annotations

import re

import pytest

import watersmeet as wm

pytestmark = pytest.mark.spark
TABLES = """
    CREATE TABLE o (id BIGINT PRIMARY KEY, c STRING, p STRING, n INT, at TIMESTAMP, s STRUCT<a: INT>);
    CREATE TABLE c (name STRING PRIMARY KEY, city STRING NOT NULL, k BIGINT);
    CREATE TABLE b (x BIGINT, y STRING, z INT, PRIMARY KEY (x, y));
    CREATE STREAM e (id BIGINT PRIMARY KEY, u STRING, n INT, at TIMESTAMP) WITH (timestamp = 'at');
    CREATE STREAM f (id BIGINT PRIMARY KEY, u STRING, t TIMESTAMP) WITH (timestamp = 't');
"""
MISTAKES = {
    "SELEC id FROM o": "no statement|no SQL",
    "SELECT id FROM": "no SQL",
    "SELECT id, FROM o WHERE": "no SQL",
    "SELECT (id FROM o": "no SQL",
    "SELECT 'a FROM o": "cannot be read",
    "INSERT INTO o VALUES (1)": "no statement",
    "DELETE FROM o": "no statement",
    "UPDATE o SET n = 1": "no statement",
    "EXPLAIN": "no query",
    "SELECT id FROM o EMIT LATER": "EMIT LATER",
    "SELECT id FROM oo": "no table, view or stream oo",
    "SELECT idd FROM o": "no column idd",
    "SELECT x.id FROM o": "no column x.id",
    "SELECT o.idd FROM o": "no column o.idd",
    "SELECT o.id FROM o a": "no column o.id",
    "SELECT s.b FROM o": "Spark does not take",
    "SELECT n FROM o JOIN e ON o.id = e.id": "stream",
    "SELECT name FROM c JOIN c ON c.name = c.name": "Two tables are called c",
    "SELECT k FROM c a JOIN c d ON a.name = d.name": "ambiguous",
    "SELECT id, id FROM o": "Two columns are called id",
    "SELECT nosuch(id) FROM o": "Spark does not take",
    "SELECT id + s FROM o": "Spark does not take",
    "SELECT UPPER() FROM o": "no SQL|Spark does not take",
    "SELECT CAST(id AS NOTYPE) FROM o": "Spark does not take|no SQL",
    "SELECT id FROM o WHERE s > 1": "Spark does not take",
    "SELECT id FROM o WHERE n": "",
    "SELECT 1": "no FROM",
    "SELECT id FROM o ORDER BY id": "ORDER BY without LIMIT",
    "SELECT id FROM o LIMIT 3": "LIMIT needs ORDER BY",
    "SELECT id FROM o ORDER BY id LIMIT n": "LIMIT takes a number",
    "SELECT id FROM o ORDER BY id LIMIT 3 OFFSET 2": "OFFSET",
    "SELECT c, n FROM o GROUP BY c": "neither grouped nor aggregated",
    "SELECT c, SUM(n) FROM o": "neither grouped nor aggregated",
    "SELECT * FROM o GROUP BY c": "neither grouped nor aggregated",
    "SELECT c FROM o HAVING n > 1": "HAVING without groups",
    "SELECT c, SUM(SUM(n)) FROM o GROUP BY c": "aggregate of an aggregate",
    "SELECT c FROM o WHERE SUM(n) > 1": "",
    "SELECT SUM(n) FROM o GROUP BY SUM(n)": "no aggregate",
    "SELECT c FROM o GROUP BY 3": "no column 3",
    "SELECT SUM(DISTINCT n) FROM o": "DISTINCT",
    "SELECT FIRST(n) FROM o": "no order",
    "SELECT APPROX_COUNT_DISTINCT(n) FROM o": "is not taken",
    "SELECT VAR_POP(n) FROM o": "is not taken.*VARIANCE",
    "SELECT MAX_BY(n) FROM o": "",
    "SELECT SUM(s) FROM o": "",
    "SELECT c FROM o GROUP BY CUBE (c)": "several groupings",
    "SELECT c FROM o GROUP BY ROLLUP (c)": "several groupings",
    "SELECT c FROM o GROUP BY GROUPING SETS ((c), ())": "several groupings",
    "SELECT o.id FROM o JOIN c ON o.n > c.k": "no equality",
    "SELECT o.id FROM o, c": "no equality",
    "SELECT o.id FROM o CROSS JOIN c": "no equality",
    "SELECT o.id FROM o LEFT JOIN c ON o.n > c.k": "no equality",
    "SELECT o.id FROM o JOIN c ON o.id = c.name": "never equal",
    "SELECT o.id FROM o JOIN c ON o.c = c.k": "never equal",
    "SELECT o.id FROM o LEFT JOIN c ON o.id = c.k AND o.c < c.city": "condition on both sides",
    "SELECT o.id FROM o FULL JOIN c ON o.id = c.k AND o.c < c.city": "condition on both sides",
    "SELECT o.id FROM o LEFT SEMI JOIN c ON o.c > c.name": "needs equalities",
    "SELECT o.id FROM o NATURAL JOIN c": "NATURAL",
    "SELECT o.id FROM o JOIN c USING (nosuch)": "nosuch",
    "SELECT o.id FROM o LATERAL VIEW explode(array(1)) t AS x": "take an array of a stream",
    "SELECT id, t FROM e LATERAL VIEW OUTER explode(array(1)) x AS t": "one column",
    "SELECT id FROM o WHERE c NOT IN (SELECT name FROM c)": "NOT IN",
    "SELECT id FROM o WHERE c IN (SELECT name, city FROM c)": "one column",
    "SELECT id FROM o WHERE id IN (SELECT name FROM c)": "never equal",
    "SELECT id FROM o WHERE EXISTS (SELECT 1 FROM c)": "no equality",
    "SELECT id FROM o WHERE n > (SELECT k FROM c)": "several rows",
    "SELECT id FROM o WHERE n > (SELECT MAX(k), 1 FROM c)": "one column",
    "SELECT id FROM o WHERE n > (SELECT MAX(k) FROM c GROUP BY city)": "several rows",
    "SELECT id FROM o WHERE n > (SELECT MAX(k) FROM c WHERE c.k < o.n)": "equalities alone",
    "SELECT id FROM o UNION SELECT name FROM c": "Column 1",
    "SELECT id, n FROM o UNION SELECT k FROM c": "2 columns on the left",
    "SELECT id FROM o INTERSECT ALL SELECT k FROM c": "INTERSECT ALL",
    "SELECT id FROM e UNION ALL SELECT id FROM o": "a stream and a table",
    "SELECT id FROM e UNION SELECT id FROM f": "no duplicates",
    "SELECT id, ROW_NUMBER() OVER (ORDER BY n) AS r FROM o": "no bound",
    "SELECT id FROM (SELECT id, RANK() OVER (ORDER BY n) AS r FROM o) t WHERE r < 3": "window function",
    "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY c) AS r FROM o) t WHERE r < 3": "no order",
    "SELECT id, SUM(n) OVER (ORDER BY id) AS r FROM o": "window function",
    "SELECT id, 1 + ROW_NUMBER() OVER (ORDER BY n) AS r FROM o": "within an expression",
    "WITH RECURSIVE t AS (SELECT id FROM o) SELECT id FROM t": "RECURSIVE",
    "SELECT DISTINCT u FROM e": "has no end",
    "SELECT u, COUNT(*) FROM e GROUP BY u, window(at, '1 hour')": "windows are made",
    "SELECT id FROM TUMBLE(o, INTERVAL 1 HOUR)": "takes a stream",
    "SELECT u FROM TUMBLE(e)": "takes 1 length",
    "SELECT u FROM HOP(e, INTERVAL 1 HOUR)": "takes 2 lengths",
    "SELECT u FROM TUMBLE(e, INTERVAL 1 MONTH)": "no length of time",
    "SELECT u FROM TUMBLE(TABLE e, DESCRIPTOR(n), INTERVAL 1 HOUR)": "stream's time",
    "SELECT u FROM CUMULATE(e, INTERVAL 1 HOUR)": "not taken in FROM",
    "SELECT e.id FROM e JOIN f ON e.u = f.u": "both bounds",
    "SELECT e.id FROM e JOIN f ON e.u = f.u AND f.t > e.at": "both bounds",
    "SELECT e.id FROM e JOIN c ON e.id = c.k": "by their key",
    "SELECT e.id FROM e RIGHT JOIN c ON e.u = c.name": "RIGHT JOIN",
    "SELECT e.id FROM e JOIN c FOR SYSTEM_TIME AS OF e.at ON e.u = c.name": "no history",
    "CREATE TABLE t (id BIGINT, n INT)": "PRIMARY KEY",
    "CREATE TABLE t (id BIGINT PRIMARY KEY)": "no column",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n NOTYPE)": "type|no SQL",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT, n INT)": "Two columns",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT DEFAULT 3)": "constraint",
    "CREATE TABLE t (id BIGINT, n INT, PRIMARY KEY (x))": "names x",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (topik = 'a')": "topik",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (format = 'xml')": "xml",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (timestamp = 'x')": "no column",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (topic = '${NO_SUCH_VARIABLE}')": "no variable",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT, m INT) WITH (format = 'long')": "one column",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (path = '/data')": "have a time",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (history = 'soon')": "",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (topic = 'a', topic = 'b')": "stands twice",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (topic 'a')": "a name, = and a text",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH ()": "a name, = and a text",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (KAFKA_TOPIC = 'a')": "Write topic =",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH ('connector' = 'kafka', topic = 'a')": "Leave it out",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (format = 'json', version = 3)": "'json' has no option version",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (format = 'protobuf')": "name of a message",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (format = 'protobuf', message = 'no_such:A')": "is not there",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (format = 'avro', schema = 'nix.avsc')": "cannot be read",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (format = 'long')": "is bigint in the value's format",
    """CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (format = 'json-schema',
        schema = '{"type": "object", "properties": {"m": {"type": "integer"}}}')""": "has no column n.*schema has m",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (key_format = 'time_windowed')": "the key of a window",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (changes = true)": "table of a catalog",
    "CREATE TABLE t WITH (format = 'debezium') AS SELECT id FROM o": "read, not written",
    "EXPLAIN nosuch": "no table, view or stream nosuch",
    "CREATE TABLE o (id BIGINT PRIMARY KEY, n INT)": "already",
    "CREATE VIEW v AS SELECT id FROM o; CREATE VIEW v AS SELECT id FROM o": "already",
    "CREATE VIEW v": "no query|no SQL",
    "CREATE INDEX i ON o (id)": "INDEX|not taken|no SQL",
    "CREATE STREAM t WITH (topic = 't') AS SELECT id FROM o": "gives a table",
    "CREATE TABLE t WITH (topic = 't') AS SELECT id FROM e": "gives a stream",
    "CREATE TABLE t WITH (topic = 't', url = 'sqlite:////x.db') AS SELECT id FROM o": "one place",
    "DROP TABLE nosuch": "not there",
    "DROP TABLE o": "already has",
    # as users of ksqlDB write it
    "CREATE STREAM k (r VARCHAR KEY, v VARCHAR) WITH (topic = 'x')": "Write PRIMARY KEY",
    "CREATE SOURCE TABLE k (r VARCHAR PRIMARY KEY, v INT) WITH (topic = 'x')": "SOURCE TABLE is not taken",
    "SELECT u, COUNT(*) FROM e WINDOW TUMBLING (SIZE 20 SECONDS) GROUP BY u EMIT CHANGES": "FROM TUMBLE",
    "SELECT u, COUNT(*) FROM e WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES) GROUP BY u": "HOP",
    "SELECT u, COUNT(*) FROM e WINDOW SESSION (300 SECONDS) GROUP BY u": "SESSION",
    "SELECT e.id FROM e JOIN f WITHIN 1 HOUR ON e.u = f.u": "WITHIN is not taken.*BETWEEN",
    "SELECT e.id FROM e JOIN f WITHIN 7 DAYS GRACE PERIOD 1 DAY ON e.u = f.u": "WITHIN is not taken",
    "SELECT c, n FROM o PARTITION BY c": "PARTITION BY takes a stream.*Leave it out",
    "SELECT window_start, SUM(n) AS n FROM SESSION(TABLE e PARTITION BY u, DESCRIPTOR(at), INTERVAL '1' HOUR)": (
        "PARTITION BY.*GROUP BY"
    ),
    "SELECT u, COUNT(*) AS n FROM e GROUP BY u EMIT FINAL": "EMIT FINAL needs a window",
    "SELECT id FROM e LIMIT 3": "a stream has no end",
    "SELECT u, HISTOGRAM(n) AS n FROM e GROUP BY u": r"COUNT\(\*\)",
    "SELECT EXTRACTJSONFIELD(u, '$.a') AS a FROM e": "GET_JSON_OBJECT",
    "CREATE SOURCE CONNECTOR x WITH ('connector.class' = 'y')": "CREATE SOURCE is not taken",
    "CREATE STREAM k WITH (topic = 'x', key = 'u') AS SELECT u, n FROM e": "PARTITION BY k",
    "SELECT u, LATEST_BY_OFFSET(n) AS n FROM e GROUP BY u": "Write LAST",
    "SELECT u, TOPK(n, 3) AS n FROM e GROUP BY u": "TOP_K",
    "SELECT ROWTIME, id FROM e": "no column ROWTIME.*timestamp",
    "SELECT id, s->a AS a FROM o": "with a point",
    "SELECT * FROM e EMIT CHANGES LIMIT 5": "no LIMIT",
    "INSERT INTO k SELECT id FROM e": "INSERT is no statement.*UNION ALL",
    "PRINT 'topic' FROM BEGINNING": "PRINT is no statement.*shell",
    "SET 'auto.offset.reset' = 'earliest'": "SET is no statement.*run.toml",
    "TERMINATE q": "TERMINATE is no statement",
    # of Flink SQL
    "CREATE TABLE t (at TIMESTAMP(3), n INT, WATERMARK FOR at AS at - INTERVAL '5' SECOND) WITH (topic = 't')": (
        "timestamp = 'at'"
    ),
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT METADATA FROM 'offset') WITH (topic = 't')": "METADATA",
    "SELECT SUM(n) AS s FROM TABLE(TUMBLE(DATA => TABLE e, SIZE => INTERVAL '1' DAY)) GROUP BY window_end": "no names",
    "SELECT SUM(n) AS s FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(at), INTERVAL 1 HOUR)) GROUP BY u": "CUMULATE is not",
    "SELECT TUMBLE_START(at, INTERVAL '1' DAY) AS s, SUM(n) AS n FROM e GROUP BY TUMBLE(at, INTERVAL '1' DAY)": (
        "not taken.*FROM TUMBLE"
    ),
    "SELECT e.id FROM e, LATERAL TABLE(split(u)) AS T(word)": "LATERAL is not taken",
    "SELECT e.id FROM e CROSS JOIN UNNEST(split(u, ' '))": "needs a name",
    "SELECT id, MAX(n) OVER (PARTITION BY c ORDER BY at ROWS 3 PRECEDING) AS m FROM o": "window function",
    "SELECT * FROM e MATCH_RECOGNIZE (PARTITION BY u ORDER BY at MEASURES A.n AS n PATTERN (A) DEFINE A AS n > 1) t": (
        "MATCH_RECOGNIZE is not taken|no SQL"
    ),
    "CREATE TABLE t (id BIGINT PRIMARY KEY, b BYTES)": "Write BINARY",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, b ROW<a INT>)": "Write STRUCT",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (format = 'debezium-json')": "Write format = 'debezium'",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) WITH (url = 'postgresql://x/y')": "read from a topic",
    "CREATE TABLE t (c STRING PRIMARY KEY, n BIGINT) WITH (topic = 't') AS SELECT c, n FROM o": "names without types",
    "CREATE SINK s FROM o WITH (topic = 't')": "CREATE SINK is not taken",
    "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY u ORDER BY at DESC) AS r FROM e) WHERE r = 1": "MAX_BY",
    "BEGIN STATEMENT SET; END": "all statements of a file are one query",
    "ALTER TABLE o ADD COLUMN z INT": "ALTER is no statement.*--evolve",
    # of Spark SQL
    "SELECT explode(array(1, 2)) AS x FROM o": "take an array of a stream",
    "SELECT size(explode(array(1, 2))) AS x FROM e": "within an expression",
    "SELECT id, NOW() AS t FROM o": "NOW gives another value",
    "SELECT id FROM o WHERE at > CURRENT_TIMESTAMP - INTERVAL 1 HOUR": "another value.*ttl",
    "SELECT id, RAND() AS r FROM o": "another value.*xxhash64",
    'SELECT id FROM o WHERE "c" = 1': "is a text.*`c`",
    "SELECT c, ARRAY_AGG(p ORDER BY n) AS p FROM o GROUP BY c": "no ORDER BY",
    "CREATE FUNCTION f AS 'x'": "CREATE FUNCTION is not taken",
    "CREATE SCHEMA x": "CREATE SCHEMA is not taken",
    "CREATE TABLE t USING parquet AS SELECT id FROM o": "USING is not taken",
    "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT) PARTITIONED BY (n)": "PARTITIONED is not taken",
    "CREATE TEMPORARY VIEW t AS SELECT id FROM o": "TEMPORARY is not taken",
    "CREATE VIEW t (a, b) AS SELECT id FROM o": "1 columns, and 2 are named",
    "SELECT * FROM o TABLESAMPLE (10 PERCENT)": "TABLESAMPLE",
    "SELECT id FROM o VERSION AS OF 3": "AS OF is not taken",
    "SELECT id FROM o JOIN c FOR SYSTEM_TIME AS OF o.at ON o.c = c.name": "AS OF is not taken",
    "SELECT * FROM range(10)": "not taken in FROM",
    "SHOW TABLES": "SHOW is no statement.*shell",
    "DESCRIBE o": "DESCRIBE is no statement.*EXPLAIN name",
    "MERGE INTO o USING c ON o.c = c.name WHEN MATCHED THEN DELETE": "MERGE is no statement",
    # what was dropped without a word
    "SELECT * FROM o PIVOT (SUM(n) FOR c IN ('a'))": "PIVOT is not taken",
    "SELECT * FROM (SELECT c, n FROM o) PIVOT (SUM(n) FOR c IN ('a'))": "PIVOT is not taken",
    "SELECT * FROM (SELECT id FROM o) TABLESAMPLE (10 PERCENT)": "SAMPLE is not taken.*hash",
    "SELECT * FROM (o JOIN c ON o.c = c.name)": "JOIN is not taken|no query",
    "SELECT id FROM other.o": "DB is not taken.*alone",
    "SELECT id FROM o ORDER BY id FETCH FIRST 2 ROWS WITH TIES": "WITH TIES is not taken",
    "SELECT id FROM o UNION ALL SELECT k FROM c LIMIT 1": "LIMIT needs ORDER BY",
    "SELECT id FROM o UNION ALL SELECT k FROM c ORDER BY id": "ORDER BY without LIMIT",
    "SELECT id FROM o UNION ALL SELECT k FROM c ORDER BY id LIMIT 2 OFFSET 1": "OFFSET is not taken",
    "SELECT id FROM e UNION ALL SELECT id FROM f LIMIT 1": "a stream has no end",
    "SELECT a FROM o AS t(a, b)": "6 columns, and 2 are named",
    "SELECT a FROM (SELECT id, n FROM o) AS t(a, a)": "stands twice",
    "WITH t(a) AS (SELECT id, n FROM o) SELECT a FROM t": "2 columns, and 1 are named",
    "SELECT o.id FROM o JOIN (SELECT id, ROW_NUMBER() OVER (ORDER BY n) AS k FROM o) b ON o.id = b.id WHERE o.n < 3": (
        "no bound"
    ),
    "SELECT id, ROW_NUMBER() OVER (ORDER BY n ROWS 3 PRECEDING) AS k FROM o QUALIFY k < 3": "no frame",
    "SELECT id, ROW_NUMBER() OVER (ORDER BY n) AS k FROM o QUALIFY ROW_NUMBER() OVER (ORDER BY c) < 3": "two window",
    "SELECT id FROM o WHERE EXISTS (SELECT 1 FROM c WHERE c.name = o.c LIMIT 0)": "leaves no row",
    "SELECT id FROM o WHERE id IN (SELECT ROW_NUMBER() OVER (ORDER BY k) FROM c)": "no bound",
    "SELECT id FROM o WHERE n > (SELECT MAX(k) FROM c HAVING COUNT(*) > 1)": "several rows.*HAVING",
    "SELECT DISTINCT c FROM o ORDER BY n LIMIT 3": "takes what is selected",
    "SELECT c, PERCENTILE(n, ARRAY(0.5, 0.9)) AS p FROM o GROUP BY c": "PERCENTILE takes a number",
    "SELECT c, PERCENTILE(n, 0.5 + 0.1) AS p FROM o GROUP BY c": "PERCENTILE takes a number",
    "SELECT c, TOP_K(n, id) AS p FROM o GROUP BY c": "TOP_K takes a number",
    # of DuckDB
    "SELECT * REPLACE (n + 1 AS n) FROM o": "REPLACE is not taken.*EXCEPT",
    "SELECT id FROM o UNION BY NAME SELECT k AS id FROM c": "BY NAME",
    "SELECT DISTINCT ON (c) c, n FROM o": "DISTINCT ON.*ROW_NUMBER",
    "SELECT e.id FROM e ASOF JOIN f ON e.u = f.u AND e.at >= f.t": "ASOF JOIN is not taken",
    "SELECT e.id FROM e LEFT SEMI JOIN c ON e.u = c.name": "no SEMI JOIN",
    "SELECT o.id FROM o ASOF JOIN c ON o.c = c.name": "FOR SYSTEM_TIME AS OF",
    "SELECT id FROM o WHERE n > ALL (SELECT z FROM b)": "ALL of a subquery.*EXISTS",
    "SELECT id FROM o WHERE n = ANY (SELECT z FROM b)": "ANY of a subquery.*IN",
    "SELECT c, string_agg(p, ',' ORDER BY n) AS p FROM o GROUP BY c": "no ORDER BY",
    "SELECT id, (SELECT city FROM c WHERE c.k = o.id) AS city FROM o": "may have several rows",
    "SELECT id FROM o WHERE (c, p) IN (SELECT name FROM c)": "2 columns",
    "PIVOT o ON c USING SUM(n)": "PIVOT is no statement.*CASE",
    "SELECT * FROM read_parquet('f.parquet')": "not taken in FROM",
}


@pytest.fixture(scope="module")
def builder(spark):
    made = wm.StreamsBuilder("mistakes")
    made.sql(TABLES)
    return made


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_refused_on_its_place_with_a_reason_and_a_cure(builder, text):
    with pytest.raises(wm.SqlError, match=f"(?is){MISTAKES[text]}") as caught:
        builder.sql(text)
    message = str(caught.value)
    place = re.search(r"line (\d+), column (\d+):\n  (.*)\n  ( *)\^", message)
    assert place is not None, message
    line, column, shown, space = int(place[1]), int(place[2]), place[3], place[4]
    assert shown == text.split("\n")[line - 1]
    assert len(space) == column - 1 <= len(shown)
    assert "\nHint: " in message


def test_there_are_more_than_a_hundred_and_fifty_mistakes():
    assert len(MISTAKES) > 150


def test_what_a_text_names_is_a_handle_of_its_builder(builder):
    other = wm.StreamsBuilder("other").stream("s", key="string", value="string")
    for handle in (3, other):
        with pytest.raises(wm.SqlError, match="handle is no stream or table of this builder"):
            builder.sql("SELECT * FROM handle", handle=handle)


def test_the_caret_stands_under_the_word_that_is_wrong(builder):
    with pytest.raises(wm.SqlError) as caught:
        builder.sql("SELECT id,\n       amont\nFROM o")
    assert "line 2, column 8:\n         amont\n         ^" in str(caught.value)
