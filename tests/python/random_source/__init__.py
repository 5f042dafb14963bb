"""Random programs as texts, each with the same in PyTorch.

`program.py` makes a file of several functions over one list of parameters; `writer.py` writes the statements of one of them and picks
operands that fit; `elementwise`, `reductions`, `moves`, `joining` and `indexing` have the tables of what an expression may be, `control`
branches and loops, `twin` what the twins call, `shrinking` shortens what fails. An `Expression` carries both texts, its axes, the largest
number that it may hold, and how far the two sides may lie apart by rounding: the tolerance of a comparison is derived, not chosen.
"""
