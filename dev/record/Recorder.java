import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.test.TestRecord;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Runs histories through Kafka Streams' own test driver: a line of JSON in (id, kind, params, steps), the same line out,
 * with what each step made under "expect". The kinds and their parameters are those of tests/recordings/README.md.
 */
public final class Recorder {
    private static final String VERSION = "4.4.0";
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Serde<String> TEXT = Serdes.String();
    private static final Grouped<String, String> GROUPED = Grouped.with(TEXT, TEXT);
    private static final Initializer<String> ZERO = () -> "0";
    private static final Aggregator<String, String, String> ADD = (key, value, all) -> all + "+" + value;
    private static final Aggregator<String, String, String> TAKE = (key, value, all) -> all + "-" + value;
    private static final Aggregator<String, String, String> TIMES = (key, value, all) -> all + "*" + value;
    private static final List<Aggregator<String, String, String>> OF_STREAMS = List.of(ADD, TAKE, TIMES);
    private static final Merger<String, String> MERGE = (key, one, other) -> one + "&" + other;
    private static final ValueJoiner<String, String, String> PLUS = (left, right) -> left + "+" + right;

    private final StreamsBuilder builder = new StreamsBuilder();
    private final JsonNode params;
    private final List<Record<?, String>> results = new ArrayList<>();

    private Recorder(JsonNode params) {
        this.params = params;
    }

    static String ref(String value) {
        int bar = value == null ? -1 : value.indexOf('|');
        return bar <= 0 ? null : value.substring(0, bar);
    }

    static String payload(String value) {
        if (value == null) {
            return null;
        }
        String rest = value.substring(value.indexOf('|') + 1);
        return rest.isEmpty() ? null : rest;
    }

    static boolean even(String value) {
        for (int at = value == null ? -1 : value.length() - 1; at >= 0; at--) {
            if (Character.isDigit(value.charAt(at))) {
                return (value.charAt(at) - '0') % 2 == 0;
            }
        }
        return false;
    }

    private static Duration ms(JsonNode number) {
        return Duration.ofMillis(number.asLong());
    }

    private Topology topology(String kind) {
        switch (kind) {
            case "cogroup" -> end(cogroup());
            case "suppress_then_aggregate" -> end(aggregated(table("input")));
            case "fk_then_suppress" -> end(ops(fk(table("left"), table("right"), "type", "fk"), params.path("ops")));
            case "aggregate_then_fk" -> {
                KTable<String, String> left = aggregated(table("left"));
                end(fk(left, table("right"), "type", "fk"));
            }
            case "window_then_aggregate" -> end(grouped(windowed(stream("input").groupByKey(GROUPED))));
            case "fk_chain_same" -> {
                KTable<String, String> left = table("left");
                KTable<String, String> right = table("right");
                end(fk(fk(left, right, "type", "fk"), right, "type2", "fk2"));
            }
            case "table_table" -> end(joined(table("left"), table("right")));
            case "fk_join" -> end(fk(table("left"), table("right"), "type", "fk"));
            case "stream_table" -> end(joined(stream("left"), table("right")));
            case "stream_stream" -> end(joined(stream("left"), stream("right")));
            case "stream_aggregate" -> end(stream("input").groupByKey(GROUPED)
                .aggregate(ZERO, ADD, Materialized.with(TEXT, TEXT)));
            case "table_aggregate" -> end(aggregated(table("input")));
            case "table_ops" -> end(ops(table("input"), params.path("ops")));
            case "windowed_aggregate" -> end(windowed(stream("input").groupByKey(GROUPED)));
            case "processor_dedup" -> process(Dedup::new);
            case "processor_reorder" -> process(Reorder::new);
            case "processor_expire" -> process(Expire::new);
            case "processor_totals" -> process(Totals::new);
            default -> throw new IllegalArgumentException("no such kind: " + kind);
        }
        return builder.build();
    }

    private void process(java.util.function.Function<JsonNode, Processor<String, String, String, String>> made) {
        for (String name : List.of("texts", "numbers")) {
            Serde<?> serde = name.equals("texts") ? TEXT : Serdes.Long();
            builder.addStateStore(Stores.keyValueStoreBuilder(
                params.path("store").asText().equals("in_memory")
                    ? Stores.inMemoryKeyValueStore(name) : Stores.persistentKeyValueStore(name), TEXT, serde));
        }
        stream("input").process(() -> made.apply(params), "texts", "numbers")
            .process(() -> (Processor<String, String, Void, Void>) results::add);
    }

