import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** Queries of NEXMark: see bench/workloads/nexmark.py. */
final class Nexmark {
    private static final Serde<Long> LONG = Serdes.Long();
    private static final Serde<String> TEXT = Serdes.String();
    private static final Serde<Double> DOUBLE = Serdes.Double();
    private static final Duration TEN_SECONDS = Duration.ofSeconds(10);
    private static final Duration GRACE = Duration.ofMinutes(1);
    private static final Duration ALL_OF_TIME = Duration.ofMinutes(5);

    record Person(
        long id, String name, String emailAddress, String creditCard, String city, String state, String dateTime,
        String extra) {}

    record Auction(
        long id, String itemName, String description, long initialBid, long reserve, String dateTime, String expires,
        long seller, long category, String extra) {}

    record Bid(long auction, long bidder, long price, String channel, String url, String dateTime, String extra) {}

    record Event(int event_type, Person person, Auction auction, Bid bid) {}

    record Local(String name, String city, String state, long id) {}

    record Offer(long category, String begins, String expires, long bidder, long price, String at, String extra) {}

    record Mean(long sum, long count) {}

    record Hot(long num, List<Long> auctions) {}

    record Pair(long bidder, long auction) {}

    record Offered(Bid bid, Auction auction) {}

    private Nexmark() {}

    static void build(StreamsBuilder builder, String query, String[] in, String[] out) {
        KStream<Long, Event> events = builder.stream(in[0], Consumed.with(LONG, Json.of(Event.class)));
        switch (query) {
            case "nexmark_q3":
                local(events).toStream().to(out[0], Produced.with(LONG, Json.of(Local.class)));
                break;
            case "nexmark_q4":
                averages(events).toStream()
                    .mapValues(mean -> (double) mean.sum() / mean.count())
                    .to(out[0], Produced.with(LONG, DOUBLE));
                break;
            case "nexmark_q5":
                hottest(events).toStream().to(out[0], Produced.with(LONG, Json.of(Hot.class)));
                break;
            case "nexmark_q8":
                sellers(events).toStream((key, name) -> key.key() + "|" + key.window().start())
                    .to(out[0], Produced.with(TEXT, TEXT));
                break;
            case "nexmark_q11":
                bids(events).groupBy((key, bid) -> bid.bidder(), Grouped.with(LONG, Json.of(Bid.class)))
                    .windowedBy(SessionWindows.ofInactivityGapAndGrace(TEN_SECONDS, ALL_OF_TIME))
                    .count(Materialized.<Long, Long, SessionStore<Bytes, byte[]>>with(LONG, LONG))
                    .toStream((key, count) -> key.key() + "|" + key.window().start() + "|" + key.window().end())
                    .to(out[0], Produced.with(TEXT, LONG));
                break;
            case "nexmark_q18":
                bids(events).selectKey((key, bid) -> new Pair(bid.bidder(), bid.auction()))
                    .toTable(Materialized.<Pair, Bid, KeyValueStore<Bytes, byte[]>>with(
                        Json.of(Pair.class), Json.of(Bid.class)))
                    .toStream((pair, bid) -> pair.bidder() + "|" + pair.auction())
                    .to(out[0], Produced.with(TEXT, Json.of(Bid.class)));
                break;
            case "nexmark_q20":
                bids(events).selectKey((key, bid) -> bid.auction())
                    .join(
                        auctions(events).filter((key, auction) -> auction.category() == 10)
                            .selectKey((key, auction) -> auction.id()),
                        Offered::new,
                        JoinWindows.ofTimeDifferenceAndGrace(GRACE, GRACE),
                        StreamJoined.with(LONG, Json.of(Bid.class), Json.of(Auction.class)))
                    .to(out[0], Produced.with(LONG, Json.of(Offered.class)));
                break;
            default:
                throw new IllegalArgumentException("no query " + query);
        }
    }

    private static KTable<Long, Local> local(KStream<Long, Event> events) {
        KTable<Long, Person> people = events.filter((key, event) -> event.event_type() == 0)
            .mapValues(Event::person)
            .filter((key, person) -> isNear(person.state()))
            .selectKey((key, person) -> person.id())
            .toTable(kept(Person.class));
        return auctions(events).filter((key, auction) -> auction.category() == 10)
            .selectKey((key, auction) -> auction.id())
            .toTable(kept(Auction.class))
            .join(
                people,
                Auction::seller,
                (auction, person) -> new Local(person.name(), person.city(), person.state(), auction.id()),
                kept(Local.class));
    }

