"""Interim."""
from pyspark.sql.types import *
def type_of(f): return {"string":StringType(),"long":LongType(),"int":IntegerType(),"bytes":BinaryType()}[f.kind]
