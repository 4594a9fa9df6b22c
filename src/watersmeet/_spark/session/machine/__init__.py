"""The machine that a session starts on: Java, Spark, Python, memory and folders, asked before the JVM is started."""
