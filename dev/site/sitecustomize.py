"""Python loads this at the start of each process that has this folder on its path: tests, and what they start.

Spark puts PySpark as a zip archive in front of the path of all its Python processes, where nothing is kept compiled. To
compile it anew is three quarters of the start of such a process (0.8 CPU-seconds; 0.2 without), and each level of each
query has one. The same PySpark lies compiled in the environment that these processes run in.
"""

import sys

sys.path[:] = [place for place in sys.path if not place.endswith("pyspark.zip")]
