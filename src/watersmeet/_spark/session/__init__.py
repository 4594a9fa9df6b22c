"""The session, its settings, and the processes that Spark runs functions in."""
