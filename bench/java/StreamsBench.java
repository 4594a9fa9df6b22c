import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/** The same joins in Kafka Streams, for the comparison: runs until its standard input is closed. */
public final class StreamsBench {
    private StreamsBench() {}

    /** Arguments: servers, workload, left, right and output topic, application id, bytes of record cache, state folder. */
    public static void main(String[] args) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[5]);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, Long.parseLong(args[6]));
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[7]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<Long, String> with = Consumed.with(Serdes.Long(), Serdes.String());
        Produced<Long, String> out = Produced.with(Serdes.Long(), Serdes.String());
        if (args[1].equals("table_table")) {
            builder.table(args[2], with).join(builder.table(args[3], with), String::concat).toStream().to(args[4], out);
        } else if (args[1].equals("stream_table")) {
            builder.stream(args[2], with).join(builder.table(args[3], with), String::concat).to(args[4], out);
        } else {
            throw new IllegalArgumentException("no workload " + args[1]);
        }
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
}
