"""Words of Python with another word among Columns: builtins, methods of texts and dictionaries, libraries."""

from __future__ import annotations

from pyspark.sql import functions as F

CONDITIONS = {
    "if": "F.when(condition, one).otherwise(other)",
    "while": "F.when(condition, one).otherwise(other); what is repeated, F.transform(array, function)",
    "assert": "filter(predicate) before, or F.when(condition, one).otherwise(other)",
    "and": "& between conditions, each in brackets: (a > 1) & (b < 2); | for or, ~ for not",
    "or": "| between conditions, each in brackets: (a > 1) | (b < 2); & for and, ~ for not; F.coalesce(a, b) for the "
    "first that is not null",
    "not": "~(a > 1)",
    "a < b < c": "a.between(low, high), or (low < a) & (a < high)",
    "in": "a.isin('x', 'y'); of an array F.array_contains(array, 'x'), of a text a.contains('x')",
    "bool": "a condition: a.isNotNull(), a != 0",
}
"""By the word that needs a truth value."""
_EACH = (
    "F.transform(array, lambda each: ...), F.filter(array, lambda each: ...), or flat_map_values for a record of each"
)
ITERATION = _EACH
BUILTINS = {
    "abs": "F.abs(a)",
    "all": "& between conditions, or F.forall(array, lambda each: ...)",
    "any": "| between conditions, or F.exists(array, lambda each: ...)",
    "bool": CONDITIONS["bool"],
    "bytes": "F.encode(a, 'UTF-8')",
    "chr": "F.char(a)",
    "dict": "F.struct(a.alias('name'), ...) for a record, F.create_map(key, value) for a map",
    "divmod": "F.floor(a / b), and a % b",
    "enumerate": "F.posexplode is of rows; of an array F.transform(array, lambda each, number: ...)",
    "filter": "F.filter(array, lambda each: ...)",
    "float": "a.cast('double')",
    "format": "F.format_string('%s', a)",
    "hash": "F.xxhash64(a)",
    "hex": "F.hex(a)",
    "int": "a.cast('long')",
    "isinstance": "the type of an input, which is value_type of a stream or table: a Column has one type",
    "iter": _EACH,
    "len": "F.length(a) of a text, F.size(a) of an array or map",
    "list": f"F.array(a, b) makes an array; of what an array has: {_EACH}",
    "map": _EACH,
    "max": "F.greatest(a, b); of an array F.array_max(array)",
    "min": "F.least(a, b); of an array F.array_min(array)",
    "ord": "F.ascii(a)",
    "pow": "F.pow(a, b)",
    "range": "F.sequence(start, stop)",
    "reversed": "F.reverse(a)",
    "round": "F.round(a, 2)",
    "set": "F.array_distinct(array)",
    "sorted": "F.array_sort(array)",
    "str": "a.cast('string')",
    "sum": "a + b; of an array F.aggregate(array, F.lit(0), lambda total, each: total + each)",
    "tuple": "F.struct(a, b)",
    "zip": "F.arrays_zip(a, b)",
}
METHODS = {
    "append": "F.array_append(array, a)",
    "apply": "F.transform(array, lambda each: ...), or F.udf(function, 'type')(a)",
    "assign": "value.withField('field', value['other'] * 2): the record with one more field",
    "capitalize": "F.initcap(a)",
    "copy": "the Column itself; with another field: value.withField('name', ...)",
    "count": "F.size(array), or F.length(a)",
    "date": "F.to_date(a)",
    "decode": "F.decode(a, 'UTF-8')",
    "encode": "F.encode(a, 'UTF-8')",
    "extend": "F.concat(one, other)",
    "fillna": "F.coalesce(a, F.lit(0))",
    "find": "F.instr(a, 'x'), which counts from 1",
    "format": "F.format_string('%s', a)",
    "get": "value['field'], or of a map F.element_at(map, key); with a default: F.coalesce(value['field'], F.lit(...))",
    "index": "F.instr(a, 'x'), which counts from 1; of an array F.array_position(array, x)",
    "insert": "F.array_insert(array, 1, a)",
    "isalnum": "a.rlike('^[A-Za-z0-9]+$')",
    "isalpha": "a.rlike('^[A-Za-z]+$')",
    "isdigit": "a.rlike('^[0-9]+$')",
    "isna": "a.isNull()",
    "isnumeric": "a.rlike('^[0-9]+$')",
    "isoformat": "F.date_format(a, \"yyyy-MM-dd'T'HH:mm:ss\")",
    "items": "F.map_entries(map); the fields of a struct are value['field']",
    "join": "F.array_join(array, ',')",
    "keys": "F.map_keys(map)",
    "len": "F.length(a)",
    "ljust": "F.rpad(a, 10, ' ')",
    "lstrip": "F.ltrim(a)",
    "notna": "a.isNotNull()",
    "pop": "value.dropFields('name'), or F.slice(array, 1, n)",
    "remove": "F.array_remove(array, a)",
    "replace": "F.replace(a, F.lit('old'), F.lit('new')), or F.regexp_replace(a, 'old', 'new')",
    "rjust": "F.lpad(a, 10, ' ')",
    "rstrip": "F.rtrim(a)",
    "sort": "F.array_sort(array)",
    "split": "F.split(a, ',')",
    "str": "F.upper(a), F.lower(a), ...: the functions of pyspark.sql.functions",
    "strftime": "F.date_format(a, 'yyyy-MM-dd')",
    "strip": "F.trim(a)",
    "timestamp": "F.unix_millis(a), F.unix_seconds(a)",
    "title": "F.initcap(a)",
    "total_seconds": "F.unix_seconds(one) - F.unix_seconds(other)",
    "update": "value.withField('name', ...)",
    "values": "F.map_values(map)",
    "weekday": "F.weekday(a)",
    "withColumn": "value.withField('field', value['other'] * 2): the record with one more field",
    "zfill": "F.lpad(a, 10, '0')",
}
LIBRARIES = {
    "json.loads": "F.from_json(text, 'id long'); or read the topic with value=wm.json('id long, name string')",
    "json.dumps": "F.to_json(struct); an output is written as JSON with value=wm.json()",
    "math.fabs": "F.abs(a)",
    "math.fsum": BUILTINS["sum"],
    "math.isnan": "F.isnan(a)",
    "numpy.where": "F.when(condition, one).otherwise(other)",
    "numpy.maximum": "F.greatest(a, b)",
    "numpy.minimum": "F.least(a, b)",
    "numpy.isnan": "F.isnan(a)",
    "numpy.array": "F.array(a, b)",
    "re.match": "a.rlike('^pattern'), F.regexp_extract(a, 'pattern', 1)",
    "re.fullmatch": "a.rlike('^pattern$'), F.regexp_extract(a, 'pattern', 1)",
    "re.search": "a.rlike('pattern'), F.regexp_extract(a, 'pattern', 1)",
    "re.findall": "F.regexp_extract_all(a, F.lit('pattern'))",
    "re.sub": "F.regexp_replace(a, 'pattern', 'new')",
    "re.split": "F.split(a, 'pattern')",
    "base64.b64encode": "F.base64(a)",
    "base64.b64decode": "F.unbase64(a)",
    "pandas.to_datetime": "F.to_timestamp(a)",
    "pandas.to_numeric": "a.cast('double')",
    "pandas.isna": "a.isNull()",
    "pandas.notna": "a.isNotNull()",
    "urllib.parse.urlparse": "F.parse_url(a, F.lit('HOST'))",
    "urllib.parse.quote": "F.url_encode(a)",
    "urllib.parse.unquote": "F.url_decode(a)",
    "datetime.fromtimestamp": "F.timestamp_seconds(a), F.timestamp_millis(a)",
    "datetime.utcfromtimestamp": "F.timestamp_seconds(a), F.timestamp_millis(a)",
    "datetime.strptime": "F.to_timestamp(a, 'yyyy-MM-dd')",
    "datetime.fromisoformat": "F.to_timestamp(a)",
    "datetime.datetime": "F.make_timestamp(year, month, day, hour, minute, second)",
    "datetime.date": "F.make_date(year, month, day)",
    "datetime.timedelta": "F.make_dt_interval(days, hours)",
    "decimal.Decimal": "a.cast('decimal(10,2)')",
    "hashlib.md5": "F.md5(a)",
    "hashlib.sha1": "F.sha1(a)",
    "hashlib.sha256": "F.sha2(a, 256)",
    "hashlib.sha512": "F.sha2(a, 512)",
    "zlib.crc32": "F.crc32(a)",
    "operator.itemgetter": "value['field']",
}
"""By module and name."""
WITH_FIELD = "value.withField('field', value['field'] * 2), which is the record with that field anew, and return it"
ANYTHING = "the functions of pyspark.sql.functions; what they do not have, F.udf(function, 'type')(value['field'])"


def of_builtin(name: str) -> str | None:
    """The replacement of one of Python's builtins."""
    return BUILTINS.get(name)


def of_method(name: str) -> str:
    """The replacement of a method of a Python value."""
    if name in METHODS:
        return METHODS[name]
    return _of_same_name(name) or ANYTHING


def of_library(name: str) -> str:
    """The replacement of a function of a library, as `module.function`."""
    module, _, called = name.rpartition(".")
    if name in LIBRARIES:
        return LIBRARIES[name]
    if module in ("math", "numpy", "cmath", "statistics", "hashlib", "builtins"):
        return _of_same_name(called) or ANYTHING
    return next((cure for known, cure in LIBRARIES.items() if known.rpartition(".")[2] == called), ANYTHING)


def _of_same_name(name: str) -> str | None:
    """Spark's function of the same name, if there is one."""
    return f"F.{name}(a)" if callable(getattr(F, name, None)) and not name.startswith("_") else None
