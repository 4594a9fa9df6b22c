"""What runs in a Python worker of Spark and needs no session: packing, formats, letters, the wire, and writers.

Spark's side of it, what makes frames and columns, is in `_spark`. Law 7: nothing here imports from there.
"""