    /** What the recorded processors have: stores over all keys, whose own keys are in the order of the records' keys. */
    private abstract static class Kept implements Processor<String, String, String, String> {
        ProcessorContext<String, String> context;
        KeyValueStore<String, String> texts;
        KeyValueStore<String, Long> numbers;

        @Override
        public void init(ProcessorContext<String, String> given) {
            context = given;
            texts = given.getStateStore("texts");
            numbers = given.getStateStore("numbers");
        }

        static String ordered(String key) {
            return HexFormat.of().formatHex(key.getBytes(StandardCharsets.UTF_8));
        }

        static String plain(String ordered) {
            return new String(HexFormat.of().parseHex(ordered), StandardCharsets.UTF_8);
        }

        static <V> List<KeyValue<String, V>> all(KeyValueStore<String, V> store) {
            List<KeyValue<String, V>> found = new ArrayList<>();
            try (KeyValueIterator<String, V> entries = store.all()) {
                entries.forEachRemaining(found::add);
            }
            return found;
        }
    }

    /** Each value of a key once in a while of stream time. */
    private static final class Dedup extends Kept {
        private final long ttl;

        Dedup(JsonNode params) {
            ttl = params.get("ttl_ms").asLong();
        }

        @Override
        public void process(Record<String, String> record) {
            if (record.value() == null) {
                return;
            }
            String place = ordered(record.key()) + "/" + record.value();
            Long put = numbers.get(place);
            long now = context.currentStreamTimeMs();
            if (put == null || now >= put + ttl) {
                numbers.put(place, now);
                context.forward(record);
            }
        }
    }

    /** Records in the order of their timestamps, by a punctuation that looks through all that wait. */
    private static final class Reorder extends Kept {
        private final long wait;
        private long count;

        Reorder(JsonNode params) {
            wait = params.get("wait_ms").asLong();
        }

        @Override
        public void init(ProcessorContext<String, String> given) {
            super.init(given);
            given.schedule(Duration.ofMillis(1), PunctuationType.STREAM_TIME, this::punctuate);
        }

        @Override
        public void process(Record<String, String> record) {
            if (record.timestamp() + wait <= context.currentStreamTimeMs()) {
                context.forward(record);
                return;
            }
            texts.put(String.format("%019d/%s/%09d", record.timestamp(), ordered(record.key()), count++),
                record.value() == null ? "-" : "+" + record.value());
        }

        private void punctuate(long now) {
            for (KeyValue<String, String> entry : all(texts)) {
                String[] place = entry.key.split("/");
                long at = Long.parseLong(place[0]);
                if (at + wait <= now) {
                    texts.delete(entry.key);
                    String value = entry.value.equals("-") ? null : entry.value.substring(1);
                    context.forward(new Record<>(plain(place[1]), value, at));
                }
            }
        }
    }

    /** Changes of rows, which are deleted some time after the last one: looked for before each record, and punctuated. */
    private static final class Expire extends Kept {
        private final long ttl;

        Expire(JsonNode params) {
            ttl = params.get("ttl_ms").asLong();
        }

        @Override
        public void init(ProcessorContext<String, String> given) {
            super.init(given);
            given.schedule(Duration.ofMillis(1), PunctuationType.STREAM_TIME, this::expire);
        }

        @Override
        public void process(Record<String, String> record) {
            long now = context.currentStreamTimeMs();
            expire(now);
            numbers.put(ordered(record.key()), record.value() == null ? null : now + ttl);
            context.forward(record);
        }

        private void expire(long now) {
            List<KeyValue<String, Long>> due = all(numbers);
            due.removeIf(entry -> entry.value > now);
            due.sort(Comparator.comparing((KeyValue<String, Long> entry) -> entry.value)
                .thenComparing(entry -> entry.key));
            for (KeyValue<String, Long> entry : due) {
                numbers.delete(entry.key);
                context.forward(new Record<>(plain(entry.key), null, entry.value));
            }
        }
    }

    /** Counts, those that have changed at each tick of the wall clock. */
    private static final class Totals extends Kept {
        private final Duration every;

