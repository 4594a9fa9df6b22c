import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescription;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescriptionPlugin;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Branched;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TableJoined;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;

/** A program of Kafka Streams that is a streams group (KIP-1071): SERVERS GROUP FOLDER PROGRAM; it ends when standard input does. */
public final class StreamsGroup {
    private StreamsGroup() {}

    /** What a broker keeps descriptions of topologies with (KIP-1331): in its memory. */
    public static final class Descriptions implements StreamsGroupTopologyDescriptionPlugin {
        private final Map<String, StreamsGroupTopologyDescription> kept = new ConcurrentHashMap<>();

        @Override
        public void configure(Map<String, ?> settings) {}

        @Override
        public void close() {}

        @Override
        public CompletableFuture<Void> setTopology(String group, int epoch, StreamsGroupTopologyDescription topology) {
            kept.put(group, topology);
            return CompletableFuture.completedFuture(null);
        }

        @Override
        public CompletableFuture<Void> deleteTopology(String group) {
            kept.remove(group);
            return CompletableFuture.completedFuture(null);
        }

        @Override
        public CompletableFuture<StreamsGroupTopologyDescription> getTopology(String group, int epoch) {
            return CompletableFuture.completedFuture(kept.get(group));
        }
    }

    /** Operators without names, and some with. */
    static void joins(StreamsBuilder builder) {
        KStream<String, String> orders = builder.stream("orders");
        KTable<String, String> customers = builder.table("customers", Materialized.as("customers"));
        KTable<String, String> cities = builder.table("cities");
        KStream<String, String> large = orders.filter((key, value) -> true, Named.as("large"));
        large.join(customers, (order, customer) -> order + customer).to("with-customers");
        large.leftJoin(builder.globalTable("countries"), (key, value) -> value, (order, country) -> order).to("with-countries");
        large.groupBy((key, value) -> value, Grouped.as("by-value")).count(Materialized.as("counts")).toStream()
            .mapValues(count -> "" + count).to("counted");
        KStream<String, String> payments = builder.stream(Arrays.asList("payments", "refunds"));
        orders.mapValues(value -> value).outerJoin(
            payments, (order, payment) -> order, JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMinutes(5))
        ).to("paid");
        customers.leftJoin(cities, value -> value, (customer, city) -> customer).toStream().to("placed");
        customers.join(cities, (customer, city) -> customer).filter((key, value) -> true).toStream().peek((key, value) -> {})
            .to("same");
    }

    /** The others, and the names that users give to parts of operators. */
    static void others(StreamsBuilder builder) {
        KStream<String, String> orders = builder.stream("orders", Consumed.as("orders-in"));
        KTable<String, String> customers = builder.table("customers", Consumed.as("customers-in"));
        KTable<String, String> cities = builder.table("cities", Consumed.as("cities-in"));
        customers.join(cities, value -> value, (customer, city) -> customer, TableJoined.as("living"))
            .toStream(Named.as("changes")).to("placed", Produced.as("places"));
        customers.leftJoin(cities, (customer, city) -> customer, Named.as("same-key")).groupBy(KeyValue::pair)
            .reduce((sum, value) -> value, (sum, value) -> sum, Materialized.as("by-city")).toStream().to("same");
        orders.leftJoin(
            builder.stream("payments"), (order, payment) -> order,
            JoinWindows.ofTimeDifferenceWithNoGrace(Duration.ofMinutes(5)), StreamJoined.as("paying")
        ).to("paid");
        Map<String, KStream<String, String>> kinds = orders.split(Named.as("kind-"))
            .branch((key, value) -> value.isEmpty(), Branched.as("empty")).defaultBranch(Branched.as("other"));
        kinds.get("kind-empty").merge(kinds.get("kind-other")).repartition(Repartitioned.as("spread"))
            .flatMapValues(value -> List.of(value)).to("refunds");
        builder.<String, String>stream("refunds").selectKey((key, value) -> value).groupByKey()
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1))).count(Materialized.as("minutes"))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream((window, count) -> window.key()).mapValues(Object::toString).toTable(Materialized.as("last"))
            .toStream().to("counted");
        orders.process(Forwarding::new, Named.as("own-code")).to("with-customers");
        orders.split().branch((key, value) -> value.isEmpty(), Branched.withConsumer(empty -> empty.to("with-countries")));
    }

    private static final class Forwarding extends ContextualProcessor<String, String, String, String> {
        @Override
        public void process(Record<String, String> record) {
            context().forward(record);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        StreamsBuilder builder = new StreamsBuilder();
        if (arguments[3].equals("joins")) {
            joins(builder);
        } else {
            others(builder);
        }
        KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
        streams.setStateListener((now, before) -> System.out.println(now));
        streams.start();
        while (System.in.read() >= 0) {}
        streams.close(Duration.ofSeconds(5));
    }
}
