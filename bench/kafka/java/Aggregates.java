import java.time.Duration;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindowedSerializer;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.state.WindowStore;

/** The aggregates: see bench/workloads/aggregates.py. Keys of windows are written as by Kafka Streams' serializers. */
final class Aggregates {
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final Duration DAY = Duration.ofDays(1);
    private static final Serde<Long> LONG = Serdes.Long();
    private static final Serde<Double> DOUBLE = Serdes.Double();

    record Sale(long shop, long cents) {}

    record Mean(long sum, long count) {
        Mean plus(long cents) {
            return new Mean(sum + cents, count + 1);
        }
    }

    private Aggregates() {}

    static boolean build(StreamsBuilder builder, String workload, String[] in, String[] out) {
        switch (workload) {
            case "count":
                grouped(builder, in).count(Materialized.<Long, Long, KeyValueStore<Bytes, byte[]>>with(LONG, LONG))
                    .toStream().to(out[0], Produced.with(LONG, LONG));
                return true;
            case "tumbling_count":
                grouped(builder, in).windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE))
                    .count(Materialized.<Long, Long, WindowStore<Bytes, byte[]>>with(LONG, LONG))
                    .toStream().to(out[0], Produced.with(windowed(), LONG));
                return true;
            case "hopping_sum":
                grouped(builder, in)
                    .windowedBy(TimeWindows.ofSizeWithNoGrace(MINUTE.multipliedBy(5)).advanceBy(MINUTE))
                    .aggregate(
                        () -> 0L,
                        (key, sale, sum) -> sum + sale.cents(),
                        Materialized.<Long, Long, WindowStore<Bytes, byte[]>>with(LONG, LONG))
                    .toStream().to(out[0], Produced.with(windowed(), LONG));
                return true;
            case "sliding_avg":
                grouped(builder, in).windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(MINUTE))
                    .aggregate(
                        () -> new Mean(0, 0),
                        (key, sale, mean) -> mean.plus(sale.cents()),
                        Materialized.<Long, Mean, WindowStore<Bytes, byte[]>>with(LONG, Json.of(Mean.class)))
                    .toStream().mapValues(mean -> (double) mean.sum() / mean.count()).to(out[0], Produced.with(windowed(), DOUBLE));
                return true;
            case "session_count":
                // with its own retention a session is not found that ended a minute ago to the millisecond
                grouped(builder, in).windowedBy(SessionWindows.ofInactivityGapWithNoGrace(MINUTE))
                    .count(Materialized.<Long, Long, SessionStore<Bytes, byte[]>>with(LONG, LONG)
                        .withRetention(MINUTE.multipliedBy(2)))
                    .toStream().to(out[0], Produced.with(sessions(), LONG));
                return true;
            case "last_week":
                KStream<Windowed<Long>, Long> days = grouped(builder, in)
                    .windowedBy(TimeWindows.ofSizeWithNoGrace(DAY))
                    .count(Materialized.<Long, Long, WindowStore<Bytes, byte[]>>with(LONG, LONG))
                    .toStream();
                byDay(days, 0).leftJoin(byDay(days, 7), (today, before) -> today - (before == null ? 0L : before))
                    .toStream().to(out[0], Produced.with(day(), LONG));
                return true;
            case "table_aggregate":
                KTable<Long, Sale> sales = builder.table(
                    in[0],
                    Consumed.with(LONG, Json.of(Sale.class)),
                    Materialized.<Long, Sale, KeyValueStore<Bytes, byte[]>>with(LONG, Json.of(Sale.class)));
                sales.groupBy((key, sale) -> KeyValue.pair(sale.shop(), sale.cents()), Grouped.with(LONG, LONG))
                    .aggregate(
                        () -> 0L,
                        (shop, cents, sum) -> sum + cents,
                        (shop, cents, sum) -> sum - cents,
                        Materialized.<Long, Long, KeyValueStore<Bytes, byte[]>>with(LONG, LONG))
                    .toStream().to(out[0], Produced.with(LONG, LONG));
                return true;
            default:
                return false;
        }
    }

    /** A table of the counts under their days, or days later, as one writes it by hand: re-keyed, through a topic. */
    private static KTable<Windowed<Long>, Long> byDay(KStream<Windowed<Long>, Long> days, int later) {
        return days
            .selectKey((window, count) -> new Windowed<>(
                window.key(),
                new TimeWindow(
                    window.window().start() + DAY.toMillis() * later, window.window().end() + DAY.toMillis() * later)))
            .toTable(Materialized.<Windowed<Long>, Long, KeyValueStore<Bytes, byte[]>>with(day(), LONG));
    }

    private static Serde<Windowed<Long>> day() {
        return new WindowedSerdes.TimeWindowedSerde<>(LONG, DAY.toMillis());
    }

    private static KGroupedStream<Long, Sale> grouped(StreamsBuilder builder, String[] in) {
        return builder.stream(in[0], Consumed.with(LONG, Json.of(Sale.class)))
            .groupByKey(Grouped.with(LONG, Json.of(Sale.class)));
    }

    private static Serde<Windowed<Long>> windowed() {
        return Serdes.serdeFrom(new TimeWindowedSerializer<>(LONG.serializer()), (topic, bytes) -> null);
    }

    private static Serde<Windowed<Long>> sessions() {
        return Serdes.serdeFrom(new SessionWindowedSerializer<>(LONG.serializer()), (topic, bytes) -> null);
    }
}
