import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;

/** The same topologies in Kafka Streams, for the comparison: runs until its standard input is closed. */
public final class StreamsBench {
    private static final Consumed<Long, String> WITH = Consumed.with(Serdes.Long(), Serdes.String());
    private static final Duration WINDOW = Duration.ofSeconds(10);

    private StreamsBench() {}

    /**
     * Arguments: servers, workload, input topics and output topics (with commas), application id, bytes of record cache,
     * state folder.
     */
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[4]);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, Long.parseLong(args[5]));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[6]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        build(builder, args[1], args[2].split(","), args[3].split(","));
        KafkaStreams streams = new KafkaStreams(builder.build(settings), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        streams.start();
        while (System.in.read() >= 0) {}
        streams.close();
    }

    private static void build(StreamsBuilder builder, String workload, String[] in, String[] out) {
        switch (workload) {
            case "orders":
                JsonWorkloads.orders(builder, in, out);
                break;
            case "demo":
                Demo.build(builder, in, out);
                break;
            case "dedup":
            case "dedup_hot":
            case "dedup_step":
                Dedup.build(builder, in, out);
                break;
            case "enrich":
                JsonWorkloads.enrich(builder, in, out);
                break;
            case "trickle1":
            case "trickle3":
                trickle(builder, in).to(out[0], Produced.with(Serdes.Long(), Serdes.String()));
                break;
            case "large_states":
                builder.stream(in[0], WITH)
                    .groupByKey(Grouped.with(Serdes.Long(), Serdes.String()))
                    .reduce((before, latest) -> latest)
                    .mapValues(latest -> latest.substring(0, 8))
                    .toStream().to(out[0], Produced.with(Serdes.Long(), Serdes.String()));
                break;
            case "multi_join":
            case "join_chain":
                chain(builder, in).to(out[0], Produced.with(Serdes.Long(), Serdes.String()));
                break;
            default:
                if (workload.startsWith("nexmark_")) {
                    Nexmark.build(builder, workload, in, out);
                    return;
                }
                if (!Aggregates.build(builder, workload, in, out)) {
                    joined(builder, workload, in[0], in[1]).to(out[0], Produced.with(Serdes.Long(), Serdes.String()));
                }
        }
    }

    private static KStream<Long, String> joined(StreamsBuilder builder, String workload, String left, String right) {
        switch (workload) {
            case "table_table":
                return builder.table(left, WITH).join(builder.table(right, WITH), String::concat).toStream();
            case "stream_table":
                return builder.stream(left, WITH).join(builder.table(right, WITH), String::concat);
            case "foreign_key":
                KTable<Long, String> referred = builder.table(right, WITH);
                return builder.table(left, WITH).join(referred, StreamsBench::reference, String::concat).toStream();
            case "stream_stream":
                return builder.stream(left, WITH).join(
                    builder.stream(right, WITH),
                    String::concat,
                    JoinWindows.ofTimeDifferenceAndGrace(WINDOW, WINDOW),
                    StreamJoined.with(Serdes.Long(), Serdes.String(), Serdes.String()));
            default:
                throw new IllegalArgumentException("no workload " + workload);
        }
    }

    /** A stream joined with all tables, keyed anew in between. */
    private static KStream<Long, String> trickle(StreamsBuilder builder, String[] topics) {
        KStream<Long, String> joined = builder.stream(topics[0], WITH);
        for (int number = 1; number < topics.length; number++) {
            if (number > 1) {
                joined = joined.selectKey((key, value) -> (key * 7 + 1) % 1000);
            }
            joined = joined.join(
                builder.table(topics[number], WITH),
                String::concat,
                Joined.with(Serdes.Long(), Serdes.String(), Serdes.String()));
        }
        return joined;
    }

    /** All tables, joined two by two. */
    private static KStream<Long, String> chain(StreamsBuilder builder, String[] topics) {
        KTable<Long, String> joined = builder.table(topics[0], WITH);
        for (int number = 1; number < topics.length; number++) {
            joined = joined.join(builder.table(topics[number], WITH), String::concat);
        }
        return joined.toStream();
    }

    /** The right key that a left value begins with. */
    private static Long reference(String value) {
        return Long.valueOf(value.substring(0, 8));
    }
}
