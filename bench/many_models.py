"""How compiling grows with the number of models that one program trains through `std.fit`:  python -m bench.many_models [COUNT]"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from shapescript.compiler.check.checker import check_file
from shapescript.compiler.codegen.program import compile_function
from shapescript.compiler.codegen.target import host
from shapescript.compiler.passes.pipeline import compile_entry

HEAD = """import shapescript.std.nn as nn
import shapescript.std.fit as std

dim In = 64
dim Classes = 10

data Digit:
    pixels: [In]
    label: int
"""
MODEL = """
dim Hidden{0} = {1}

model Net{0}:
    hidden: nn.Linear[In, Hidden{0}]
    output: nn.Linear[Hidden{0}, Classes]

fn loss(m: Net{0}, batch: Digit[b], mode: Mode) -> []:
    return batch.pixels |> nn.linear(m.hidden) |> relu |> nn.linear(m.output) |> cross_entropy(batch.label)
"""
MAIN = """
fn train(data: Dataset[Digit], sink: LogSink):
"""
CALL = """    mut m{0} = Net{0}(seed=0)
    std.fit(mut m{0}, data, sink, 1, 64, 3e-4, Eval)
"""


def seconds(count: int) -> tuple[float, float]:
    """Checking, and everything from the checked module to native code."""
    numbers = range(count)
    text = HEAD + "".join(MODEL.format(n, 32 + 8 * n) for n in numbers) + MAIN + "".join(CALL.format(n) for n in numbers)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.ss"
        path.write_text(text)
        start = time.perf_counter()
        program = check_file(path)
        checked = time.perf_counter()
    if program.module is None:
        raise SystemExit("\n".join(map(str, program.diagnostics)))
    compile_function(compile_entry(program.module, program.functions["train"][0].key, {}), host())
    return checked - start, time.perf_counter() - checked


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seconds(1)
    one, many = seconds(1), seconds(count)
    for what, first, second in zip(("check", "compile"), one, many, strict=True):
        print(f"{what}: {first * 1e3:.0f} ms for 1 model, {second * 1e3:.0f} ms for {count}: {second / first:.1f} times")


if __name__ == "__main__":
    main()
