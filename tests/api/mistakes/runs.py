"""Test drivers, starts, sessions, queries."""

from tests.api.mistakes.kit import Row

DRIVER = (
    "from watersmeet.testing import TopologyTestDriver\n"
    "clicks.map_values(lambda v: v['page']).to('pages')\n"
    "driver = TopologyTestDriver(builder.build())\n"
)
START = "clicks.to('o')\nbuilder.build().start(spark, "
PROCESSOR = """class P:
    def process(self, record, context):
        {}
stores = [wm.ValueStore("s", "long"), wm.ListStore("l", "long"), wm.MapStore("m", "string", "long")]
clicks.process_values(P, value="long", stores=stores).to("o")
from watersmeet.testing import TopologyTestDriver
driver = TopologyTestDriver(builder.build())
driver.pipe("clicks", key=1, value={{"page": "a", "user": 7}}, ts=0)
driver.read("o")
"""
ROWS: list[Row] = [
    (
        DRIVER + "driver.pipe('clicks', key=1, value={'at': '2026-01-31T00:00:00Z'}, ts=0)",
        "value.at .. timestamp",
        "datetime(2026, 1, 31",
    ),
    (
        "from watersmeet.testing import TopologyTestDriver\n"
        "clicks.map_values(lambda v: 1 / (v['seconds'] - v['seconds'])).to('o')\n"
        "driver = TopologyTestDriver(builder.build())\n"
        "driver.pipe('clicks', key=1, value={'seconds': 1.0}, ts=0)\ndriver.read('o')",
        "function raises .. DIVIDE_BY_ZERO",
        'on_error="skip"',
    ),
    (
        "from watersmeet.testing import TopologyTestDriver\nTopologyTestDriver(builder)",
        "StreamsBuilder",
        "TopologyTestDriver(builder.build())",
    ),
    (
        "from watersmeet.testing import TopologyTestDriver\nTopologyTestDriver(clicks)",
        "KStream",
        "TopologyTestDriver(builder.build())",
    ),
    (
        "from watersmeet.testing import TopologyTestDriver\nTopologyTestDriver()",
        "topology",
        "TopologyTestDriver(builder.build())",
    ),
    (
        "from watersmeet.testing import TopologyTestDriver\nTopologyTestDriver(lambda: builder.build())",
        "function",
        "TopologyTestDriver(builder.build())",
    ),
    (
        "from watersmeet.testing import TopologyTestDriver\nclicks.to('o')\nTopologyTestDriver(builder.build(), {})",
        "{}",
        "session",
    ),
    (
        "from watersmeet.testing import TopologyTestDriver\nclicks.to('o')\n"
        "TopologyTestDriver(builder.build(), shards=0)",
        "shards=0",
        "shards=2",
    ),
    ("from watersmeet import testing\ntesting.TopologyTestDrive", "TopologyTestDrive", "TopologyTestDriver"),
    (DRIVER + "driver.pipeInput('clicks', 1, None)", "pipeInput", "pipe("),
    (DRIVER + "driver.createInputTopic('clicks')", "createInputTopic", "create_input_topic"),
    (DRIVER + "driver.createOutputTopic('pages')", "createOutputTopic", "create_output_topic"),
    (DRIVER + "driver.getKeyValueStore('users')", "getKeyValueStore", "get_store"),
    (DRIVER + "driver.getWindowStore('users')", "getWindowStore", "get_store"),
    (DRIVER + "driver.advanceWallClockTime('1 hour')", "advanceWallClockTime", "advance_wall_clock_time"),
    (DRIVER + "driver.producedTopicNames()", "producedTopicNames", "read("),
    (DRIVER + "driver.readOutput('pages')", "readOutput", "read("),
    (DRIVER + "driver.output('pages')", "output", "read("),
    (DRIVER + "driver.create_input_topic('clicks').pipeInput(1, None)", "pipeInput", "pipe_input"),
    (DRIVER + "driver.create_input_topic('clicks').pipeKeyValueList([])", "pipeKeyValueList", "pipe_key_value_list"),
    (DRIVER + "driver.create_input_topic('clicks').advanceTime('1 hour')", "advanceTime", "auto_advance"),
    (
        DRIVER + "driver.create_output_topic('pages').readKeyValuesToMap()",
        "readKeyValuesToMap",
        "read_key_values_to_map",
    ),
    (DRIVER + "driver.create_output_topic('pages').readValue()", "readValue", "read_value"),
    (DRIVER + "driver.create_input_topic('clicks', 'long', 'string')", "create_input_topic .. 'long'", "start_ts="),
    (DRIVER + "driver.pipe('clicks', 1, None)", "pipe .. ts", "ts="),
    (DRIVER + "driver.pipe('clicks', 1, None, 5)", "pipe .. 5", "ts="),
    (DRIVER + "driver.pipe('clicks', 1, None, timestamp=5)", "timestamp=5", "ts="),
    (DRIVER + "driver.pipe('click', 1, None, ts=0)", "'click'", "clicks"),
    (DRIVER + "driver.pipe('clicks', 'a', None, ts=0)", "'a'", "bigint"),
    (DRIVER + "driver.pipe('clicks', 1, {'pge': 'a'}, ts=0)", "pge", "page"),
    (DRIVER + "driver.pipe('clicks', 1, 'text', ts=0)", "'text'", "struct"),
    (DRIVER + "driver.pipe('clicks', 1, None, ts='now')", "'now'", "ms"),
    (DRIVER + "driver.pipe('pages', 1, None, ts=0)", "'pages'", "clicks"),
    (DRIVER + "driver.read('page')", "'page'", "pages"),
    (DRIVER + "driver.read('clicks')", "'clicks'", "pages"),
    (DRIVER + "driver.read()", "read .. output", "driver.read('"),
    (DRIVER + "driver.get_store('user')", "'user'", "users"),
    (DRIVER + "driver.create_output_topic('pages').read_value()", "no further record", "is_empty()"),
    (DRIVER + "driver.close(); driver.read('pages')", "closed", "TopologyTestDriver(topology)"),
    (DRIVER + "driver.getAllStateStores()", "getAllStateStores", "get_store"),
    # starts
    (START + "checkpoint='C:\\\\data\\\\cp')", "C: .. cp .. drive", "file:///"),
    (START + "checkpoint='c:/data/cp')", "c:/data/cp", "file:///"),
    (START + "checkpoint='')", "checkpoint=''", "folder"),
    (START + "checkpoint=None)", "checkpoint=None", "folder"),
    (START + "checkpoint=5)", "checkpoint=5", "folder"),
    (START + "checkpoint=folder)", "kafka=", "wm.Kafka("),
    (START + "checkpoint=folder, kafka='localhost:9092')", "kafka='localhost:9092'", "wm.Kafka('localhost:9092')"),
    (START + "checkpoint=folder, kafka={'bootstrap.servers': 'h:1'})", "kafka=", "wm.Kafka("),
    (START + "checkpoint=folder, shards=0)", "shards=0", "shards=4"),
    (START + "checkpoint=folder, shards='4')", "shards='4'", "shards=4"),
    (START + "checkpoint=folder, tasks=-1)", "tasks=-1", "tasks=4"),
    (START + "checkpoint=folder, trigger=5)", "trigger .. 5", "5 minutes"),
    (START + "checkpoint=folder, trigger={'availableNow': True})", "trigger", "5 minutes"),
    (START + "checkpoint=folder, trigger='now')", "'now'", "5 minutes"),
    (START + "checkpoint=folder, available_now=True, trigger='1 second')", "available_now", "one of them"),
    (START + "checkpoint=folder, idle_after='soon')", "'soon'", "5 minutes"),
    (START + "checkpoint=folder, metrics_port='port')", "'port'", "9400"),
    ("clicks.to('o')\nbuilder.build().start('app', checkpoint='c')", "'app'", "wm.session("),
    ("clicks.to('o')\nbuilder.build().start(None, checkpoint='c')", "None", "wm.session("),
    ("clicks.to('o')\nbuilder.build().start(spark.sparkContext, checkpoint='c')", "SparkContext", "wm.session("),
    ("wm.session(5)", "5", "wm.session("),
    ("wm.session('a', kafka='localhost:9092')", "kafka='localhost:9092'", "kafka=True"),
    ("wm.session('a', config=['x'])", "config=['x']", "{"),
    ("wm.session('a', jars='x.jar')", "jars='x.jar'", "['x.jar']"),
    ("wm.session('a', config={'spark.sql.x.y': '5'})", "spark.sql.x.y", "spark.stop()"),
    ("wm.read_state('/nowhere', 'users')", "read_state .. '/nowhere'", "wm.read_state(spark"),
    ("wm.read_state(spark, folder, 'users')", "", "folder"),
    ("wm.stores(spark, folder)", "", "folder"),
    ("wm.plan_change(folder, builder)", "StreamsBuilder", "builder.build()"),
    ("clicks.to('o')\nwm.plan_change(builder.build(), folder)", "Topology", "plan_change("),
    ("wm.latest('/x')", "latest", "wm.latest("),
    (START + "checkpoint=folder, available_now='yes')", "available_now='yes'", "available_now=True"),
    (START + "checkpoint=folder, evolve=1)", "evolve=1", "evolve=True"),
    (START + "checkpoint=folder, progress='no')", "progress='no'", "progress=True"),
    (START + "checkpoint=folder, shards=True)", "shards=True", "shards=4"),
    (START + "checkpoint=folder, name=5)", "name=5", 'name="orders"'),
    (DRIVER + "driver.advance_wall_clock_time('-5 minutes')", "'-5 minutes'", "advance="),
    (DRIVER + "driver.create_input_topic('clicks', start_ts='now')", "start_ts='now'", "start_ts=0"),
    (DRIVER + "driver.get_store('users').fetch(1)", "fetch", "get"),
    (DRIVER + "driver.get_store('users').get()", "get needs key", "key"),
    (DRIVER + "driver.read('pages', limit='3')", "limit='3'", "a whole number"),
    (DRIVER + "driver.read('pages', limit=-3)", "limit=-3", "not below 0"),
    (DRIVER + "driver.read('pages', case=3)", "case=3", "a text"),
    (DRIVER + "driver.pipe('clicks', 1, None, ts=0, headers=5)", "headers=5", "a list"),
    (DRIVER + "driver.create_input_topic({})", "topic={}", "a text"),
    # processors, by the names of Kafka Streams and others
    (PROCESSOR.format("context.foward(record)"), "Context has no 'foward' .. line 3", "forward"),
    (PROCESSOR.format("context.schedule(5)"), "no 'schedule'", "set_timer("),
    (PROCESSOR.format("context.forward('text')"), "forward('text')", "context.forward(value="),
    (PROCESSOR.format("context.forward(record, value=record.vaule)"), "Record has no 'vaule'", "value"),
    (PROCESSOR.format("context.get_store('s').append(1)"), "ValueState has no 'append'", "wm.ListStore"),
    (PROCESSOR.format("context.get_store('s').get(record.key)"), "ValueState.get()", "wm.MapStore("),
    (PROCESSOR.format("context.get_store('m').items()"), "MapState has no 'items'", "all()"),
    (PROCESSOR.format("context.get_store('l').push(1)"), "ListState has no 'push'", "append(value)"),
    ("wm.read_state(spark, folder, 'users', keys='ann')", "'ann'", "['ann']"),
    ("class Own(wm.Output):\n    def write(self, rows): pass\nclicks.to(Own(), name='own')", "(rows)", "rows, batch"),
    # results and stores of a test driver
    (DRIVER + "driver.read('pages').value", "driver.read('pages') is a list .. 'value'", "[0].value"),
    (DRIVER + "driver.read('pages')['value']", "is a list .. 'value'", "[0].value"),
    (DRIVER + "driver.pipe('clicks', 1, None, ts=0, case='x'); driver.read('pages', case='y')", "case='y'", "'x'"),
    (DRIVER + "driver.create_input_topic('clicks').pipe_key_value_list([1, 2])", "pairs=[1, 2]", "a list of pairs"),
    (
        "from watersmeet.testing import TopologyTestDriver\n"
        "grouped.windowed_by(hour).count(store='hours').to_stream().to('o')\n"
        "TopologyTestDriver(builder.build()).get_store('hours').fetch(1, 5, 0)",
        "from_ts=5, to_ts=0",
        "The earlier time",
    ),
    (PROCESSOR.format("context.schedule_timer(5)"), "no 'schedule_timer'", "set_timer("),
    (PROCESSOR.format("context.get_table('users')"), "no 'get_table'", "table(name)"),
    ("users.transform_values(lambda v: v, value='string')", "<lambda> cannot be made", "map_values("),
]
