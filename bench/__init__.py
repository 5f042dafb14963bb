"""Benchmarks: this project beside its peers, each in a process of its own, in turn, in one run."""
