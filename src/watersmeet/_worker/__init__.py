"""Code for Spark's Python workers that needs no session: packing, formats, ended rows, the wire, writers.

Law 7: nothing here imports from `_spark`, which makes frames and columns on the driver, and calls some of this there.
"""
