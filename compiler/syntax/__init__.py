"""Text to untyped tree: grammar, layout, tree, and what to say where a program can't be read."""
