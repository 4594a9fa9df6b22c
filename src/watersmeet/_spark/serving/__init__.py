"""Tables that can be asked while the query runs: replicas beside the engine, behind Arrow Flight and HTTP."""
