"""What the compiler says: the registry of codes, diagnostics as data, and the one renderer."""