        Totals(JsonNode params) {
            every = ms(params.get("every_ms"));
        }

        @Override
        public void init(ProcessorContext<String, String> given) {
            super.init(given);
            given.schedule(every, PunctuationType.WALL_CLOCK_TIME, this::punctuate);
        }

        @Override
        public void process(Record<String, String> record) {
            String place = ordered(record.key());
            Long total = numbers.get(place);
            numbers.put(place, total == null ? 1 : total + 1);
            texts.put(place, "changed");
        }

        private void punctuate(long now) {
            for (KeyValue<String, String> entry : all(texts)) {
                texts.delete(entry.key);
                context.forward(new Record<>(plain(entry.key), Long.toString(numbers.get(entry.key)), now));
            }
        }
    }

    private Consumed<String, String> consumed() {
        Consumed<String, String> consumed = Consumed.with(TEXT, TEXT);
        String policy = params.path("timestamp").asText();
        return policy.isEmpty() ? consumed : consumed.withTimestampExtractor(extractor(policy));
    }

    /** The time behind the sign @ of a value; where there is none, that of the record, or none at all. */
    private static TimestampExtractor extractor(String policy) {
        return (record, partitionTime) -> {
            String value = (String) record.value();
            int sign = value == null ? -1 : value.indexOf('@');
            long told = sign < 0 ? -1 : Long.parseLong(value.substring(sign + 1));
            return told >= 0 ? told : policy.equals("own") ? record.timestamp() : -1;
        };
    }

    private KStream<String, String> stream(String topic) {
        return builder.stream(topic, consumed());
    }

    private KTable<String, String> joined(KTable<String, String> left, KTable<String, String> right) {
        return switch (params.get("type").asText()) {
            case "inner" -> left.join(right, PLUS);
            case "left" -> left.leftJoin(right, PLUS);
            default -> left.outerJoin(right, PLUS);
        };
    }

    private KStream<String, String> joined(KStream<String, String> left, KTable<String, String> right) {
        Joined<String, String, String> with = Joined.with(TEXT, TEXT, TEXT);
        with = params.has("grace_ms") ? with.withGracePeriod(ms(params.get("grace_ms"))) : with;
        return params.get("type").asText().equals("inner") ? left.join(right, PLUS, with) : left.leftJoin(right, PLUS, with);
    }

    private KStream<String, String> joined(KStream<String, String> left, KStream<String, String> right) {
        JoinWindows windows = JoinWindows
            .ofTimeDifferenceAndGrace(Duration.ZERO, ms(params.get("grace_ms")))
            .before(ms(params.get("before_ms"))).after(ms(params.get("after_ms")));
        StreamJoined<String, String, String> with = StreamJoined.with(TEXT, TEXT, TEXT);
        return switch (params.get("type").asText()) {
            case "inner" -> left.join(right, PLUS, windows, with);
            case "left" -> left.leftJoin(right, PLUS, windows, with);
            default -> left.outerJoin(right, PLUS, windows, with);
        };
    }

    private KTable<String, String> table(String topic) {
        Consumed<String, String> consumed = consumed();
        KTable<String, String> table;
        if (params.has(topic + "_versioned_ms")) {
            table = builder.table(topic, consumed, Materialized.<String, String>as(
                    Stores.persistentVersionedKeyValueStore(topic + "-store", ms(params.get(topic + "_versioned_ms"))))
                .withKeySerde(TEXT).withValueSerde(TEXT));
        } else if (params.path(topic + "_materialized").asBoolean()) {
            table = builder.table(topic, consumed, Materialized.as(topic + "-store"));
        } else {
            table = builder.table(topic, consumed);
        }
        return ops(table, params.path(topic + "_ops"));
    }

    private static KTable<String, String> ops(KTable<String, String> table, JsonNode all) {
        for (JsonNode op : all) {
            table = switch (op.get("op").asText()) {
                case "filter" -> table.filter((key, value) -> even(value));
                case "filter_not" -> table.filterNot((key, value) -> even(value));
                case "map_values" -> table.mapValues(value -> value.endsWith("3") ? null : "m(" + value + ")");
                case "suppress" -> table.suppress(Suppressed.<String>untilTimeLimit(ms(op.get("ms")), buffer(op)));
                default -> throw new IllegalArgumentException("no such operation: " + op);
            };
        }
        return table;
    }

