import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.protobuf.ByteString;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import com.networknt.schema.JsonSchema;
import com.networknt.schema.JsonSchemaFactory;
import com.networknt.schema.SchemaValidatorsConfig;
import com.networknt.schema.SpecVersion;
import com.networknt.schema.SpecVersionDetector;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaDeserializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serializer;

/** What Java's libraries make of values: a question a line in JSON, an answer a line. Owned by dev/peers. */
public final class Peers {
    private static final ObjectMapper JSON = new ObjectMapper().enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS);

    /** The arrays of double of Avro 1.12.0 hold floats, those of objects do not. */
    private static final GenericData BOXED = new GenericData() {
        @Override
        public Object newArray(Object old, int size, Schema schema) {
            return new GenericData.Array<>(size, schema);
        }
    };

    private Peers() {}

    public static void main(String[] arguments) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // what libraries print is no answer
        System.setOut(System.err);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answered(JSON.readTree(line), answer);
            } catch (Exception | StackOverflowError | OutOfMemoryError error) {
                answer.removeAll();
                answer.put("refused", error.getClass().getSimpleName() + ": " + error.getMessage());
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }

    private static void answered(JsonNode asked, ObjectNode answer) throws Exception {
        switch (asked.get("do").asText()) {
            case "avro" -> answer.put("bytes", avro(asked));
            case "json_schema" -> answer.put("valid", isValid(asked.get("schema"), asked.get("text").asText()));
            case "protobuf" -> answer.set("value", value(protobuf(asked), false));
            case "write" -> answer.put("bytes", written(asked));
            case "read" -> answer.put("value", read(asked));
            default -> throw new IllegalArgumentException(asked.get("do").asText());
        }
    }

    /** A value of a writer's schema, read by a reader's and written by that. */
    private static byte[] avro(JsonNode asked) throws Exception {
        Schema writer = schema(asked.get("written")), reader = schema(asked.get("read"));
        BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(asked.get("bytes").binaryValue(), null);
        Object value = new GenericDatumReader<Object>(writer, reader, BOXED).read(null, decoder);
        if (!decoder.isEnd()) {
            throw new IllegalArgumentException("bytes behind the value");
        }
        var out = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(out, null);
        new GenericDatumWriter<Object>(reader).write(value, encoder);
        encoder.flush();
        return out.toByteArray();
    }

    private static Schema schema(JsonNode text) throws Exception {
        return new Schema.Parser().parse(JSON.writeValueAsString(text));
    }

    private static boolean isValid(JsonNode schema, String text) throws Exception {
        var version = SpecVersionDetector.detectOptionalVersion(schema, false).orElse(SpecVersion.VersionFlag.V7);
        var config = SchemaValidatorsConfig.builder().losslessNarrowing(true).build();
        JsonSchema made = JsonSchemaFactory.getInstance(version).getSchema(schema, config);
        return made.validate(JSON.readTree(text)).isEmpty();
    }

    /** A message of the last of some files. */
    private static Message protobuf(JsonNode asked) throws Exception {
        List<FileDescriptor> files = new ArrayList<>();
        for (JsonNode each : asked.get("files")) {
            var file = FileDescriptorProto.parseFrom(each.binaryValue());
            var imported = files.stream().filter(known -> file.getDependencyList().contains(known.getName()));
            files.add(FileDescriptor.buildFrom(file, imported.toArray(FileDescriptor[]::new)));
        }
        var message = files.get(files.size() - 1).findMessageTypeByName(asked.get("message").asText());
        return DynamicMessage.parseFrom(message, ByteString.copyFrom(asked.get("bytes").binaryValue()));
    }

    /** Its fields; null for one that may be absent and is, the entries of a map in their order. */
    private static ObjectNode value(Message message, boolean entry) {
        ObjectNode made = JSON.createObjectNode();
        for (FieldDescriptor field : message.getDescriptorForType().getFields()) {
            if (field.isRepeated()) {
                var inner = made.putArray(field.getName());
                ((List<?>) message.getField(field)).forEach(each -> inner.add(single(field, each)));
            } else if (entry || !field.hasPresence() || message.hasField(field)) {
                made.set(field.getName(), single(field, message.getField(field)));
            } else {
                made.putNull(field.getName());
            }
        }
        return made;
    }

    private static JsonNode single(FieldDescriptor field, Object value) {
        return switch (field.getType()) {
            case MESSAGE, GROUP -> value((Message) value, field.isMapField());
            case ENUM -> JSON.valueToTree(((EnumValueDescriptor) value).getName());
            case BYTES -> JSON.valueToTree(((ByteString) value).toByteArray());
            case UINT32, FIXED32 -> JSON.valueToTree(Integer.toUnsignedLong((Integer) value));
            case UINT64, FIXED64 -> JSON.valueToTree(new BigInteger(Long.toUnsignedString((Long) value)));
            // as text neither language reads what the other writes
            case FLOAT, DOUBLE -> JSON.valueToTree(Double.doubleToLongBits(((Number) value).doubleValue()));
            default -> JSON.valueToTree(value);
        };
    }

    // -- by a registry -----------------------------------------------------------------------------------------

    private static Map<String, Object> settings(JsonNode asked) {
        var made = new HashMap<String, Object>();
        made.put("apicurio.registry.url", asked.get("url").asText());
        // as Confluent writes: a zero byte and the number of the content in four
        made.put("apicurio.registry.as-confluent", "true");
        made.put("apicurio.registry.use-id", "contentId");
        made.put("apicurio.registry.auto-register", "true");
        made.put("apicurio.registry.find-latest", asked.path("latest").asText("false"));
        made.put("apicurio.registry.serde.validation-enabled", "true");
        made.put("apicurio.registry.artifact-resolver-strategy", "io.apicurio.registry.serde.strategy.TopicIdStrategy");
        made.put("apicurio.registry.deserializer.value.return-class", "com.fasterxml.jackson.databind.JsonNode");
        return made;
    }

    private static byte[] written(JsonNode asked) throws Exception {
        boolean avro = asked.get("format").asText().equals("avro");
        String topic = asked.get("topic").asText();
        try (Serializer<Object> serializer = avro ? new AvroKafkaSerializer<>() : new JsonSchemaKafkaSerializer<>()) {
            serializer.configure(settings(asked), false);
            if (!avro) {
                return serializer.serialize(topic, asked.get("value"));
            }
            Schema schema = schema(asked.get("schema"));
            var decoder = DecoderFactory.get().binaryDecoder(asked.get("value").binaryValue(), null);
            return serializer.serialize(topic, new GenericDatumReader<Object>(schema).read(null, decoder));
        }
    }

    private static String read(JsonNode asked) throws Exception {
        boolean avro = asked.get("format").asText().equals("avro");
        try (Deserializer<Object> made = avro ? new AvroKafkaDeserializer<>() : new JsonSchemaKafkaDeserializer<>()) {
            made.configure(settings(asked), false);
            return String.valueOf(made.deserialize(asked.get("topic").asText(), asked.get("bytes").binaryValue()));
        }
    }
}
