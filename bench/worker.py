"""One peer in a process of its own: reads how many steps to do, a line each, and answers with the time and the losses."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from .task import BATCHES_PER_EPOCH, Task, Trainer, load_task


def trainer(peer: str, task: Task) -> Trainer:
    """Raises ImportError for a peer that isn't installed."""
    match peer:
        case "ShapeScript":
            from .ours import ShapeScriptTrainer

            return ShapeScriptTrainer(task)
        case "NumPy":
            from .numpy_by_hand import NumpyTrainer

            return NumpyTrainer(task)
        case "PyTorch":
            from .torch_eager import TorchTrainer

            return TorchTrainer(task)
        case "JAX":
            from .jax_jit import JaxTrainer

            return JaxTrainer(task)
    raise ValueError(f"no peer {peer!r}")


def main(peer: str, path: str) -> None:
    begun = time.perf_counter()
    try:
        ours = trainer(peer, load_task(Path(path)))
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    losses = ours.train(BATCHES_PER_EPOCH)
    print(json.dumps({"first_epoch": time.perf_counter() - begun, "losses": losses}), flush=True)
    for line in sys.stdin:
        steps = int(line)
        begun = time.perf_counter()
        losses = ours.train(steps)
        print(json.dumps({"seconds": time.perf_counter() - begun, "losses": losses}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
