"""Random programs as texts, each with the same in PyTorch.

`program.py` makes a file of several functions over one list of parameters; `writer.py` writes the statements of one of them and
picks operands that fit; the modules `elementwise`, `reductions`, `moves`, `indexing`, `joining`, `moving_windows`, `products`,
`control` and `gradients` hold the table of what an expression or statement may be. An `Expression` carries both texts, its axes, the
largest number that it may hold, and how far the two sides may lie apart by rounding: the tolerance of a comparison is derived, not
chosen.
"""