    private static Suppressed.BufferConfig<?> buffer(JsonNode spec) {
        if (!spec.has("max_records") && !spec.has("max_bytes")) {
            return Suppressed.BufferConfig.unbounded();
        }
        Suppressed.EagerBufferConfig config = Suppressed.BufferConfig.maxRecords(
            spec.path("max_records").asLong(Long.MAX_VALUE));
        return spec.has("max_bytes") ? config.withMaxBytes(spec.get("max_bytes").asLong()) : config;
    }

    private KTable<String, String> aggregated(KTable<String, String> table) {
        return folded(table.groupBy((key, value) -> KeyValue.pair(ref(value), payload(value)), GROUPED));
    }

    private KTable<String, String> folded(KGroupedTable<String, String> grouped) {
        Materialized<String, String, org.apache.kafka.streams.state.KeyValueStore<org.apache.kafka.common.utils.Bytes, byte[]>>
            stored = Materialized.with(TEXT, TEXT);
        return switch (params.path("agg").asText("log")) {
            case "log" -> grouped.aggregate(ZERO, ADD, TAKE, stored);
            case "reduce" -> grouped.reduce((all, value) -> all + "+" + value, (all, value) -> all + "-" + value, stored);
            case "set" -> grouped.aggregate(() -> "", (key, value, all) -> with(all, value),
                (key, value, all) -> without(all, value), stored);
            default -> throw new IllegalArgumentException("no such aggregate");
        };
    }

    private static String with(String set, String value) {
        List<String> members = new ArrayList<>(set.isEmpty() ? List.of() : Arrays.asList(set.split(",", -1)));
        members.add(value);
        members.sort(null);
        return String.join(",", members);
    }

    private static String without(String set, String value) {
        List<String> members = new ArrayList<>(Arrays.asList(set.split(",", -1)));
        members.remove(value);
        return members.isEmpty() ? null : String.join(",", members);
    }

    private KTable<String, String> fk(
        KTable<String, String> left, KTable<String, String> right, String type, String key) {
        boolean second = params.path(key).asText("ref").equals("payload_ref");
        java.util.function.Function<String, String> foreign = value -> ref(second ? payload(value) : value);
        return params.get(type).asText().equals("inner")
            ? left.join(right, foreign, PLUS) : left.leftJoin(right, foreign, PLUS);
    }

    private KTable<?, String> cogroup() {
        CogroupedKStream<String, String> all = null;
        for (int number = 0; number < params.get("streams").asInt(); number++) {
            KGroupedStream<String, String> one = stream("s" + number).groupByKey(GROUPED);
            all = number == 0 ? one.cogroup(ADD) : all.cogroup(one, OF_STREAMS.get(number));
        }
        if (!params.has("window")) {
            return all.aggregate(ZERO, Materialized.with(TEXT, TEXT));
        }
        return suppressed(switch (params.get("window").asText()) {
            case "session" -> all.windowedBy(sessions()).aggregate(ZERO, MERGE, Materialized.with(TEXT, TEXT));
            case "sliding" -> all.windowedBy(sliding()).aggregate(ZERO, Materialized.with(TEXT, TEXT));
            case "unlimited" -> all.windowedBy(UnlimitedWindows.of().startOn(Instant.ofEpochMilli(
                params.path("start_ms").asLong()))).aggregate(ZERO, Materialized.with(TEXT, TEXT));
            default -> all.windowedBy(times()).aggregate(ZERO, Materialized.with(TEXT, TEXT));
        });
    }

    private KTable<Windowed<String>, String> windowed(KGroupedStream<String, String> grouped) {
        EmitStrategy emit = params.path("emit").asText("update").equals("close")
            ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
        return suppressed(switch (params.get("window").asText()) {
            case "session" -> grouped.windowedBy(sessions()).emitStrategy(emit)
                .aggregate(ZERO, ADD, MERGE, Materialized.with(TEXT, TEXT));
            case "sliding" -> grouped.windowedBy(sliding()).emitStrategy(emit)
                .aggregate(ZERO, ADD, Materialized.with(TEXT, TEXT));
            default -> grouped.windowedBy(times()).emitStrategy(emit)
                .aggregate(ZERO, ADD, Materialized.with(TEXT, TEXT));
        });
    }

