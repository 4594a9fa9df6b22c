package watersmeet;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.UUID;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;
import org.apache.spark.unsafe.Platform;

/**
 * Writes the files of a checkpoint on S3 under their own names: a file is there, whole, when its stream is closed.
 * One that must not replace another is written with If-None-Match (HADOOP-19256), so that S3 itself refuses it: of two
 * drivers that write one plan or one commit, the second gets Spark's CONCURRENT_STREAM_LOG_UPDATE.
 */
public class ConditionalCheckpointFileManager extends FileSystemBasedCheckpointFileManager {

    private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";
    /** Of an object's own headers: which stream has written it. */
    private static final String WRITER = "watersmeet-writer";

    public ConditionalCheckpointFileManager(Path path, Configuration settings) {
        super(path, settings);
    }

    @Override
    public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
        try {
            if (!this.fs().hasPathCapability(path, CONDITIONAL)) {
                // another query's, elsewhere, that begins while the session has this class
                return super.createAtomic(path, overwriteIfPossible);
            }
            FSDataOutputStreamBuilder<?, ?> builder = this.fs().createFile(path);
            // false would have S3A look first; the condition alone is judged by S3, when the stream is closed
            builder.overwrite(true);
            builder.recursive();
            // nor for a folder of this name
            builder.opt("fs.s3a.create.performance", true);
            String writer = null;
            if (!overwriteIfPossible) {
                writer = UUID.randomUUID().toString();
                builder.must(CONDITIONAL, true);
                builder.opt("fs.s3a.create.header." + WRITER, writer);
            }
            return new ObjectStream(builder.build(), path, writer);
        } catch (IOException error) {
            // the Scala method that this one overrides declares no exceptions
            Platform.throwException(error);
            return null;
        }
    }

    private boolean isFrom(String writer, Path path) throws IOException {
        byte[] found = this.fs().getXAttrs(path).get("header." + WRITER);
        return found != null && writer.equals(new String(found, StandardCharsets.UTF_8));
    }

    /** An object that is there when its stream is closed; with a writer: one that is not there yet. */
    private class ObjectStream extends CheckpointFileManager.CancellableFSDataOutputStream {
        private final FSDataOutputStream object;
        private final Path path;
        private final String writer;
        private boolean ended = false;

        ObjectStream(FSDataOutputStream object, Path path, String writer) {
            super(object);
            this.object = object;
            this.path = path;
            this.writer = writer;
        }

        @Override
        public void close() throws IOException {
            if (this.ended) {
                return;
            }
            this.ended = true;
            try {
                super.close();
            } catch (IOException error) {
                if (this.writer == null || !exists(this.path)) {
                    throw error;
                }
                // where S3 has written it and the answer was lost, the request that came again was refused
                if (!isFrom(this.writer, this.path)) {
                    // the exception that Spark's logs expect where another query was first
                    FileAlreadyExistsException refused = new FileAlreadyExistsException(this.path.toString());
                    refused.initCause(error);
                    throw refused;
                }
            }
        }

        @Override
        public void cancel() {
            if (!this.ended) {
                this.ended = true;
                this.object.abort();
            }
        }
    }
}
