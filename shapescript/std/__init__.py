"""The standard library, shipped as ShapeScript source."""
