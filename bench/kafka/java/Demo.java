import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * The demo: see demo/topology.py. Timestamps stay the texts that they are. Kafka Streams joins tables with no global
 * table, so airlines are a table.
 */
final class Demo {
    private static final Serde<String> STRING = Serdes.String();

    record Schedule(String carrier, String origin, String dest, String scheduled) {}

    record Actual(String tailnum, String departed, Integer delay) {}

    record Plane(String manufacturer, String model, Integer year, Integer seats) {}

    record Airline(String name) {}

    record Departure(
        String flight, String carrier, String origin, String dest, String scheduled, String tailnum, String departed,
        Integer delay) {}

    record Flown(
        String flight, String origin, String dest, String departed, Integer delay, String manufacturer, String model,
        Integer year, Integer seats) {}

    record Named(
        String airline, String flight, String origin, String dest, String tailnum, String departed, Integer delay) {}

    record Flight(
        String airline, String flight, String origin, String dest, String tailnum, String departed, Integer delay,
        String manufacturer, String model, Integer year, Integer seats) {}

    private Demo() {}

    static void build(StreamsBuilder builder, String[] in, String[] out) {
        KTable<String, Schedule> schedule = table(builder, in[0], Schedule.class);
        KTable<String, Actual> actual = table(builder, in[1], Actual.class);
        KTable<String, Plane> planes = table(builder, in[2], Plane.class);
        KTable<String, Airline> airlines = table(builder, in[3], Airline.class);
        KTable<String, Departure> departures = schedule
            .mapValues((flight, s) ->
                new Departure(flight, s.carrier(), s.origin(), s.dest(), s.scheduled(), null, null, null))
            .leftJoin(actual, Demo::departure, kept(Departure.class));
        KStream<String, Departure> changes = departures.toStream();
        changes.to(out[0], Produced.with(STRING, Json.of(Departure.class)));
        departures
            .leftJoin(airlines, Departure::carrier, Demo::named, kept(Named.class))
            .leftJoin(planes, Named::tailnum, Demo::flight, kept(Flight.class))
            .toStream()
            .to(out[1], Produced.with(STRING, Json.of(Flight.class)));
        changes
            .filter((flight, d) -> d != null && d.tailnum() != null)
            .selectKey((flight, d) -> d.tailnum())
            .join(planes, Demo::flown, Joined.with(STRING, Json.of(Departure.class), Json.of(Plane.class)))
            .to(out[2], Produced.with(STRING, Json.of(Flown.class)));
    }

    private static Departure departure(Departure d, Actual a) {
        return a == null ? d : new Departure(
            d.flight(), d.carrier(), d.origin(), d.dest(), d.scheduled(), a.tailnum(), a.departed(), a.delay());
    }

    private static Flown flown(Departure d, Plane p) {
        return new Flown(
            d.flight(), d.origin(), d.dest(), d.departed(), d.delay(), p.manufacturer(), p.model(), p.year(), p.seats());
    }

    private static Named named(Departure d, Airline a) {
        return new Named(
            a == null ? null : a.name(), d.flight(), d.origin(), d.dest(), d.tailnum(), d.departed(), d.delay());
    }

    private static Flight flight(Named n, Plane p) {
        return new Flight(
            n.airline(), n.flight(), n.origin(), n.dest(), n.tailnum(), n.departed(), n.delay(),
            p == null ? null : p.manufacturer(), p == null ? null : p.model(), p == null ? null : p.year(),
            p == null ? null : p.seats());
    }

    private static <T> KTable<String, T> table(StreamsBuilder builder, String topic, Class<T> kind) {
        return builder.table(topic, Consumed.with(STRING, Json.of(kind)), kept(kind));
    }

    private static <T> Materialized<String, T, KeyValueStore<Bytes, byte[]>> kept(Class<T> kind) {
        return Materialized.with(STRING, Json.of(kind));
    }
}
