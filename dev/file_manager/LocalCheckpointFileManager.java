package watersmeet;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsConstants;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;
import org.apache.spark.unsafe.Platform;

/**
 * Writes the files of a checkpoint on a disk as Spark's own does, but for the program chmod, which Hadoop without its
 * native library starts for each file and for its checksum: Java sets permissions itself.
 */
public class LocalCheckpointFileManager extends FileSystemBasedCheckpointFileManager {

    private final FileSystem files;

    public LocalCheckpointFileManager(Path path, Configuration settings) {
        super(path, settings);
        // an input or output of files elsewhere has a log of its own, which Spark writes by this class, too
        boolean onDisk = super.fs() instanceof LocalFileSystem;
        this.files = onDisk ? new LocalFileSystem(new Disk()) : super.fs();
        try {
            if (onDisk) {
                this.files.initialize(FsConstants.LOCAL_FS_URI, settings);
            }
        } catch (IOException error) {
            // Spark calls the constructor of a Scala class, which declares no exceptions
            Platform.throwException(error);
        }
    }

    @Override
    public FileSystem fs() {
        return this.files;
    }

    private static class Disk extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            String text = permission.getUserAction().SYMBOL + permission.getGroupAction().SYMBOL
                    + permission.getOtherAction().SYMBOL;
            Files.setPosixFilePermissions(this.pathToFile(path).toPath(), PosixFilePermissions.fromString(text));
        }
    }
}
