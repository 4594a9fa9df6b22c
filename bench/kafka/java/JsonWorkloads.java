import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/** The workloads whose values are JSON: see bench/workloads/json_records.py. */
final class JsonWorkloads {
    record Order(String customer, String item, int quantity, double amount, boolean express) {}

    record Payment(double paid, String method, String reference) {}

    record OpenOrder(String customer, String item, int quantity, double open, String method) {}

    record Click(long page, String url, int ms) {}

    record User(String name, String country, int since) {}

    record Page(String title, String section) {}

    record UserClick(long page, String url, int ms, String name, String country) {}

    record KnownClick(String url, int ms, String name, String country, String title, String section) {}

    private JsonWorkloads() {}

    static void orders(StreamsBuilder builder, String[] in, String[] out) {
        KTable<Long, Order> orders = builder.table(in[0], longs(Order.class), kept(Order.class));
        KTable<Long, Payment> payments = builder.table(in[1], longs(Payment.class), kept(Payment.class));
        orders.leftJoin(payments, JsonWorkloads::open)
            .filter((key, order) -> order.open() > 0)
            .toStream()
            .to(out[0], Produced.with(Serdes.Long(), Json.of(OpenOrder.class)));
    }

    private static OpenOrder open(Order order, Payment payment) {
        double paid = payment == null ? 0.0 : payment.paid();
        String method = payment == null ? null : payment.method();
        return new OpenOrder(order.customer(), order.item(), order.quantity(), order.amount() - paid, method);
    }

    static void enrich(StreamsBuilder builder, String[] in, String[] out) {
        KTable<Long, User> users = builder.table(in[1], longs(User.class), kept(User.class));
        KTable<Long, Page> pages = builder.table(in[2], longs(Page.class), kept(Page.class));
        builder.stream(in[0], longs(Click.class))
            .join(
                users,
                (click, user) -> new UserClick(click.page(), click.url(), click.ms(), user.name(), user.country()),
                Joined.with(Serdes.Long(), Json.of(Click.class), Json.of(User.class)))
            .selectKey((user, click) -> click.page())
            .join(
                pages,
                (click, page) -> new KnownClick(
                    click.url(), click.ms(), click.name(), click.country(), page.title(), page.section()),
                Joined.with(Serdes.Long(), Json.of(UserClick.class), Json.of(Page.class)))
            .to(out[0], Produced.with(Serdes.Long(), Json.of(KnownClick.class)));
    }

    private static <T> Consumed<Long, T> longs(Class<T> kind) {
        return Consumed.with(Serdes.Long(), Json.of(kind));
    }

    private static <T> Materialized<Long, T, KeyValueStore<Bytes, byte[]>> kept(Class<T> kind) {
        return Materialized.with(Serdes.Long(), Json.of(kind));
    }
}
