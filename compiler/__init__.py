"""The compiler: source to typed IR to native code; docs/architecture.md is the tour."""