    private SessionWindows sessions() {
        return SessionWindows.ofInactivityGapAndGrace(ms(params.get("gap_ms")), ms(params.get("grace_ms")));
    }

    private SlidingWindows sliding() {
        return SlidingWindows.ofTimeDifferenceAndGrace(ms(params.get("difference_ms")), ms(params.get("grace_ms")));
    }

    private TimeWindows times() {
        TimeWindows windows = TimeWindows.ofSizeAndGrace(ms(params.get("size_ms")), ms(params.get("grace_ms")));
        return params.has("advance_ms") ? windows.advanceBy(ms(params.get("advance_ms"))) : windows;
    }

    private KTable<Windowed<String>, String> suppressed(KTable<Windowed<String>, String> table) {
        JsonNode spec = params.path("suppress");
        return switch (spec.path("until").asText()) {
            case "window_closes" -> table.suppress(
                Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()));
            case "time_limit" -> table.suppress(
                Suppressed.<Windowed<?>>untilTimeLimit(ms(spec.get("ms")), buffer(spec)));
            default -> table;
        };
    }

    private KTable<String, String> grouped(KTable<Windowed<String>, String> table) {
        boolean byStart = params.path("group").asText("key").equals("start");
        return folded(table.groupBy((window, value) -> KeyValue.pair(
            byStart ? Long.toString(window.window().start()) : window.key(), value), GROUPED));
    }

    private <K> void end(KTable<K, String> table) {
        end(table.toStream());
    }

    private <K> void end(KStream<K, String> stream) {
        stream.process(() -> (Processor<K, String, Void, Void>) results::add);
    }

    private static Properties settings(JsonNode params) {
        Properties settings = new Properties();
        settings.put("application.id", "recorded");
        settings.put("bootstrap.servers", "none:1");
        settings.put("state.dir", System.getProperty("java.io.tmpdir") + File.separator + "recorded-state");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        settings.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);
        if (params.path("headers").asBoolean()) {
            settings.put("dsl.store.format", "headers");
        }
        if (params.path("store").asText().equals("in_memory")) {
            settings.put("dsl.store.suppliers.class",
                "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers");
        }
        return settings;
    }

    private void run(ObjectNode history) {
        Topology topology = topology(history.get("kind").asText());
        Map<String, TestInputTopic<String, String>> inputs = new HashMap<>();
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, settings(params), Instant.ofEpochMilli(0))) {
            int number = 0;
            for (JsonNode step : history.get("steps")) {
                RecordHeaders headers = new RecordHeaders();
                if (params.path("headers").asBoolean()) {
                    headers.add("step", Integer.toString(number++).getBytes(StandardCharsets.UTF_8));
                }
                if (step.has("advance_wall_clock_ms")) {
                    driver.advanceWallClockTime(ms(step.get("advance_wall_clock_ms")));
                } else {
                    inputs.computeIfAbsent(step.get("topic").asText(),
                        topic -> driver.createInputTopic(topic, new StringSerializer(), new StringSerializer()))
                    .pipeInput(new TestRecord<>(
                        text(step.get("key")), text(step.get("value")), headers, step.get("ts").asLong()));
                }
                ArrayNode expect = ((ObjectNode) step).putArray("expect");
                results.forEach(record -> write(expect.addObject(), record, params.path("headers").asBoolean()));
                results.clear();
            }
        }
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    private static void write(ObjectNode result, Record<?, String> record, boolean headers) {
        if (record.key() instanceof Windowed<?> window) {
            result.putObject("key").put("key", (String) window.key())
                .put("start", window.window().start()).put("end", window.window().end());
        } else {
            result.put("key", (String) record.key());
        }
        result.put("value", record.value()).put("ts", record.timestamp());
        if (headers) {
            ArrayNode steps = result.putArray("headers");
            for (Header header : record.headers()) {
                steps.add(Integer.parseInt(new String(header.value(), StandardCharsets.UTF_8)));
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode given = (ObjectNode) JSON.readTree(line);
            ObjectNode history = JSON.createObjectNode();
            for (String name : List.of("id", "kind", "params")) {
                history.set(name, given.get(name));
            }
            history.put("semantics", "current").put("kafka_version", VERSION).set("steps", given.get("steps"));
            new Recorder(history.get("params")).run(history);
            out.println(JSON.writeValueAsString(history));
        }
        out.flush();
    }
}
