"""The op table. Importing this room fills it."""

from shapescript.compiler.ops import classification, control, elementwise, fused, host, indexing, models, places, shapes

__all__ = ["classification", "control", "elementwise", "fused", "host", "indexing", "models", "places", "shapes"]
