"""Code that runs in Spark's Python workers and needs no session: packing, formats, dead letters, the wire, writers.

`_spark` makes the frames and columns, on the driver. Law 7: nothing here imports from `_spark`.
"""
