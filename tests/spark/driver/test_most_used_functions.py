"""The functions of `pyspark.sql.functions` that programs use most (some 170), and which a level evaluates.

`python -m tests.spark.driver.test_most_used_functions` writes them into docs/functions.md.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pyspark.sql.functions
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.functions.kernel_kit import read, settings

PAGE = Path(__file__).parents[3] / "docs" / "functions.md"
BEGIN, END = "<!-- most used: written by a test -->\n", "<!-- end of most used -->\n"
SCHEMA = """t string, u string, i int, l long, d double, n decimal(10, 2), o boolean, y binary, ts timestamp, day date,
    a array<string>, ia array<int>, aa array<array<string>>, m map<string, int>, st struct<i: int, t: string>"""
# a name, and, behind a colon, calls of it where those of one column of text do not say it
USED = {
    "conditions": """
        when: case when o then t else u end | coalesce: coalesce(t, u) | isnull | isnotnull | isnan: isnan(d) | nvl:
        nvl(t, u) | ifnull: ifnull(t, u) | nullif: nullif(t, u) | nanvl: nanvl(d, 0.0D) | greatest: greatest(i, l) |
        least: least(i, l) | raise_error
    """,
    "texts": """
        upper | lower | initcap | trim | ltrim | rtrim | length | char_length | concat: concat(t, u) | concat_ws:
        concat_ws('-', t, u) | substring: substring(t, 2, 3) | substring_index: substring_index(t, ',', 1) | left:
        left(t, 2) | right: right(t, 2) | lpad: lpad(t, 8, '0') | rpad: rpad(t, 8, ' ') | instr: instr(t, 'a') |
        locate: locate('a', t) | replace: replace(t, 'a', 'b') | translate: translate(t, 'ab', 'xy') | reverse |
        repeat: repeat(t, 2) | startswith: startswith(t, 'a') | endswith: endswith(t, 'a') | contains: contains(t,
        'a') | like: t like 'a%' | ilike: t ilike 'A%' | split: split(t, ',') | split_part: split_part(t, ',', 1) |
        format_string: format_string('%s %d', t, i); format_string('%.2f', d) | format_number: format_number(d, 2) |
        ascii | levenshtein: levenshtein(t, u) | soundex | overlay: overlay(t placing 'x' from 2) | encode:
        encode(t, 'utf-8') | decode: decode(y, 'utf-8') | base64: base64(y) | unbase64 | hex | unhex | md5 | sha1 |
        sha2: sha2(t, 256) | crc32 | hash: hash(t, i) | xxhash64: xxhash64(t, i) | url_decode | parse_url:
        parse_url(t, 'HOST')
    """,
    "regular expressions": """
        rlike: t rlike '^a' | regexp_extract: regexp_extract(t, '([a-z]+)', 1) | regexp_extract_all:
        regexp_extract_all(t, '([a-z]+)', 1) | regexp_replace: regexp_replace(t, '[0-9]+', 'x') | regexp_count:
        regexp_count(t, 'a')
    """,
    "numbers": """
        abs: abs(d) | ceil: ceil(d) | floor: floor(d) | round: round(n, 1); round(d); round(d, 2) | bround:
        bround(n, 1); bround(d, 1) | rint: rint(d) | sqrt: sqrt(d) | signum: signum(d) | pmod: pmod(i, 3) | pow:
        pow(d, 2) | exp: exp(d) | log: log(d) | log10: log10(d) | log2: log2(d) | log1p: log1p(d) | cbrt: cbrt(d) |
        sin: sin(d) | cos: cos(d) | tan: tan(d) | asin: asin(d) | acos: acos(d) | atan2: atan2(d, d) | radians:
        radians(d) | degrees: degrees(d) | factorial: factorial(i) | bin: bin(l) | conv: conv(t, 10, 16) |
        try_divide: try_divide(d, d)
    """,
    "dates and times": """
        to_date: to_date(t); to_date(t, 'dd/MM/yyyy') | to_timestamp: to_timestamp(day); to_timestamp(t);
        to_timestamp(t, 'yyyy-MM-dd HH:mm:ss') | date_format: date_format(ts, 'yyyy-MM-dd'); date_format(ts, 'EEE')
        | year: year(ts) | quarter: quarter(ts) | month: month(ts) | dayofmonth: dayofmonth(ts) | dayofweek:
        dayofweek(ts) | dayofyear: dayofyear(ts) | weekofyear: weekofyear(ts) | hour: hour(ts) | minute: minute(ts)
        | second: second(ts) | date_add: date_add(day, 1) | date_sub: date_sub(day, 1) | datediff: datediff(day,
        day) | add_months: add_months(day, 1) | months_between: months_between(ts, ts) | next_day: next_day(day,
        'Mon') | last_day: last_day(day) | trunc: trunc(day, 'month') | date_trunc: date_trunc('hour', ts) |
        unix_timestamp: unix_timestamp(ts); unix_timestamp(t, 'yyyy-MM-dd') | from_unixtime: from_unixtime(l) |
        timestamp_seconds: timestamp_seconds(l) | timestamp_millis: timestamp_millis(l) | unix_millis:
        unix_millis(ts) | make_date: make_date(i, i, i) | from_utc_timestamp: from_utc_timestamp(ts,
        'Europe/Berlin') | to_utc_timestamp: to_utc_timestamp(ts, 'Europe/Berlin')
    """,
    "structs, arrays and maps": """
        struct: struct(i, t) | array: array(t, u); array() | create_map: map('a', i) | element_at: element_at(a, 1);
        element_at(m, 'a') | get: get(a, 0) | size: size(a) | explode: explode(a) | slice: slice(a, 1, 2) |
        sort_array: sort_array(a) | array_sort: array_sort(a); array_sort(a, (x, y) -> case when x < y then 1 when x
        > y then -1 else 0 end) | array_contains: array_contains(a, 'x') | array_distinct: array_distinct(a) |
        array_union: array_union(a, a) | array_intersect: array_intersect(a, a) | array_except: array_except(a, a) |
        array_join: array_join(a, ',') | array_max: array_max(a) | array_min: array_min(a) | array_position:
        array_position(a, 'x') | array_remove: array_remove(a, 'x') | array_append: array_append(a, 'x') |
        array_insert: array_insert(a, 1, 'x') | array_repeat: array_repeat(t, 2) | arrays_overlap: arrays_overlap(a,
        a) | arrays_zip: arrays_zip(a, a) | flatten: flatten(aa) | sequence: sequence(1, i) | transform:
        transform(a, x -> upper(x)) | filter: filter(a, x -> x != 'b') | exists: exists(a, x -> x = 'b') | forall:
        forall(a, x -> x = 'b') | aggregate: aggregate(ia, 0L, (s, x) -> s + x) | zip_with: zip_with(a, a, (x, y) ->
        concat(x, y)) | map_keys: map_keys(m) | map_values: map_values(m) | map_entries: map_entries(m) |
        map_concat: map_concat(m, m) | map_from_arrays: map_from_arrays(a, ia) | map_from_entries:
        map_from_entries(map_entries(m)) | map_filter: map_filter(m, (k, v) -> v > 1) | transform_keys:
        transform_keys(m, (k, v) -> upper(k)) | transform_values: transform_values(m, (k, v) -> v + 1)
    """,
    "JSON and CSV": """
        from_json: from_json(t, 'a int') | to_json: to_json(st) | get_json_object: get_json_object(t, '$.a') |
        json_array_length | from_csv: from_csv(t, 'a int') | schema_of_json: schema_of_json('{}')
    """,
}
Calls = dict[str, dict[str, list[str]]]


def calls() -> Calls:
    """By subject and name: what is tried."""
    found: Calls = defaultdict(dict)
    for subject, written in USED.items():
        for each in " ".join(written.split()).split(" | "):
            name, _, texts = each.partition(": ")
            found[subject][name] = texts.split("; ") if texts else [f"{name}(t)"]
    return found


def table(spark: SparkSession) -> str:
    """By subject, those that do not always run in the level."""
    rows = ["| subject | in the level for some arguments | by Spark |", "|---|---|---|"]
    with settings(spark, spark_sql_session_timeZone="UTC"):
        frame = spark.createDataFrame([], SCHEMA)
        for subject, named in calls().items():
            # `explode` stands alone: its rows are what `flat_map` makes
            texts = [text for some in named.values() for text in some if not text.startswith("explode(")]
            known = {text: not isinstance(found, str) for text, found in read(frame, texts).items()}
            verdicts = {name: {known.get(text, True) for text in some} for name, some in named.items()}
            listed = [
                ", ".join(f"`{name}`" for name in sorted(verdicts) if verdicts[name] == it)
                for it in ({True, False}, {False})
            ]
            if any(listed):
                rows.append(f"| {subject} | " + " | ".join(listed) + " |")
    return "\n".join(rows) + "\n"


def test_they_are_functions_of_pyspark() -> None:
    names = [name for named in calls().values() for name in named]
    assert len(names) == len(set(names)) > 150
    assert [name for name in names if not hasattr(pyspark.sql.functions, name)] == []


def test_the_page_says_which_of_the_most_used_functions_do_not_always_run_in_the_level(spark: SparkSession) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page[page.index(BEGIN) + len(BEGIN) : page.index(END)] == table(spark), (
        "python -m tests.spark.driver.test_most_used_functions writes it"
    )


if __name__ == "__main__":
    made = table(wm.session("most used"))
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page[: page.index(BEGIN) + len(BEGIN)] + made + page[page.index(END) :], encoding="utf-8")
    print(made)
