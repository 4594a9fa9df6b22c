import io.debezium.embedded.Connect;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import java.io.FileInputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;

/**
 * Debezium's own engine with Kafka Connect's own converters: what a worker of Connect would write, into a file of
 * tab-separated topic, key and value in base64 ("-": null), or into Kafka.
 *
 * <p>Its one argument is a file of properties: those of the engine and the connector, `converter` (a class) with
 * `converter.*`, and `into.file` or `into.kafka` (bootstrap servers).
 */
public class Engine {
    private static Properties properties;

    public static void main(String[] arguments) throws Exception {
        properties = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            properties.load(file);
        }
        Converter keys = converter(true);
        Converter values = converter(false);
        Target target = properties.containsKey("into.kafka") ? new Topics() : new Lines();
        DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> engine =
                DebeziumEngine.create(Connect.class)
                        .using(properties)
                        .using((ok, message, error) -> ended(ok, message, error))
                        .notifying((batch, committer) -> {
                            List<ChangeEvent<SourceRecord, SourceRecord>> written = new ArrayList<>(batch);
                            for (ChangeEvent<SourceRecord, SourceRecord> event : written) {
                                SourceRecord record = event.value();
                                byte[] key = keys.fromConnectData(record.topic(), record.keySchema(), record.key());
                                byte[] value =
                                        values.fromConnectData(record.topic(), record.valueSchema(), record.value());
                                target.write(record.topic(), key, value);
                            }
                            target.flush();
                            for (ChangeEvent<SourceRecord, SourceRecord> event : written) {
                                committer.markProcessed(event);
                            }
                            committer.markBatchFinished();
                        })
                        .build();
        engine.run();
        System.exit(0);
    }

    private static void ended(boolean ok, String message, Throwable error) {
        if (!ok) {
            System.err.println(message);
            if (error != null) {
                error.printStackTrace();
            }
            System.exit(1);
        }
    }

    private static Converter converter(boolean isKey) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String name : properties.stringPropertyNames()) {
            if (name.startsWith("converter.")) {
                options.put(name.substring("converter.".length()), properties.getProperty(name));
            }
        }
        Class<?> found = Class.forName(properties.getProperty("converter"));
        Converter converter = (Converter) found.getDeclaredConstructor().newInstance();
        converter.configure(options, isKey);
        return converter;
    }

    private interface Target {
        void write(String topic, byte[] key, byte[] value);

        void flush() throws InterruptedException;
    }

    private static class Lines implements Target {
        private final PrintStream file;

        Lines() throws Exception {
            file = new PrintStream(properties.getProperty("into.file"), StandardCharsets.US_ASCII);
        }

        @Override
        public void write(String topic, byte[] key, byte[] value) {
            file.print(topic + "\t" + text(key) + "\t" + text(value) + "\n");
        }

        private static String text(byte[] bytes) {
            return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
        }

        @Override
        public void flush() {
            file.flush();
        }
    }

    private static class Topics implements Target {
        private final KafkaProducer<byte[], byte[]> producer;
        private final List<Future<RecordMetadata>> sent = new ArrayList<>();

        Topics() {
            Map<String, Object> options = new HashMap<>();
            options.put("bootstrap.servers", properties.getProperty("into.kafka"));
            // as a worker of Connect sets them
            options.put("acks", "all");
            options.put("max.in.flight.requests.per.connection", 1);
            options.put("enable.idempotence", false);
            producer = new KafkaProducer<>(options, new ByteArraySerializer(), new ByteArraySerializer());
        }

        @Override
        public void write(String topic, byte[] key, byte[] value) {
            sent.add(producer.send(new ProducerRecord<>(topic, key, value)));
        }

        @Override
        public void flush() throws InterruptedException {
            producer.flush();
            for (Future<RecordMetadata> each : sent) {
                try {
                    each.get();
                } catch (ExecutionException failure) {
                    throw new IllegalStateException(failure);
                }
            }
            sent.clear();
        }
    }
}