    private static boolean isNear(String state) {
        return state.equals("OR") || state.equals("ID") || state.equals("CA");
    }

    private static KTable<Long, Mean> averages(KStream<Long, Event> events) {
        return auctions(events).selectKey((key, auction) -> auction.id())
            .join(
                bids(events).selectKey((key, bid) -> bid.auction()),
                (auction, bid) -> new Offer(
                    auction.category(), auction.dateTime(), auction.expires(), bid.bidder(), bid.price(), bid.dateTime(),
                    bid.extra()),
                JoinWindows.ofTimeDifferenceAndGrace(GRACE, GRACE).before(Duration.ZERO),
                StreamJoined.with(LONG, Json.of(Auction.class), Json.of(Bid.class)))
            .filter((key, offer) ->
                offer.at().compareTo(offer.begins()) >= 0 && offer.at().compareTo(offer.expires()) <= 0)
            .groupByKey(Grouped.with(LONG, Json.of(Offer.class)))
            .reduce((best, offer) -> offer.price() > best.price() ? offer : best, kept(Offer.class))
            .groupBy((key, offer) -> KeyValue.pair(offer.category(), offer.price()), Grouped.with(LONG, LONG))
            .aggregate(
                () -> new Mean(0, 0),
                (category, price, mean) -> new Mean(mean.sum() + price, mean.count() + 1),
                (category, price, mean) -> new Mean(mean.sum() - price, mean.count() - 1),
                kept(Mean.class));
    }

    private static KTable<Long, Hot> hottest(KStream<Long, Event> events) {
        // suppress, since emit on close waits for a second of the clock to pass, and the last windows would be missing
        return bids(events)
            .groupBy((key, bid) -> bid.auction(), Grouped.with(LONG, Json.of(Bid.class)))
            .windowedBy(TimeWindows.ofSizeAndGrace(TEN_SECONDS, GRACE).advanceBy(Duration.ofSeconds(2)))
            .count(Materialized.<Long, Long, WindowStore<Bytes, byte[]>>with(LONG, LONG))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream()
            .map((key, num) -> KeyValue.pair(key.window().start(), new Hot(num, List.of(key.key()))))
            .groupByKey(Grouped.with(LONG, Json.of(Hot.class)))
            .reduce(Nexmark::more, kept(Hot.class))
            .mapValues(hot -> new Hot(hot.num(), hot.auctions().stream().sorted().toList()));
    }

    private static Hot more(Hot most, Hot other) {
        if (other.num() != most.num()) {
            return other.num() > most.num() ? other : most;
        }
        return new Hot(most.num(), Stream.concat(most.auctions().stream(), other.auctions().stream()).toList());
    }

    private static KTable<Windowed<Long>, String> sellers(KStream<Long, Event> events) {
        TimeWindows windows = TimeWindows.ofSizeAndGrace(TEN_SECONDS, GRACE);
        KTable<Windowed<Long>, String> people = events.filter((key, event) -> event.event_type() == 0)
            .map((key, event) -> KeyValue.pair(event.person().id(), event.person().name()))
            .groupByKey(Grouped.with(LONG, TEXT))
            .windowedBy(windows)
            .reduce((first, later) -> first, Materialized.<Long, String, WindowStore<Bytes, byte[]>>with(LONG, TEXT));
        KTable<Windowed<Long>, Long> selling = auctions(events)
            .groupBy((key, auction) -> auction.seller(), Grouped.with(LONG, Json.of(Auction.class)))
            .windowedBy(windows)
            .count(Materialized.<Long, Long, WindowStore<Bytes, byte[]>>with(LONG, LONG));
        return people.join(selling, (name, count) -> name);
    }

    private static KStream<Long, Auction> auctions(KStream<Long, Event> events) {
        return events.filter((key, event) -> event.event_type() == 1).mapValues(Event::auction);
    }

    private static KStream<Long, Bid> bids(KStream<Long, Event> events) {
        return events.filter((key, event) -> event.event_type() == 2).mapValues(Event::bid);
    }

    private static <T> Materialized<Long, T, KeyValueStore<Bytes, byte[]>> kept(Class<T> kind) {
        return Materialized.with(LONG, Json.of(kind));
    }
}
