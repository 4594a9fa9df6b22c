"""Processors, test drivers and their stores, and our own objects as Python values: each row runs what it builds."""

from tests.api.mistakes.kit import Row

_P = "class P:\n    def init(self, context): self.s = context.get_store('s')\n    def process(self, record, context):\n"
_RUN = (
    "\nstores = [wm.ValueStore('s', 'long'), wm.MapStore('m', 'string', 'long')]\n"
    "clicks.process_values(P, value={value!r}, stores=stores).to('out')\nd = driver()\n"
    "d.pipe('clicks', key=1, value={{'user': 1}}, ts=0)\nd.read('out')"
)


def _processor(lines: str, value: str = "long") -> str:
    return _P + "        " + lines + _RUN.format(value=value)


def _method(method: str) -> str:
    return f"class P:\n    {method}" + _RUN.format(value="long")


def _transformer(lines: str) -> str:
    return (
        f"class T:\n    {lines}\nusers.transform_values(T, value='string').to('out')\nd = driver()\n"
        "d.pipe('users', key=1, value={'name': 'ann'}, ts=0)\nd.read('out')"
    )


def _driver(line: str) -> str:
    return f"clicks.to('out')\nusers.to('names')\nd = driver()\nd.pipe('clicks', key=1, value=None, ts=0)\n{line}"


ROWS: list[Row] = [
    # state and arguments
    (_processor("self.s.value = 5"), "no attribute 'value' .. ValueState", "put(value)"),
    (_processor("self.s += 1"), "ValueState", "get(), put(value)"),
    (_processor("self.s[0] = 1"), "ValueState", "wm.MapStore("),
    (_processor("for each in context.get_store('m'): pass"), "'MapState'", "all()"),
    (_processor("'a' in context.get_store('m')"), "'MapState'", "get(key)"),
    (_processor("context.count = 5"), "'Context' .. 'count'", "forward(record, key=, value=, timestamp=)"),
    (_processor("context.forward(record.key, 5)"), "Context.forward()", "forward(record, key=, value=, timestamp=)"),
    (_processor("context.forward(value=record.value.user)"), "'user'", "value['user']"),
    (_processor("context.forward(value=(1, 2, 3))", "a long, b long"), "not of its type", "{'a': ..., 'b': ...}"),
    # what nobody takes, and what never runs
    (_processor("return record.value['user']"), "returns a value in process .. 1", "context.forward(value=...)"),
    (_method("async def process(self, record, context): pass"), "process .. 'async def'", "without 'async def'"),
    (_method("def process(self, record, context): yield 1"), "process .. 'yield'", "without 'yield'"),
    (
        _method("def process(self, record, context): pass\n    async def init(self, context): pass"),
        "init .. 'async def'",
        "def init(self, context)",
    ),
    (
        _method("def __init__(self, context): pass\n    def process(self, record, context): pass"),
        "P",
        "comes with init",
    ),
    (_method("s = wm.ValueStore('s', 'long')\n    def process(self, r, c): self.s.put(1)"), "'put'", "get_store("),
    (_transformer("async def transform(self, record, context): return 'x'"), "'async def'", "def transform("),
    ("wm.python(lambda value: (yield value), 'long')", "'yield'", "array<long>"),
    ("async def shown(value): print(value)\nclicks.peek(shown)", "action .. 'async def'", "a function of"),
    ("async def write(frame, batch): pass\nwm.ForeachBatch(write)", "write .. 'async def'", "def write(frame, batch)"),
    ("wm.ForeachBatch(lambda frame: frame)", "ForeachBatch .. (frame)", "def write(frame, batch)"),
    ("class O(wm.Output): pass\nclicks.to(O(), name='o')", "O has no method write", "def write(self, rows, batch)"),
    # functions that raise in a test
    (
        "def cut(value):\n    return {}['nope']\nclicks.map_values(wm.python(cut, 'string')).to('out')\nd = driver()\n"
        "d.pipe('clicks', key=1, value={'user': 1}, ts=0)\nd.read('out')",
        "cut raises KeyError: 'nope'",
        "on_error=",
    ),
    (
        "grouped.aggregate(lambda: F.lit(0), wm.python(lambda value, total: 1 // 0)).to_stream().to('out')\n"
        "d = driver()\nd.pipe('clicks', key=1, value={'user': 1}, ts=0)\nd.read('out')",
        "ZeroDivisionError",
        "Correct the function",
    ),
    # the test driver
    (_driver("d.drops['clicks', 'late']"), "('clicks', 'late')", "driver.drops.get(('clicks', 'late'), 0)"),
    (_driver("d.drops['x']"), "'x'", "driver.drops has"),
    (_driver("d.drops()"), "driver.drops .. no call", "driver.drops"),
    (_driver("d.read('out')[0].timestamp"), "TestRecord .. 'timestamp'", "ts"),
    (_driver("d.read('out')[0]['value']"), "TestRecord .. 'value'", "record.value"),
    (_driver("key, value = d.read('out')[0]"), "TestRecord", "record.key"),
    (_driver("d.get_store('users')[1]"), "KeyValueStore .. 1", "get(key)"),
    (_driver("len(d.get_store('users'))"), "KeyValueStore .. len", "approximate_num_entries()"),
    (_driver("d.get_store('users').put(1, 2)"), "'put'", "driver.pipe("),
    (_driver("d.pipe('clicks', key=1, value=None, ts='2026-01-01')"), "ts: '2026-01-01'", "ms since 1970"),
    # our own objects as Python values
    ("if clicks: pass", "KStream .. truth value", "is not None"),
    ("not users", "KTable .. truth value", "filter("),
    ("clicks == views", "KStream .. == .. views", "one is other"),
    ("users != others", "KTable .. ==", "one is other"),
    ("grouped.count() == 5", "KTable .. == .. 5", "value['field'] == 5"),
    ("clicks - views", "KStream .. -", "in each record"),
    ("~clicks", "KStream .. ~", "filter_not("),
    ("float(users)", "KTable .. number", "wm.sum("),
    ("clicks.value_type = 'long'", "KStream .. 'value_type'", "the method that makes it"),
    ("a, b = clicks.split({'a': lambda v: v['user'] > 1}, default='b')", "branches .. a, b = ", "branches['a']"),
]
