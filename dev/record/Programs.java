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
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.ProcessingContext;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Runs drawn topologies through Kafka Streams' own test driver: a line of JSON in (a blueprint's operators, records),
 * a line out: of each record, and of the advances of the wall clock behind it, what came out; what named stores have
 * in the end; or why Kafka Streams refused the topology. The operators and their functions are those of
 * proof/histories/kinds, the instructions of processors those of proof/oracle/streams/programs.py.
 */
public final class Programs {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Serde<String> TEXT = Serdes.String();
    private static final Grouped<String, String> GROUPED = Grouped.with(TEXT, TEXT);
    private static final ValueJoiner<String, String, String> PLUS = (left, right) -> left + "+" + right;

    private final StreamsBuilder builder = new StreamsBuilder();
    private final ArrayNode results = JSON.createArrayNode();
    private final Map<String, Boolean> stores = new TreeMap<>();
    private long wallMoment;

    private static String ref(String value) {
        int bar = value == null ? -1 : value.indexOf('|');
        return bar <= 0 ? null : value.substring(0, bar);
    }

    private static boolean even(String value) {
        for (int at = value == null ? -1 : value.length() - 1; at >= 0; at--) {
            if (Character.isDigit(value.charAt(at))) {
                return (value.charAt(at) - '0') % 2 == 0;
            }
        }
        return false;
    }

    private static boolean holds(String predicate, String value) {
        return value != null
            && (predicate.equals("even") ? even(value) : value.codePointCount(0, value.length()) > 2);
    }

    private static String mapped(String value) {
        return value == null || value.endsWith("3") ? null : "m(" + value + ")";
    }

    private static List<String> pieces(String value) {
        if (value == null || value.equals("x")) {
            return List.of();
        }
        List<String> parts = new ArrayList<>(Arrays.asList(value.split("\\|", -1)));
        if (parts.size() > 2) {
            parts.add(null);
        }
        return parts;
    }

    private static String withoutFirst(String value) {
        return value.isEmpty() ? null : value.substring(value.offsetByCodePoints(0, 1));
    }

    private static Duration ms(long number) {
        return Duration.ofMillis(number);
    }

