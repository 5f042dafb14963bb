"""Comparisons with PyTorch: a table of what the language computes, one module a subject, one runner (`test_comparisons.py`).

A module here has a tuple `ENTRIES` of `Comparison` (comparison.py); the runner finds every module of this folder by itself. An entry is

    Comparison(
        "gelu",                                           # its name in the tests
        ("gelu",),                                        # entries of the op table that it covers: the program must use each
        "fn f(x: T[b n]) -> T[b n]:\n    return gelu(x)\n",  # a program; T is f32 or f64, and both are run
        torch.nn.functional.gelu,                         # the same in PyTorch, of tensors and host numbers in the same order
        Within(4, "each side within two units"),          # how far the two may lie apart, and why
    )

`f` has one result and takes tensors (`T[...]`, `int[...]`, `bool[...]`), host numbers, and models that the program declares (PyTorch gets
a dict of their tensors by name). Its arguments are random numbers; `inputs={"label": integers(0, 5)}` says otherwise for one of them (a
host number always needs it). Of a `T` result the gradients by all `T` parameters and models are compared too, or those in `wrt=(...)`.
The runner takes sizes 0, 1 and others for each axis variable (`nonempty=("n",)`: not 0), numbers at the limits (`extremes=()`: none of
them), compares native code with the reference byte for byte, and checks the gradients along random directions, and their gradients.
What PyTorch makes of the arguments must have T's type: `torch.zeros(n, dtype=x.dtype)`. More fields are explained in comparison.py.
"""
