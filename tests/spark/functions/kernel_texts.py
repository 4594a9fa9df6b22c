"""Expressions at which kernels are tried, in SQL, over the columns of `kernel_rows`, by subject."""

from __future__ import annotations

_NUMBERS = ("b", "s", "i", "l", "f", "d")
_INTEGERS = ("b1", "s1", "i1", "l1", "few")
_TYPES = ("byte", "short", "int", "bigint")


def _of(templates: str, **values: tuple[str, ...] | list[str] | str) -> list[str]:
    """Templates, apart by semicolons, with each of the values of a name in its place."""
    found = [each.strip() for each in templates.split(";")]
    for name, options in values.items():
        listed = options.split() if isinstance(options, str) else options
        found = [text.replace("{" + name + "}", value) for text in found for value in listed]
    return list(dict.fromkeys(found))


def _known(patterns: list[str]) -> list[str]:
    """Patterns without those that the level leaves to Spark."""
    return [each for each in patterns if not set("😀") & set(each)]


def _words(text: str) -> list[str]:
    return text.split()


ARITHMETIC = [
    *_of("{n}1+{n}2; {n}1-{n}2; {n}1*{n}2; {n}1%{n}2; pmod({n}1,{n}2); -{n}1; +{n}1; abs({n}1)", n=_NUMBERS),
    *_of("try_add({n}1,{n}2); try_subtract({n}1,{n}2); try_multiply({n}1,{n}2)", n=_NUMBERS),
    *_of("{n}1 & {n}2; {n}1 | {n}2; {n}1 ^ {n}2; ~{n}1; {n}1 div {n}2", n=("b", "i", "l")),
    *_of("i1 << few; l1 >> few; i1 >>> i2; l1 >>> i1; shiftleft(l1, i2); d1/d2; i1/i2; f1/d1; i1+l1; f1+d1; b1*s1"),
    *_of("try_divide(d1, d2); try_divide(l1, l2); try_mod(i1, i2); -span; try_add(l1, i1)"),
]
DECIMALS = [
    *_of("{n}1+{n}2; {n}1-{n}2; greatest({n}1, {n}1); {n}1={n}2; {n}1<{n}2; try_add({n}1, {n}2)", n=("n", "w")),
    *_of("n1*n2; -n1; abs(n1); +w1; n1+w1; n1-w1; n1*w1; z+n1; z-n1; w1/7.25; q/0.003; n1/3; i1/2.0; n1%n2"),
    *_of("n1 div n2; pmod(n1, n2); n1 % 3; q % 0.5; try_divide(n1, s1); try_mod(n1, n2); q/s1; w1/s1; q/b1"),
    "w1/9.9999999",
    *_of("q*n1; q+n1; n1+i1; n1*few; n1=i1; w1<n1; abs(q)"),
]
PARTLY_EVALUATED = [
    *_of("l1 + 1/few; 1/few + l1; l1 * (i1 div few); d1 / (1/few); (1/few) / d1; i1 % (1 % few); pmod(1 % few, i1)"),
    *_of("l1 > 1/few; 1/few <=> d1; greatest(d1, 1/few); date_add(day1, cast(1 % few as int)); nvl(l1, 1) = 1/few"),
    *_of("substring(t1, cast(1/few as int), 2); substring(t1, few, 1 % few); concat(t1, cast(1/few as int))"),
    *_of("concat_ws(t1, cast(1 % few as string)); ints[1 % few]; map[cast(1 % few as string)]; d1 in (1/few)"),
    *_of("array(d1, 1/few); struct(d1, 1/few); hash(d1, 1/few); array_contains(ints, 1 % few); datediff(day1, day2)"),
    *_of("instr(cast(1 % few as string), '1'); repeat(t1, 1 % few); left(t1, 1 % few); t1 like 'a%' and 1/few > 0"),
    *_of("try_add(l1, 1/few); o1 = (1/few > 1); add_months(day1, 1 % few); coalesce(d1 + 1/few, 0)"),
]
COMPARISONS = [
    *_of("{n}1{by}{n}2", n=(*_NUMBERS, "t", "y", "day", "ts", "o"), by="= < <= > >= <=>"),
    *_of("greatest({n}1,{n}2); least({n}1,{n}2,{n}1)", n=(*_NUMBERS, "t", "y", "day", "ts")),
    *_of(
        "tn <= tn; span < span; i1 = d1; t1 <=> 'a'; null <=> i1; day1 < day2; least(t1, 'm', num); l1 = f1; few > '2'"
    ),
]
CONDITIONS = [
    *_of("{n}1 in ({n}2, {n}1); {n}1 in (1, 2, null); coalesce({n}1, {n}2); if({n}1<{n}2, {n}1, {n}2)", n=_NUMBERS),
    *_of("case when {n}1<{n}2 then {n}2 when {n}1>{n}2 then {n}1/{n}2 end", n=_NUMBERS),
    *_of("{n}1 is null; {n}1 is not null", n=(*_NUMBERS, "t")),
    *_of("o1 and o2; o1 or o2; not o1; o1 and 1/few>0; few<>0 and 1/few>0; few=0 or 1/few>0; isnan(d1); isnan(f1)"),
    *_of("case when few=0 then 1 else 1/few end; if(few=0, null, 1/few); coalesce(few, 1/few); nanvl(d1, d2)"),
    *_of("t1 in ('a', t2); few in (1, 2, 1/few); coalesce(t1, t2, 'x'); nvl(i1, 0); nvl2(i1, l1, 2); ifnull(t1, '')"),
    *_of("coalesce(st, named_struct('x', 1, 'y', 'z')); if(o1, ints, array(1)); equal_null(t1, t2); day1 in (day2)"),
    *_of(
        "nullif(few, 0); nullif(few, nullif(i1, few)); nullif(nullif(i1, i2), few); nullif(t1, t2); few between 0 and 3"
    ),
    *_of("case i1 when 1 then 'a' when i2 then 'b' else 'c' end; case when o1 then st end; nanvl(d1, 1/few)"),
]
CASTS = [
    *_of(
        "cast({n} as {t})",
        n=(*_INTEGERS, *_words("f1 d1 o1 n1 w1 z q num t1 when ts1")),
        t=_TYPES,
    ),
    *_of("cast({n} as {t})", n=(*_INTEGERS, *_words("f1 d1 o1 n1 w1 q z")), t="float double boolean"),
    *_of("cast({n} as {t})", n="num t1", t="double boolean"),
    *_of("cast({n} as date)", n="num t1 when ts1 tn"),
    *_of(
        "cast({n} as decimal({t}))",
        n=(*_INTEGERS, *_words("o1 n1 w1 z q")),
        t="5,2 10,0 38,18 38,0 18,9 20,2 1,1",
    ),
    *_of("cast({n} as string)", n=(*_INTEGERS, *_words("o1 n1 w1 z q day1 ts1 tn t1"))),
    *_of("cast(day1 as timestamp); cast(day1 as timestamp_ntz); cast(ts1 as timestamp_ntz); cast(tn as timestamp)"),
    *_of("cast(t1 as binary); cast(ts1 as double); cast(ts1 as float); cast(null as int)"),
    *_of("cast({n} as timestamp)", n=_INTEGERS),
    *_of("try_cast(num as {t})", t=(*_TYPES, "double", "boolean", "date")),
    *_of("try_cast(l1 as int); try_cast(d1 as bigint); try_cast(d1 as byte); try_cast(n1 as decimal(3,1))"),
    *_of("try_cast(when as date); try_cast(w1 as bigint); try_cast(ts1 as int); try_cast(f1 as int)"),
    *_of("cast(ints as array<bigint>); cast(ints as array<string>); cast(ints as array<tinyint>)"),
    *_of("cast(words as array<int>); cast(st as struct<x:bigint,y:string>); cast(st as struct<x:smallint,y:string>)"),
]
TEXTS = [
    *_of("length({t}); octet_length({t}); bit_length({t})", t="t1 y1"),
    *_of("concat(t1, t2, 'x'); concat(t1, i1); concat_ws('-', t1, t2, 'x'); concat_ws(t1, t2, num); concat_ws('-')"),
    *_of("split_part(t1, ',', {n}); split_part(t1, '', {n}); split_part(t1, 'xx', {n})", n="1 2 -1 -2 9 -9"),
    *_of("split_part(t1, '😀', 2); split_part(num, '1', 2)"),
    *_of("concat(y1, y2); concat(t1); concat_ws(null, t1); concat_ws('-', t1, num)"),
    *_of("{f}(t1)", f="trim ltrim rtrim reverse ascii"),
    *_of(
        "trim('a' from t1); trim(leading 'aX' from t1); rtrim('é\u0301', t1); btrim(t1, ''); trim(both ' \t' from t1)"
    ),
    *_of("substring(t1, {n})", n=["2", "2, 2", "-3, 2", "0, 3", "few, i1", "i1, i2", "few, few", "-2"]),
    *_of("left(t1, few); right(t1, few); left(t1, 3); right(t1, 2); right(t1, 0); left(t1, i1); right(t1, i1)"),
    *_of("lpad(t1, 5); lpad(t1, 5, '日x'); rpad(t1, 4, 'ab'); rpad(t1, 0, 'ab'); lpad(t1, -1, 'ab'); lpad(t1, 3, '')"),
    *_of("repeat(t1, few); repeat(t1, 2); repeat('ab', few)"),
]
SEARCHES = [
    *_of("replace(t1, 'a', 'bc'); replace(t1, 'a'); replace(t1, '', 'x'); replace(t1, 'é', '')"),
    *_of("split(t1, {p})", p=["','", "'a', 2", "'[|]'", "',', -1", "',', 0", r"'\\.', 3", "' '", "'[,]'"]),
    *_of("t1 like '{p}'", p=["a%", "%b", "%a%", "a_c", "_", "%X_X%", "", "%", "a%b%", "__", "%a_b", "%\n"]),
    *_of("{f}(t1, {p})", f="startswith endswith contains", p=["'a'", "'b'", "'é'", "''"]),
    *_of("instr(t1, 'b'); instr(t1, ''); instr(t1, '日'); locate('a', t1); position('b' in t1)"),
]
_WORDS = [
    r"\\W+",
    r"\\w+",
    "[a-c]+",
    "(a)(b)?",
    "a|b|é",
    r"^\\s*(\\S+)",
    r"(\\d+)[,.]?(\\d*)",
    ".$",
    "[^a-z ]+",
    "x+?",
    "(?i)B",
]
_WORDS += [
    r"(\\w+) (\\w+)",
    r"\\.",
    "(?:a|X)b?",
    "a(?=b)",
    "[日😀]",
    "é.",
    r"[\\w.-]+x",
    ".",
    r"\\s",
    "a{1,2}",
    "^.",
    r"[\\t\\n,]",
]
REGULAR = [
    *_of("t1 rlike '{p}'; regexp_extract(t1, '{p}', 0); regexp_count(t1, '{p}')", p=_known(_WORDS)),
    *_of("regexp_extract_all(t1, '{p}', 0); regexp_replace(t1, '{p}', '<$0>'); split(t1, '{p}')", p=_known(_WORDS)),
    *_of("t1 rlike '{p}'; regexp_extract(t1, '{p}', 0)", p=["a*", "", "$", "^$", "x?", "(?!a)", "(a|b)*c?"]),
    *_of("regexp_extract(t1, '{p}', 1)", p=["(a)(b)?", "a(b)?", r"(\\d+)", r"^\\s*(\\S+)", "(x*)a"]),
    r"regexp_replace(t1, '(a)(b)?', '$2-$1\\$')",
    r"regexp_extract_all(t1, '(\\w)(\\w)?', 2)",
    *_of("split(t1, '[,X ]', 2); split(t1, '[ab]+', 3); split(t1, 'a|,', 0); split(num, '[.eE]', 1); t1 regexp 'a.b'"),
    *_of("regexp_substr(t1, '[aX]+'); regexp_like(num, '^[+-]?[0-9]+$')"),
]
DIGESTS = [
    *_of("{f}(t1); {f}(y1)", f="md5 sha1 sha crc32 base64 hex"),
    *_of("sha2(t1, {n})", n=["0", "224", "256", "384", "512"]),
    *_of("hex(l1); hex(i1); base64(repeat(t1, 9)); base64(concat(y1, y2)); format_string('%s-%d%%', t1, i1)"),
    *_of("format_string('a%sb', l1); format_string('plain'); printf('%s %s', t1, t2); regexp_count(t1, 'a')"),
    *_of("translate(t1, 'aXé', 'bY'); translate(t1, '', 'x'); translate(t1, 'aab', 'xyz'); translate(t1, '😀日', 'é')"),
    *_of("substring_index(t1, '{d}', {n})", d=["a", "b", ",", "xx", "x", "é", "😀", ""], n=["1", "2", "-1", "-2", "0"]),
]
ARRAYS = [
    *_of("size(array()); coalesce(words, array()); if(o1, array(), ints); concat(array(), ints, array())"),
    *_of("array_contains(if(o1, array(), words), t1); array(array(), words)"),
    *_of("array_distinct({a}); array_max({a}); array_min({a}); array_sort({a}); reverse({a})", a="ints words"),
    *_of("array_union({a}, {a}); array_compact({a}); array_repeat({a}, 2); size(array_distinct({a}))", a="ints words"),
    *_of("array_except(ints, array(few, 1)); array_intersect(ints, array(few, i1)); array_except(words, array(t1))"),
    *_of("array_intersect(words, reverse(words)); array_union(words, array(t1, null)); array_except(words, words)"),
    *_of("arrays_overlap(ints, array(few, i1)); arrays_overlap(words, array(t1, null)); arrays_overlap(words, words)"),
    *_of("array_position(words, t1); array_position(ints, few); array_remove(words, t1); array_remove(ints, few)"),
    *_of("array_join(words, ','); array_join(words, t1); array_join(words, '-', '?'); array_join(words, ',', t2)"),
    *_of("slice(ints, few, 2); slice(words, 1, few); slice(ints, -2, 2); slice(words, few, few); slice(ints, i1, i2)"),
    *_of("flatten(array(ints, ints)); flatten(array(words, array(t1))); concat(ints, ints); concat(words, array(t1))"),
    *_of("array_append(ints, few); array_prepend(words, t1); array_repeat(t1, few); array_repeat(few, 3)"),
    *_of("sequence(few, 4); sequence(1, few); sequence(cast(few as bigint), 2L); sequence(cast(few as tinyint), 3Y)"),
    *_of("arrays_zip(ints, words); arrays_zip(words); exists(words, x -> x = t1); forall(ints, x -> x > few)"),
    *_of("transform(ints, x -> x + 1); transform(words, x -> concat(x, t1)); transform(ints, (x, i) -> x + i * few)"),
    *_of("transform(words, x -> upper(x)); transform(ints, x -> transform(words, y -> concat(y, cast(x as string))))"),
    *_of(
        "transform(ints, x -> 1 / x); transform(ints, x -> struct(x, t1)); "
        "transform(words, x -> case when x = t1 then 1 end)"
    ),
    *_of("filter(ints, x -> x > few); filter(words, x -> length(x) > 1); filter(words, (x, i) -> i > 0)"),
    *_of(
        "filter(ints, x -> 1 / x > 0); exists(ints, x -> x > 0); exists(words, x -> x is null); "
        "forall(words, x -> x <> '')"
    ),
    *_of(
        "aggregate(ints, 0L, (a, x) -> a + x); "
        "aggregate(words, '', (a, x) -> concat(a, coalesce(x, '?')), a -> upper(a))"
    ),
    *_of("aggregate(ints, few, (a, x) -> if(x > a, x, a)); aggregate(words, 0, (a, x) -> a + length(x), a -> a * 2)"),
    *_of("aggregate(ints, 1, (a, x) -> a * x); aggregate(ints, cast(1/few as int), (a, x) -> a)"),
    *_of(
        "reduce(transform(words, x -> length(x)), 0, (a, x) -> a + x); "
        "transform(filter(words, x -> x like 'a%'), x -> x)"
    ),
]
CALLS = [
    "plain",
    "plain within",
    *_of("if(few = 0, raise_error(concat('no ', t1)), i1); coalesce(t1, raise_error('none')); raise_error(t1)"),
    *_of("transform(ints, x -> if(x = few, raise_error(t1), x)); case when few > 1 then raise_error('x') end"),
]
MAPS = [
    *_of("map(t1, i1); map(t1, i1, t2, few); map(few, t1, 1, t2); map_from_arrays(words, words); map_entries(map)"),
    *_of("map_from_arrays(array(t1), array(i1)); map_from_arrays(words, array(t1, t2)); map_concat(map, map)"),
    *_of(
        "map_concat(map, map('zz', 1)); map_from_entries(array(struct(t1, i1))); "
        "map_from_entries(arrays_zip(words, ints))"
    ),
    *_of("map_filter(map, (k, v) -> v > 0); transform_values(map, (k, v) -> concat(k, cast(v as string)))"),
    *_of("map_contains_key(map, 'a'); map_contains_key(map, t1); transform_values(map, (k, v) -> v + few)"),
    *_of(
        "size(map_filter(map, (k, v) -> k = t1)); map_filter(map, (k, v) -> 1 / v > 0); "
        "transform_values(map, (k, v) -> st)"
    ),
]
DATES = [
    *_of("{f}(day1)", f="year quarter month day dayofyear dayofweek weekday weekofyear last_day"),
    *_of("{f}(ts1)", f="year month day hour minute second unix_seconds unix_millis unix_micros dayofweek"),
    *_of("{f}(tn)", f="hour minute second"),
    *_of("dayname(day1); monthname(day1); monthname(ts1); unix_date(day1); date_from_unix_date(i1); unix_date(day2)"),
    *_of("next_day(day1, '{d}')", d="mo Tue WEDNESDAY th fri SA sunday"),
    *_of("date_add(day1, few); date_add(day1, i1); date_sub(day1, s1); day1 + 1; date_sub(day1, b1); day1 - 2"),
    *_of("datediff(day1, day2); datediff(day1, ts1); add_months(day1, few); add_months(day1, i1)"),
    *_of("trunc(day1, '{u}')", u="year yyyy yy quarter month mm mon week day x YEAR"),
    *_of("date_trunc('{u}', ts1)", u="year yyyy yy quarter month mm mon week day dd hour minute second millisecond"),
    *_of("date_trunc('{u}', ts1)", u="microsecond x Hour"),
    *_of("timestamp_seconds({n}); timestamp_millis({n}); timestamp_micros({n})", n="l1 i1"),
    *_of("ts1 + span; ts1 - span; ts1 + interval 1 day; ts1 - interval 2 hours 3 seconds; tn + interval 1 hour"),
    *_of(
        "to_date(when); to_date(ts1); to_timestamp(day1); unix_timestamp(ts1); unix_timestamp(day1); try_to_date(num)"
    ),
    *_of("to_unix_timestamp(ts2); from_unixtime(l1); from_unixtime(few); date_format(day1, 'dd/MM/yyyy')"),
    *_of("date_format(ts1, {p})", p=["'yyyy-MM-dd'", "'yyyy'", "'HH:mm:ss.SSS'", "'SSSSSS S'", "'yyyyMMddHHmm'"]),
    *_of("date_format(ts1, {p})", p=["\"yyyy-MM-dd'T'HH:mm:ss'Z'\"", "\"''MM, dd_HH\""]),
    *_of("day1 + interval 3 days; ts1 - ts2; tn - tn; ts1 + interval 1 minute > ts2"),
]
ROUNDING = [
    *_of("floor({n}); ceil({n}); round({n})", n="d1 f1 n1 w1 i1 l1 z"),
    *_of("bround(d1); bround(f1); bround(n1); bround(i1); round(n1, 1); bround(n1, 1); bround(q, 3)"),
    *_of(" round(w1, 3); round(q, 4); round(z, 2); round(i1, 2)"),
    *_of("{f}({n}, -1)", f="round bround", n="b1 s1 i1 l1"),
    *_of("radians(d1); degrees(d1); radians(i1); factorial(few); factorial(i1); factorial(s1); bin(l1); bin(i1)"),
    *_of("round(l1, -3); bround(s1, -2); round(l1, -9); sqrt(d1); rint(d1); sign(d1); signum(i1); sqrt(i1)"),
]
HASHES = _of(
    "{h}({n})",
    h="hash xxhash64",
    n=[
        "b1",
        "s1",
        "i1",
        "l1",
        "f1",
        "d1",
        "o1",
        "t1",
        "y1",
        "day1",
        "ts1",
        "tn",
        "n1",
        "q",
        "num",
        "t1,i1,t2",
        "i1,l1,d1",
    ],
)
HASHES += _of("{h}(concat(t1, t2, num, when, t1, t2, num, when)); {h}('x')", h="hash xxhash64")
NESTED = [
    *_of("st with z; st with another y; st without x; st within st; case when o1 then map end; coalesce(map, map)"),
    *_of("struct(i1, t1); st.x; st.y; named_struct('a', st, 'b', i1).a.y; array(st)[0].y; array(st, st)"),
    *_of("array(i1, i2); array(t1, 'x', t2); array(l1, i1); array(ints, ints)[0]; array(d1, d2)[1]"),
    *_of("size(ints); size(map); array_size(ints); cardinality(words); sort_array(ints); sort_array(words, false)"),
    *_of("ints[0]; ints[few]; words[1]; get(ints, few); element_at(ints, few); element_at(words, -1)"),
    *_of("element_at(words, 2); try_element_at(words, few); sort_array(array(day1, day2))"),
    *_of("map['a']; map[t1]; element_at(map, 'b'); element_at(map, t1); map_keys(map); map_values(map)"),
    *_of("array_contains(ints, few); array_contains(words, t1); array_contains(words, 'a'); map_keys(map)[0]"),
    *_of("array_contains(array(d1, d2), 0.0D); array_contains(array(d1, d2), double('nan'))"),
]
OPTIMIZED = [
    *_of("not (d1 < d2); not (f1 = f2); d1 = d1; d1 < d1; i1 = i1; cast(b1 as int) = 300; cast(b1 as bigint) < 127"),
    *_of("cast(i1 as double) > 2147483647.5D; cast(s1 as decimal(10,2)) = 1.5; i1 > 1.5; l1 = 1.0D; i1 * 0; i1 - i1"),
    *_of("cast(f1 as double) = 0.1D; case when few=0 then null else few end is null; if(few=0, 1, 0) = 1; i1 + 0"),
    *_of("not (i1 in (1, null)); few in (1, 1, 2); few in (null); o1 and true; o1 or null; o1 and not o1; o1 = true"),
    *_of("few > 0 and few > 0 and 1/few > 0; (few <> 0 and i1 > 0) or (few <> 0 and 1/few > 0); t1 like '%'; -(-i1)"),
    *_of("concat(t1, concat('a', 'b')); cast(cast(few as string) as int); cast(cast(l1 as int) as bigint); d1 - d1"),
    *_of("cast(ts1 as date) = date'2020-01-01'; year(day1) = 2020; nullif(d1, double('nan')); substring(t1, 1)"),
    *_of("(i1 + 1) > i1; i1 + 1 > 2147483647; i1 - 1 = 5; -i1 = 5; i1 is null and i1 = 1; not not o1; abs(abs(i1))"),
    *_of("1 + (i1 + i2); (i1 + few) + i2; (l1 * 2L) * l2; trim(trim(t1)); reverse(reverse(t1)); floor(floor(d1))"),
]
CHANGED = [
    *_of("(i1 + 2147483647) + -2147483647; (i1 * 2) * 1073741824; 1 + (i1 + 1); l1 + 1L + 9223372036854775807L"),
    *_of("named_struct('a', 1/few, 'b', i1).b; array(d1, 1/few)[0]; cast(day1 as timestamp) > ts1; lower(upper(t1))"),
]
"""What Spark's optimizer makes other expressions of, which fail at other rows or give other texts."""
LETTERS = _of("upper(t1); lower(t1); ucase(num); lower(concat(t1, t2, 'ΑΣ')); upper(concat(t1, 'ŉ', t2))")
SUBJECTS: dict[str, list[str]] = {
    "arithmetic": ARITHMETIC,
    "decimals": DECIMALS,
    "partly evaluated": PARTLY_EVALUATED,
    "comparisons": COMPARISONS,
    "conditions": CONDITIONS,
    "casts": CASTS,
    "texts": TEXTS,
    "searches": SEARCHES,
    "regular": REGULAR,
    "digests": DIGESTS,
    "arrays": ARRAYS,
    "maps": MAPS,
    "calls": CALLS,
    "dates": DATES,
    "rounding": ROUNDING,
    "hashes": HASHES,
    "nested": NESTED,
    "optimized": OPTIMIZED,
    "letters": LETTERS,
}
