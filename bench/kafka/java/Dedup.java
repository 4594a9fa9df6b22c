import java.util.Set;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.ContextualFixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;

/** A dedup by a processor: see bench/workloads/dedup.py. The key of the store is the record's key with the id. */
final class Dedup implements FixedKeyProcessorSupplier<Long, String, String> {
    private static final long WAIT_MS = 10_000;
    private static final String STORE = "sent";

    static void build(StreamsBuilder builder, String[] in, String[] out) {
        builder.stream(in[0], Consumed.with(Serdes.Long(), Serdes.String()))
            .processValues(new Dedup())
            .to(out[0], Produced.with(Serdes.Long(), Serdes.String()));
    }

    @Override
    public Set<StoreBuilder<?>> stores() {
        return Set.of(Stores.keyValueStoreBuilder(
            Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.Long()).withCachingEnabled());
    }

    @Override
    public FixedKeyProcessor<Long, String, String> get() {
        return new ContextualFixedKeyProcessor<Long, String, String>() {
            private KeyValueStore<String, Long> sent;

            @Override
            public void init(FixedKeyProcessorContext<Long, String> context) {
                super.init(context);
                sent = context.getStateStore(STORE);
            }

            @Override
            public void process(FixedKeyRecord<Long, String> record) {
                String id = record.key() + "|" + record.value();
                Long last = sent.get(id);
                if (last == null || record.timestamp() - last >= WAIT_MS) {
                    sent.put(id, record.timestamp());
                    context().forward(record);
                }
            }
        };
    }
}
