"""The reference evaluator: the executable definition of the typed IR, in NumPy."""
