package watersmeet;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.Arrays;

import org.apache.commons.io.IOUtils;
import org.apache.commons.io.output.TeeOutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
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

    public ConditionalCheckpointFileManager(Path path, Configuration settings) {
        super(path, settings);
    }

    public CheckpointFileManager.CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
        try {
            if (!this.fs().hasPathCapability(path, CONDITIONAL)) {
                // another query's, elsewhere, that begins while the session has this class
                return super.createAtomic(path, overwriteIfPossible);
            }
            FSDataOutputStreamBuilder builder = this.fs().createFile(path);
            // false would have S3A look first; the condition alone is judged by S3, when the stream is closed
            builder.overwrite(true);
            builder.recursive();
            // nor for a folder of this name
            builder.opt("fs.s3a.create.performance", true);
            if (!overwriteIfPossible) {
                builder.must(CONDITIONAL, true);
            }
            FSDataOutputStream object = (FSDataOutputStream) builder.build();
            return overwriteIfPossible ? new ObjectStream(object, object) : new ConditionalStream(object, path);
        } catch (IOException error) {
            // the Scala method that this one overrides declares no exceptions
            Platform.throwException(error);
            return null;
        }
    }

    private boolean holds(Path path, byte[] content) throws IOException {
        FSDataInputStream in = this.open(path);
        try {
            return Arrays.equals(content, IOUtils.toByteArray(in));
        } finally {
            in.close();
        }
    }

    /** An object that is there when its stream is closed. */
    private static class ObjectStream extends CheckpointFileManager.CancellableFSDataOutputStream {
        private final FSDataOutputStream object;
        private boolean ended = false;

        ObjectStream(FSDataOutputStream object, OutputStream written) {
            super(written);
            this.object = object;
        }

        public void close() throws IOException {
            if (!this.ended) {
                this.ended = true;
                super.close();
            }
        }

        public void cancel() {
            if (!this.ended) {
                this.ended = true;
                this.object.abort();
            }
        }
    }

    /** One that is not there yet, or closing it fails. */
    private class ConditionalStream extends ObjectStream {
        private final ByteArrayOutputStream content;
        private final Path path;

        ConditionalStream(FSDataOutputStream object, Path path) {
            this(object, path, new ByteArrayOutputStream());
        }

        private ConditionalStream(FSDataOutputStream object, Path path, ByteArrayOutputStream content) {
            super(object, new TeeOutputStream(object, content));
            this.content = content;
            this.path = path;
        }

        public void close() throws IOException {
            try {
                super.close();
            } catch (IOException error) {
                if (!exists(this.path)) {
                    throw error;
                }
                // S3 may have written it, with an answer that was lost: the request that came again was refused then
                if (!holds(this.path, this.content.toByteArray())) {
                    // the exception that Spark's logs expect where another query was first
                    FileAlreadyExistsException refused = new FileAlreadyExistsException(this.path.toString());
                    refused.initCause(error);
                    throw refused;
                }
            }
        }
    }
}