    /** What adds to an aggregate, takes back from it, and makes one of two. */
    private record Fold(
        Initializer<String> first,
        Aggregator<String, String, String> add,
        Aggregator<String, String, String> take,
        Merger<String, String> merge) {

        static Fold of(String name) {
            Aggregator<String, String, String> plus = (key, value, all) -> all + "+" + value;
            Aggregator<String, String, String> minus = (key, value, all) -> all + "-" + value;
            return switch (name) {
                case "log" -> new Fold(() -> "0", plus, minus, (key, one, other) -> one + "&" + other);
                case "reset" -> new Fold(() -> "0",
                    (key, value, all) -> String.valueOf(value).endsWith("3") ? null : all + "+" + value,
                    null, (key, one, other) -> one + "+" + other);
                case "set" -> new Fold(() -> "", (key, value, all) -> with(all, value),
                    (key, value, all) -> without(all, value), null);
                default -> throw new IllegalArgumentException("no such fold: " + name);
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
            String all = String.join(",", members);
            return all.isEmpty() ? null : all;
        }
    }

    /** One operator: its number, its parameters, and what it reads. */
    private record Site(int number, JsonNode params, List<Object> inputs) {
        @SuppressWarnings("unchecked")
        KStream<String, String> stream(int input) {
            return (KStream<String, String>) inputs.get(input);
        }

        @SuppressWarnings("unchecked")
        KTable<String, String> table(int input) {
            return (KTable<String, String>) inputs.get(input);
        }

        @SuppressWarnings("unchecked")
        KTable<Windowed<String>, String> windowed(int input) {
            return (KTable<Windowed<String>, String>) inputs.get(input);
        }

        String name() {
            return "n" + number;
        }

        String how() {
            return params.get("how").asText();
        }

        boolean stored() {
            return params.path("stored").asBoolean();
        }

        /** Where its rows are kept: a store by name, one with a history, or what Kafka Streams takes by itself. */
        <V> Materialized<String, V, KeyValueStore<Bytes, byte[]>> kept(Serde<V> values) {
            if (params.has("history")) {
                return Materialized.<String, V>as(
                    Stores.persistentVersionedKeyValueStore(name() + "-store", ms(params.get("history").asLong())))
                    .withKeySerde(TEXT).withValueSerde(values);
            }
            Materialized<String, V, KeyValueStore<Bytes, byte[]>> none = Materialized.with(TEXT, values);
            return stored()
                ? Materialized.<String, V, KeyValueStore<Bytes, byte[]>>as(name() + "-store")
                    .withKeySerde(TEXT).withValueSerde(values)
                : none;
        }

        boolean named() {
            return stored() || params.has("history");
        }
    }

    private List<Object> made(String kind, Site site) {
        JsonNode params = site.params;
        return switch (kind) {
            case "stream" -> List.of(builder.stream(site.name(), Consumed.with(TEXT, TEXT)));
            case "table" -> List.of(site.named()
                ? builder.table(site.name(), Consumed.with(TEXT, TEXT), site.kept(TEXT))
                : builder.table(site.name(), Consumed.with(TEXT, TEXT)));
            case "global" -> List.of(site.named()
                ? builder.globalTable(site.name(), Consumed.with(TEXT, TEXT), site.kept(TEXT))
                : builder.globalTable(site.name(), Consumed.with(TEXT, TEXT)));
            case "process" -> List.of(processed(site));
            case "transform_values" -> List.of(site.stored()
                ? site.table(0).transformValues(Transforming::new, site.kept(TEXT))
                : site.table(0).transformValues(Transforming::new));
            case "filter" -> {
                boolean negate = params.get("negate").asBoolean();
                String predicate = params.get("holds").asText();
                yield List.of(negate
                    ? site.stream(0).filterNot((key, value) -> holds(predicate, value))
                    : site.stream(0).filter((key, value) -> holds(predicate, value)));
            }
            case "map_values" -> List.of(site.stream(0).mapValues(Programs::mapped));
            case "select_key" -> List.of(site.stream(0).selectKey((key, value) -> ref(value)));
            case "select_one" -> List.of(site.stream(0).selectKey((key, value) -> value == null ? null : "a"));
            case "map" -> List.of(site.stream(0).map((key, value) -> KeyValue.pair(ref(value), mapped(value))));
            case "flat_map_values" -> List.of(site.stream(0).flatMapValues(Programs::pieces));
            case "flat_map" -> List.of(site.stream(0).flatMap((key, value) ->
                pieces(value).stream().map(part -> KeyValue.pair(ref(part), part)).toList()));
            case "peek" -> List.of(site.stream(0).peek((key, value) -> even(value)));
            case "merge" -> List.of(site.stream(0).merge(site.stream(1)));
            case "split" -> split(site);
            case "repartition" -> List.of(site.stream(0).repartition(Repartitioned.with(TEXT, TEXT)));
            case "to_table" -> List.of(site.named()
                ? site.stream(0).toTable(site.kept(TEXT)) : site.stream(0).toTable());
            case "stream_table" -> {
                Joined<String, String, String> joined = Joined.with(TEXT, TEXT, TEXT);
                if (params.has("grace")) {
                    joined = joined.withGracePeriod(ms(params.get("grace").asLong()));
                }
                yield List.of(site.how().equals("inner")
                    ? site.stream(0).join(site.table(1), PLUS, joined)
                    : site.stream(0).leftJoin(site.table(1), PLUS, joined));
            }
            case "stream_global" -> {
                @SuppressWarnings("unchecked")
                GlobalKTable<String, String> table = (GlobalKTable<String, String>) site.inputs.get(1);
                KeyValueMapper<String, String, String> key = (k, value) -> ref(value);
                yield List.of(site.how().equals("inner")
                    ? site.stream(0).join(table, key, PLUS) : site.stream(0).leftJoin(table, key, PLUS));
            }
            case "stream_stream" -> List.of(streams(site));
            case "to" -> ended(site.stream(0), site);
            case "table_filter", "windowed_filter" -> List.of(filtered(site.table(0), site));
            case "table_map_values", "windowed_map_values" -> List.of(site.stored()
                ? site.table(0).mapValues(Programs::mapped, site.kept(TEXT))
                : site.table(0).mapValues(Programs::mapped));
            case "to_stream" -> List.of(site.table(0).toStream());
            case "table_to" -> ended(((KTable<?, String>) site.inputs.get(0)).toStream(), site);
            case "table_table" -> List.of(tables(site));
            case "foreign_key" -> List.of(foreign(site));
            case "stream_aggregate" -> List.of(aggregated(site, site.stream(0).groupByKey(GROUPED)));
            case "cogroup" -> List.of(cogrouped(site).aggregate(() -> "0", site.kept(TEXT)));
            case "table_aggregate" -> List.of(grouped(site, site.table(0).groupBy(
                (key, value) -> KeyValue.pair(ref(value), withoutFirst(value)), GROUPED)));
            case "window_aggregate" -> List.of(windows(site, site.stream(0).groupByKey(GROUPED)));
            case "window_cogroup" -> List.of(windows(site, cogrouped(site)));
            case "windowed_stream" -> List.of(site.windowed(0).toStream().selectKey((key, value) -> ref(value)));
            case "windowed_group" -> List.of(grouped(site, params.get("by").asText().equals("value")
                ? site.windowed(0).groupBy((key, value) -> KeyValue.pair(ref(value), withoutFirst(value)), GROUPED)
                : site.windowed(0).groupBy((key, value) -> KeyValue.pair(key.key(), value), GROUPED)));
            case "suppress" -> List.of(site.table(0).suppress(limit(site)));
            case "windowed_suppress" -> List.of(params.get("closes").asBoolean()
                ? site.windowed(0).suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
                : site.windowed(0).suppress(limit(site)));
            default -> throw new IllegalArgumentException("no such kind: " + kind);
        };
    }

    private static <K> KTable<K, String> filtered(KTable<K, String> table, Site site) {
        boolean negate = site.params.get("negate").asBoolean();
        Predicate<K, String> holds = (key, value) -> even(value);
        if (site.stored()) {
            Materialized<K, String, KeyValueStore<Bytes, byte[]>> kept =
                Materialized.<K, String, KeyValueStore<Bytes, byte[]>>as(site.name() + "-store").withValueSerde(TEXT);
            return negate ? table.filterNot(holds, kept) : table.filter(holds, kept);
        }
        return negate ? table.filterNot(holds) : table.filter(holds);
    }

    private static List<Object> split(Site site) {
        String first = site.params.get("first").asText();
        String second = first.equals("even") ? "long" : "even";
        var split = site.stream(0).split(Named.as(site.name() + "-"))
            .branch((key, value) -> holds(first, value), Branched.as("first"))
            .branch((key, value) -> holds(second, value), Branched.as("second"));
        boolean rest = site.params.get("rest").asBoolean();
        var branches = rest ? split.defaultBranch(Branched.as("rest")) : split.noDefaultBranch();
        return List.of(branches.get(site.name() + "-first"),
            branches.get(site.name() + (rest ? "-rest" : "-second")));
    }

    private static KStream<String, String> streams(Site site) {
        long before = site.params.get("before").asLong();
        long after = site.params.get("after").asLong();
        JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(
            ms(Math.max(Math.abs(before), Math.abs(after))), ms(site.params.get("grace").asLong()))
            .before(ms(before)).after(ms(after));
        StreamJoined<String, String, String> joined = StreamJoined.with(TEXT, TEXT, TEXT);
        KStream<String, String> left = site.stream(0);
        KStream<String, String> right = site.stream(1);
        return switch (site.how()) {
            case "inner" -> left.join(right, PLUS, windows, joined);
            case "left" -> left.leftJoin(right, PLUS, windows, joined);
            default -> left.outerJoin(right, PLUS, windows, joined);
        };
    }

    private static KTable<String, String> tables(Site site) {
        KTable<String, String> left = site.table(0);
        KTable<String, String> right = site.table(1);
        if (!site.stored()) {
            return switch (site.how()) {
                case "inner" -> left.join(right, PLUS);
                case "left" -> left.leftJoin(right, PLUS);
                default -> left.outerJoin(right, PLUS);
            };
        }
        return switch (site.how()) {
            case "inner" -> left.join(right, PLUS, site.kept(TEXT));
            case "left" -> left.leftJoin(right, PLUS, site.kept(TEXT));
            default -> left.outerJoin(right, PLUS, site.kept(TEXT));
        };
    }

    private static KTable<String, String> foreign(Site site) {
        Function<String, String> key = Programs::ref;
        return site.how().equals("inner")
            ? site.table(0).join(site.table(1), key, PLUS, site.kept(TEXT))
            : site.table(0).leftJoin(site.table(1), key, PLUS, site.kept(TEXT));
    }

    private static KTable<String, String> aggregated(Site site, KGroupedStream<String, String> grouped) {
        String fold = site.params.get("fold").asText();
        return switch (fold) {
            case "count" -> grouped.count(site.kept(Serdes.Long())).mapValues(String::valueOf);
            case "reduce" -> grouped.reduce((all, value) -> all + "+" + value, site.kept(TEXT));
            default -> grouped.aggregate(Fold.of(fold).first, Fold.of(fold).add, site.kept(TEXT));
        };
    }

    private static KTable<String, String> grouped(Site site, KGroupedTable<String, String> grouped) {
        String fold = site.params.get("fold").asText();
        return switch (fold) {
            case "count" -> grouped.count(site.kept(Serdes.Long())).mapValues(String::valueOf);
            case "reduce" -> grouped.reduce(
                (all, value) -> all + "+" + value, (all, value) -> all + "-" + value, site.kept(TEXT));
            default -> grouped.aggregate(Fold.of(fold).first, Fold.of(fold).add, Fold.of(fold).take, site.kept(TEXT));
        };
    }

    private static CogroupedKStream<String, String> cogrouped(Site site) {
        Fold log = Fold.of("log");
        return site.stream(0).groupByKey(GROUPED).<String>cogroup(log.add)
            .cogroup(site.stream(1).groupByKey(GROUPED), log.take);
    }

    private static KTable<Windowed<String>, String> windows(Site site, KGroupedStream<String, String> grouped) {
        EmitStrategy emit = site.params.get("close").asBoolean()
            ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
        return switch (site.params.get("windows").asText()) {
            case "session" -> sessions(site, grouped.windowedBy(gap(site)).emitStrategy(emit));
            case "sliding" -> times(site, grouped.windowedBy(difference(site)).emitStrategy(emit));
            case "unlimited" -> times(site, grouped.windowedBy(unlimited(site)));
            default -> times(site, grouped.windowedBy(sizes(site)).emitStrategy(emit));
        };
    }

    private static KTable<Windowed<String>, String> windows(Site site, CogroupedKStream<String, String> grouped) {
        Initializer<String> first = () -> "0";
        return switch (site.params.get("windows").asText()) {
            case "session" -> grouped.windowedBy(gap(site)).aggregate(first, Fold.of("log").merge, Materialized.with(TEXT, TEXT));
            case "sliding" -> grouped.windowedBy(difference(site)).aggregate(first, Materialized.with(TEXT, TEXT));
            case "unlimited" -> grouped.windowedBy(unlimited(site)).aggregate(first, Materialized.with(TEXT, TEXT));
            default -> grouped.windowedBy(sizes(site)).aggregate(first, Materialized.with(TEXT, TEXT));
        };
    }

    private static KTable<Windowed<String>, String> sessions(
        Site site, SessionWindowedKStream<String, String> grouped) {
        String fold = site.params.get("fold").asText();
        return switch (fold) {
            case "count" -> grouped.count().mapValues(String::valueOf);
            case "reduce" -> grouped.reduce((all, value) -> all + "+" + value, Materialized.with(TEXT, TEXT));
            default -> grouped.aggregate(
                Fold.of(fold).first, Fold.of(fold).add, Fold.of(fold).merge, Materialized.with(TEXT, TEXT));
        };
    }

    private static KTable<Windowed<String>, String> times(Site site, TimeWindowedKStream<String, String> grouped) {
        String fold = site.params.get("fold").asText();
        return switch (fold) {
            case "count" -> grouped.count().mapValues(String::valueOf);
            case "reduce" -> grouped.reduce((all, value) -> all + "+" + value, Materialized.with(TEXT, TEXT));
            default -> grouped.aggregate(Fold.of(fold).first, Fold.of(fold).add, Materialized.with(TEXT, TEXT));
        };
    }

    private static Duration size(Site site) {
        return ms(site.params.get("size").asLong());
    }

    private static Duration grace(Site site) {
        return ms(site.params.get("grace").asLong());
    }

    private static SessionWindows gap(Site site) {
        return SessionWindows.ofInactivityGapAndGrace(size(site), grace(site));
    }

    private static SlidingWindows difference(Site site) {
        return SlidingWindows.ofTimeDifferenceAndGrace(size(site), grace(site));
    }

    private static UnlimitedWindows unlimited(Site site) {
        return UnlimitedWindows.of().startOn(Instant.ofEpochMilli(site.params.get("grace").asLong()));
    }

    private static TimeWindows sizes(Site site) {
        TimeWindows windows = TimeWindows.ofSizeAndGrace(size(site), grace(site));
        long size = site.params.get("size").asLong();
        return site.params.get("windows").asText().equals("tumbling") ? windows : windows.advanceBy(ms((size + 1) / 2));
    }

    private static <K> Suppressed<K> limit(Site site) {
        JsonNode records = site.params.path("records");
        return Suppressed.untilTimeLimit(ms(site.params.get("ms").asLong()), records.isMissingNode()
            ? Suppressed.BufferConfig.unbounded() : Suppressed.BufferConfig.maxRecords(records.asLong()));
    }

    private <K> List<Object> ended(KStream<K, String> stream, Site site) {
        stream.process(() -> (Processor<K, String, Void, Void>) record -> write(site.name(), record));
        return List.of();
    }

    private void write(String output, Record<?, String> record) {
        ArrayNode result = results.addArray();
        result.add(output);
        if (record.key() instanceof Windowed<?> window) {
            result.addArray().add((String) window.key()).add(window.window().start()).add(window.window().end());
        } else {
            result.add((String) record.key());
        }
        result.add(record.value()).add(record.timestamp());
    }

    private KStream<String, String> processed(Site site) {
        return site.params.path("rekeys").asBoolean()
            ? site.stream(0).process(() -> new Instructed(site.params))
            : site.stream(0).processValues(() -> new InstructedValues(site.params));
    }

    /** What a row of a table becomes. */
    private static final class Transforming implements ValueTransformerWithKey<String, String, String> {
        @Override
        public void init(org.apache.kafka.streams.processor.ProcessorContext context) {
        }

        @Override
        public String transform(String key, String value) {
            return value == null || value.codePointCount(0, value.length()) % 5 == 4 ? null : "T" + value;
        }

        @Override
        public void close() {
        }
    }

    /** An entry of a processor's store, and the last moment at which it is there. */
    private record Entry(Object value, long until) {
    }

    /** A timer: its moment, its key, and how many were set before it. */
    private record Timer(long moment, String key, long number, boolean wall) {
    }

    private static int byBytes(String one, String other) {
        return Arrays.compareUnsigned(one.getBytes(StandardCharsets.UTF_8), other.getBytes(StandardCharsets.UTF_8));
    }

    /** The instructions of a processor, with a state and timers for each key, as an author of one would keep them. */
    private abstract class Instructions {
        private final Comparator<Timer> order =
            Comparator.comparingLong(Timer::moment).thenComparing(Timer::key, Programs::byBytes);
        private final JsonNode params;
        private final Map<String, Map<String, TreeMap<Object, Entry>>> kept = new HashMap<>();
        private final List<Timer> timers = new ArrayList<>();
        private final List<Timer> atOnce = new ArrayList<>();
        private long reached = -1;
        private long count;
        private String key;
        private long stamp;
        private long time;

        Instructions(JsonNode params) {
            this.params = params;
        }

        abstract void send(String key, String value, long timestamp);

        abstract long wall();

        void begin(ProcessingContext context) {
            if (params.has("wall")) {
                context.schedule(Duration.ofMillis(1), PunctuationType.WALL_CLOCK_TIME, now -> byWall());
            }
        }

        void take(String recordKey, String value, long timestamp) {
            if (recordKey == null) {
                return;
            }
            reached = Math.max(reached, timestamp);
            for (Timer due = first(false, reached); due != null; due = first(false, reached)) {
                at(due.key, due.moment, due.moment);
                fire(due);
            }
            at(recordKey, timestamp, reached);
            run(params.get("record"), value == null ? "None" : value, timestamp);
            fireAtOnce();
        }

        private void byWall() {
            long before = wallMoment;
            for (Timer due = first(true, wall()); due != null; due = first(true, wall())) {
                wallMoment = due.moment;
                at(due.key, due.moment, reached);
                fire(due);
            }
            wallMoment = before;
        }

        private Timer first(boolean wall, long until) {
            return timers.stream().filter(each -> each.wall == wall && each.moment <= until).min(order).orElse(null);
        }

        private void fire(Timer due) {
            timers.remove(due);
            called(due);
            fireAtOnce();
        }

        private void called(Timer due) {
            run(params.get(due.wall ? "wall" : "timer"), (due.wall ? "w" : "t") + due.moment, due.moment);
        }

        private void fireAtOnce() {
            while (!atOnce.isEmpty()) {
                Timer due = atOnce.stream()
                    .min(Comparator.comparingLong(Timer::moment).thenComparingLong(Timer::number)).orElseThrow();
                atOnce.remove(due);
                stamp = due.moment;
                called(due);
            }
        }

        private void at(String present, long ts, long now) {
            key = present;
            stamp = ts;
            time = now;
        }

        private void setTimer(long moment, boolean wall) {
            List<Timer> into = moment <= (wall ? wallMoment : time) ? atOnce : timers;
            if (into.stream().noneMatch(each -> each.moment == moment && each.wall == wall && each.key.equals(key))) {
                into.add(new Timer(moment, key, count++, wall));
            }
        }

        private void deleteTimer(long moment, boolean wall) {
            atOnce.removeIf(each -> each.moment == moment && each.wall == wall);
            timers.removeIf(each -> each.moment == moment && each.wall == wall && each.key.equals(key));
        }

        private TreeMap<Object, Entry> entries(String store) {
            return kept.computeIfAbsent(store, name -> new HashMap<>())
                .computeIfAbsent(key, name -> new TreeMap<>((one, other) -> one instanceof Long number
                    ? Long.compare(number, (Long) other) : byBytes((String) one, (String) other)));
        }

        private TreeMap<Object, Object> here(String store) {
            TreeMap<Object, Object> found = new TreeMap<>(entries(store).comparator());
            entries(store).forEach((each, entry) -> {
                if (entry.until >= time) {
                    found.put(each, entry.value);
                }
            });
            return found;
        }

        private void put(String store, Object place, Object value) {
            JsonNode lasts = params.get("lasts").path(store);
            entries(store).put(place, new Entry(value, lasts.isMissingNode() ? Long.MAX_VALUE : time + lasts.asLong() - 1));
        }

        private void forward(String value) {
            forward(value, stamp);
        }

        private void forward(String value, long timestamp) {
            String under = key;
            if (params.path("rekeys").asBoolean()) {
                int length = value == null ? 0 : value.codePointCount(0, value.length());
                under = length % 5 == 4 ? null : length % 2 == 1 ? key + "x" : key;
            }
            send(under, value, timestamp);
        }

        private void run(JsonNode instructions, String value, long ts) {
            for (JsonNode each : instructions) {
                if (!done(each.get(0).asText(), each.path(1).asLong(), value, ts)) {
                    return;
                }
            }
        }

        private boolean done(String word, long more, String value, long ts) {
            switch (word) {
                case "forward" -> forward(value);
                case "later" -> forward(value, ts + 3);
                case "null" -> forward(null);
                case "time" -> forward("at " + time);
                case "wall" -> forward("by " + wall());
                case "set" -> setTimer(Math.max(0, ts + more), false);
                case "set_soon" -> setTimer(Math.max(0, time + more), false);
                case "delete" -> deleteTimer(Math.max(0, ts + more), false);
                case "set_wall" -> setTimer(Math.max(0, wall() + more), true);
                case "set_wall_near" -> setTimer(wall() / 20 * 20 + Math.max(0, more) * 4, true);
                case "delete_wall" -> deleteTimer(wall() / 20 * 20 + Math.max(0, more) * 4, true);
                default -> {
                    return kept(word, more, value, ts);
                }
            }
            return true;
        }

        private boolean kept(String word, long more, String value, long ts) {
            switch (word) {
                case "count" -> put("v", 0L, 1 + (Long) here("v").getOrDefault(0L, 0L));
                case "counted" -> forward("n" + (here("v").containsKey(0L) ? here("v").get(0L).toString() : "None"));
                case "reset" -> entries("v").remove(0L);
                case "again", "again_wall" -> {
                    long times = 1 + (Long) here("v").getOrDefault(0L, 0L);
                    put("v", 0L, times);
                    if (times % 4 != 0 && times < 40) {
                        setTimer(Math.max(0, ts + more), word.equals("again_wall"));
                    }
                }
                case "append" -> put("l", count++, value);
                case "listed" -> forward(String.join(",", here("l").values().stream().map(String::valueOf).toList()));
                case "shorten" -> {
                    List<Object> all = new ArrayList<>(here("l").values());
                    entries("l").clear();
                    all.subList(Math.max(0, all.size() - 2), all.size()).forEach(each -> put("l", count++, each));
                }
                case "once" -> {
                    if (here("m").containsKey(value)) {
                        return false;
                    }
                    put("m", value, ts);
                }
                case "latest" -> put("m", value, ts);
                case "forget" -> entries("m").remove(value);
                case "first" -> taken("m", ":");
                case "lowest" -> taken("n", "|");
                case "between" -> forward(texts(here("m").subMap("2", true, "b", true)));
                case "number" -> put("n", (long) value.codePointCount(0, value.length()) - 3, value);
                case "numbered" -> forward(texts(here("n").subMap(-2L, true, 1L, true)));
                default -> throw new IllegalArgumentException("no such word: " + word);
            }
            return true;
        }

        private void taken(String store, String between) {
            Map.Entry<Object, Object> first = here(store).firstEntry();
            if (first != null) {
                entries(store).remove(first.getKey());
                forward(first.getKey() + between + first.getValue());
            }
        }

        private static String texts(Map<Object, Object> rows) {
            return String.join(";", rows.entrySet().stream().map(row -> row.getKey() + "=" + row.getValue()).toList());
        }
    }

    /** Instructions that send under any key. */
    private final class Instructed extends Instructions implements Processor<String, String, String, String> {
        private ProcessorContext<String, String> context;

        Instructed(JsonNode params) {
            super(params);
        }

        @Override
        public void init(ProcessorContext<String, String> given) {
            context = given;
            begin(given);
        }

        @Override
        public void process(Record<String, String> record) {
            take(record.key(), record.value(), record.timestamp());
        }

        @Override
        void send(String key, String value, long timestamp) {
            context.forward(new Record<>(key, value, timestamp));
        }

        @Override
        long wall() {
            return context.currentSystemTimeMs();
        }
    }

    /** Instructions that keep the key; a timer's key may be another than that of the record at hand. */
    private final class InstructedValues extends Instructions implements FixedKeyProcessor<String, String, String> {
        private final Map<String, FixedKeyRecord<String, String>> seen = new HashMap<>();
        private FixedKeyProcessorContext<String, String> context;

        InstructedValues(JsonNode params) {
            super(params);
        }

        @Override
        public void init(FixedKeyProcessorContext<String, String> given) {
            context = given;
            begin(given);
        }

        @Override
        public void process(FixedKeyRecord<String, String> record) {
            if (record.key() != null) {
                seen.put(record.key(), record);
            }
            take(record.key(), record.value(), record.timestamp());
        }

        @Override
        void send(String key, String value, long timestamp) {
            context.forward(seen.get(key).withValue(value).withTimestamp(timestamp));
        }

        @Override
        long wall() {
            return context.currentSystemTimeMs();
        }
    }

    private static Properties settings() {
        Properties settings = new Properties();
        settings.put("application.id", "drawn");
        settings.put("bootstrap.servers", "none:1");
        settings.put("state.dir", System.getProperty("java.io.tmpdir") + File.separator + "drawn-state");
        settings.put("statestore.cache.max.bytes", "0");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        settings.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
        settings.put("__emit.interval.ms.kstreams.outer.join.spurious.results.fix__", 0L);


        return settings;
    }

    private void build(JsonNode program) {
        List<List<Object>> made = new ArrayList<>();
        for (JsonNode op : program.get("ops")) {
            List<Object> inputs = new ArrayList<>();
            op.get(1).forEach(input -> inputs.add(made.get(input.get(0).asInt()).get(input.get(1).asInt())));
            Site site = new Site(made.size(), op.get(2), inputs);
            if (site.named() && !op.get(0).asText().startsWith("window")) {
                stores.put(site.name(), site.params.has("history"));
            }
            made.add(made(op.get(0).asText(), site));
        }
    }

    private void run(JsonNode program, ObjectNode answer) {
        build(program);
        ArrayNode steps = answer.putArray("steps");
        try (TopologyTestDriver driver =
            new TopologyTestDriver(builder.build(), settings(), Instant.ofEpochMilli(0))) {
            var inputs = new HashMap<String, org.apache.kafka.streams.TestInputTopic<String, String>>();
            for (JsonNode record : program.get("records")) {
                inputs.computeIfAbsent(record.get(0).asText(),
                    topic -> driver.createInputTopic(topic, new StringSerializer(), new StringSerializer()))
                .pipeInput(new TestRecord<>(text(record.get(1)), text(record.get(2)),
                    Instant.ofEpochMilli(record.get(3).asLong())));
                for (JsonNode shown : program.path("clock")) {
                    if (shown.get(0).asInt() == steps.size() + 1) {
                        long wall = shown.get(1).asLong();
                        driver.advanceWallClockTime(ms(wall - wallMoment));
                        wallMoment = wall;
                    }
                }
                steps.add(results.deepCopy());
                results.removeAll();
            }
            ObjectNode rows = answer.putObject("stores");
            stores.forEach((name, versioned) -> rows.set(name, rows(driver, name + "-store", versioned, program)));
        }
    }

    /** The rows of a named store: key, value, timestamp; of one with a history the latest of the keys that are asked. */
    private static ArrayNode rows(TopologyTestDriver driver, String store, boolean versioned, JsonNode program) {
        ArrayNode rows = JSON.createArrayNode();
        if (versioned) {
            VersionedKeyValueStore<String, Object> kept = driver.getVersionedKeyValueStore(store);
            for (JsonNode key : program.path("keys")) {
                VersionedRecord<Object> row = kept.get(key.asText());
                if (row != null) {
                    rows.addArray().add(key.asText()).add(String.valueOf(row.value())).add(row.timestamp());
                }
            }
            return rows;
        }
        KeyValueStore<String, ValueAndTimestamp<Object>> kept = driver.getTimestampedKeyValueStore(store);
        try (KeyValueIterator<String, ValueAndTimestamp<Object>> all = kept.all()) {
            all.forEachRemaining(row -> rows.addArray()
                .add(row.key).add(String.valueOf(row.value.value())).add(row.value.timestamp()));
        }
        return rows;
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                new Programs().run(JSON.readTree(line), answer);
            } catch (RuntimeException error) {
                answer.removeAll();
                answer.put("error", error.toString());
            }
            out.println(JSON.writeValueAsString(answer));
        }
        out.flush();
    }
}
