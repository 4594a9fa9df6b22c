"""Which of two drivers a checkpoint belongs to, and whether a batch that is in is the batch that is to be written.

Nothing here knows Spark, Kafka or a file system: the deciding code gets the facts as arguments. So a simulation with
seeds drives the same code as a query does (`simulation`).
"""
