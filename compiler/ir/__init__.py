"""The typed IR: sizes, types, nodes, printer, verifier."""
