"""The peers: what each is, which packages it needs, which rows it has, and what its process is given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .rows import ModelName, Row

OURS = "ShapeScript"
TRAINED_BY_ALL: frozenset[ModelName] = frozenset({"classifier", "char_gpt", "digits_cnn", "lstm"})
# They choose kernels of another machine, or other tiles, for NumPy.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "NVPL_BLAS_DEBUG_CPU_TYPE", "XLA_FLAGS")


@dataclass(frozen=True)
class Peer:
    """`work` is `module:function`, a function from a task to its work; `imports` is what an idle process has loaded.

    `may_fail`: a failure leaves it out. `has_cache`: by itself it keeps what it has compiled for the next process.
    """

    name: str
    key: str
    work: str
    imports: Sequence[str]
    trains: frozenset[ModelName] = TRAINED_BY_ALL
    can_infer: bool = False
    may_fail: bool = False
    has_cache: bool = False

    def has(self, row: Row) -> bool:
        return row.model in self.trains if row.kind == "training" else self.can_infer


PEERS: Sequence[Peer] = (
    Peer(OURS, "ours", "bench.ours:work", ["shapescript"], can_infer=True, has_cache=True),
    Peer("PyTorch", "torch", "bench.torch_peer:eager", ["torch"], can_infer=True),
    # It needs a C++ compiler, and some 10 s.
    Peer("torch.compile", "compile", "bench.torch_peer:compiled", ["torch"], may_fail=True, has_cache=True),
    Peer("JAX", "jax", "bench.jax_peer:called", ["jax", "optax"], can_infer=True),
    Peer("JAX scan", "scan", "bench.jax_peer:scanned", ["jax", "optax"]),
    Peer("NumPy", "numpy", "bench.numpy_peer:work", ["numpy"], frozenset({"classifier", "digits_cnn", "lstm"}), can_infer=True),
)


def peer_of(key: str) -> Peer:
    return next(peer for peer in PEERS if peer.key == key)


def threads_shown(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def environment(threads: int, caches: Path) -> Mapping[str, str]:
    """Of a peer's process: so many threads, and caches of its own, so that what an earlier run has compiled shows in no figure."""
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    limits = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "SHAPESCRIPT_THREADS", "NPROC")
    folders = {"SHAPESCRIPT_CACHE_DIR": caches / "shapescript", "TORCHINDUCTOR_CACHE_DIR": caches / "inductor"}
    return {
        **kept,
        **dict.fromkeys(limits, str(threads)),
        **{name: str(folder) for name, folder in folders.items()},
        "JAX_PLATFORMS": "cpu",
    }
