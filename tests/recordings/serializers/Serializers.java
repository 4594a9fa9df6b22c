// Prints what Kafka's own serializers write, as JSON lines: {"format", "value", "hex"}.
// In the project's folder: java -cp ".jars/streams/*" tests/recordings/serializers/Serializers.java
//   > tests/recordings/serializers/serializers.jsonl
import java.math.BigDecimal;
import java.util.HexFormat;
import java.util.UUID;
import org.apache.kafka.common.serialization.BooleanSerializer;
import org.apache.kafka.common.serialization.DoubleSerializer;
import org.apache.kafka.common.serialization.FloatSerializer;
import org.apache.kafka.common.serialization.IntegerSerializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.serialization.ShortSerializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.serialization.UUIDSerializer;
import org.apache.kafka.streams.kstream.SessionWindowedSerializer;
import org.apache.kafka.streams.kstream.TimeWindowedSerializer;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.kstream.internals.SessionWindow;
import org.apache.kafka.streams.kstream.internals.TimeWindow;

public class Serializers {
    static void say(String format, String value, byte[] bytes) {
        String hex = HexFormat.of().formatHex(bytes);
        System.out.println("{\"format\": \"" + format + "\", \"value\": " + value + ", \"hex\": \"" + hex + "\"}");
    }

    static <T> void all(String format, Serializer<T> serializer, T... values) {
        for (T value : values) {
            boolean quoted = value instanceof Float || value instanceof Double || value instanceof String
                || value instanceof UUID;
            say(format, quoted ? "\"" + value + "\"" : "" + value, serializer.serialize("topic", value));
        }
    }

    static <T> void windowed(String inner, Serializer<T> serializer, String shown, T key, long start, long end) {
        Windowed<T> time = new Windowed<>(key, new TimeWindow(start, end));
        Windowed<T> session = new Windowed<>(key, new SessionWindow(start, end));
        String value = "[" + shown + ", " + start + ", " + end + "]";
        say("time_windowed " + inner, value, new TimeWindowedSerializer<>(serializer).serialize("topic", time));
        say("session_windowed " + inner, value, new SessionWindowedSerializer<>(serializer).serialize("topic", session));
    }

    public static void main(String[] given) {
        all("short", new ShortSerializer(), (short) 0, (short) 1, (short) -1, (short) 258, Short.MAX_VALUE,
            Short.MIN_VALUE);
        all("int", new IntegerSerializer(), 0, -1, 16909060, Integer.MAX_VALUE, Integer.MIN_VALUE);
        all("long", new LongSerializer(), 0L, -1L, 72623859790382856L, Long.MAX_VALUE, Long.MIN_VALUE);
        all("float", new FloatSerializer(), 0f, -0f, 1.5f, -2.25f, Float.MIN_VALUE, Float.MAX_VALUE, Float.NaN,
            Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY, Float.intBitsToFloat(0xffc00001));
        all("double", new DoubleSerializer(), 0d, -0d, 1.5d, -2.25d, Double.MIN_VALUE, Double.MAX_VALUE, Double.NaN,
            Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY, Double.longBitsToDouble(0xfff8000000000001L));
        all("boolean", new BooleanSerializer(), true, false);
        all("string", new StringSerializer(), "", "a", "\u00e4\u20ac");
        all("uuid", new UUIDSerializer(), new UUID(0, 0), UUID.fromString("123E4567-e89b-12d3-A456-426614174000"));
        // Connect's Decimal.fromLogical is no more than this
        for (String text : new String[] {"0.00", "0.01", "-0.01", "1.27", "1.28", "-1.28", "-1.29", "12.50",
            "99999999.99", "-99999999.99"}) {
            BigDecimal number = new BigDecimal(text);
            say("decimal(10, 2)", "\"" + text + "\"", number.unscaledValue().toByteArray());
        }
        windowed("long", new LongSerializer(), "7", 7L, 0, 300000);
        windowed("long", new LongSerializer(), "-7", -7L, 1700000000000L, 1700000300000L);
        windowed("string", new StringSerializer(), "\"\"", "", 1, 300001);
        windowed("string", new StringSerializer(), "\"ann\"", "ann", 1700000000000L, 1700000300000L);
        windowed("double", new DoubleSerializer(), "\"1.5\"", 1.5d, 300000, 600000);
    }
}
