"""CPU levels that code is generated for, and the check that this machine can run it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import llvmlite

from shapescript.compiler.diagnostics.model import CompileError, Diagnostic
from shapescript.compiler.records.dataclass import dataclass

NO_FMA = "R1501"


@dataclass(frozen=True)
class Target:
    """A CPU level, with the register budget that tiles of a contraction are planned by.

    lanes: f32 numbers of a native vector. registers: native vector registers. tile_rows: most rows of a contraction's tile of several
    vectors that keep the multipliers busy without spilling.
    """

    name: str
    triple: str
    cpu: str
    features: str
    lanes: int
    registers: int
    tile_rows: int

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith("x86_64")

    @property
    def vector_bytes(self) -> int:
        return 4 * self.lanes


def x86_64_v3() -> Target:
    """AVX2 and FMA: the least x86-64 that native code runs on."""
    return Target("x86-64-v3", "x86_64-unknown-linux-gnu", "x86-64-v3", "", lanes=8, registers=16, tile_rows=6)


def x86_64_v4() -> Target:
    """AVX-512."""
    return Target("x86-64-v4", "x86_64-unknown-linux-gnu", "x86-64-v4", "", lanes=16, registers=32, tile_rows=8)


def aarch64() -> Target:
    """Armv8-A with NEON, which always has fused multiply-add."""
    return Target("aarch64", "aarch64-unknown-linux-gnu", "generic", "+neon", lanes=4, registers=32, tile_rows=8)


def llvm_version() -> str:
    """Of what LLVM is called through, which comes with an LLVM of its own; and how large that is, for who builds one with another."""
    files = sorted((Path(llvmlite.__file__).parent / "binding").glob("*llvmlite.*"))
    return f"{llvmlite.__version__}, {[(file.name, file.stat().st_size) for file in files]}"


@cache
def host() -> Target:
    """The machine that this process runs on. Raises CompileError with R1501 where it has no fused multiply-add."""
    return for_machine(*asked_of_llvm())


def asked_of_llvm() -> tuple[str, str, dict[str, bool]]:
    """How LLVM describes this machine, for `for_machine`. Loads LLVM."""
    import llvmlite.binding as llvm

    return llvm.get_process_triple(), llvm.get_host_cpu_name(), dict(llvm.get_host_cpu_features())


def for_machine(triple: str, cpu: str, features: dict[str, bool]) -> Target:
    """The target of a machine described as LLVM describes it. Raises CompileError with R1501 where it has no fused multiply-add."""
    named = ",".join(f"{'+' if there else '-'}{name}" for name, there in sorted(features.items()))
    if triple.startswith(("aarch64", "arm64")):
        return Target("host", triple, cpu, named, lanes=4, registers=32, tile_rows=8)
    if triple.startswith(("x86_64", "amd64")) and features.get("fma") and features.get("avx2"):
        if all(features.get(part) for part in ("avx512f", "avx512bw", "avx512dq", "avx512vl")):
            return Target("host", triple, cpu, named, lanes=16, registers=32, tile_rows=8)
        return Target("host", triple, cpu, named, lanes=8, registers=16, tile_rows=6)
    raise CompileError(
        Diagnostic(
            NO_FMA,
            f"native code needs a CPU with fused multiply-add (x86-64-v3 or aarch64); this one is {cpu or 'unknown'} ({triple})",
            None,
            help="run with --engine=numpy: it gives the same numbers, slowly",
        )
    )
