"""What LLVM says of this machine, remembered in the cache: a process that finds all its code there does without LLVM, whose library takes
50 MiB and a tenth of a second to load."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from functools import cache
from pathlib import Path
from typing import Any

from shapescript.cache_settings import user_cache
from shapescript.compiler.codegen.target import Target, asked_of_llvm, for_machine, llvm_version
from shapescript.object_cache import Damaged, ObjectCache

MACHINE = "machine"  # how the name of its entry begins
PROCESSORS = Path("/proc/cpuinfo")
TOLD = (  # what Linux tells of a processor that LLVM's answer depends on: on x86-64, then on aarch64
    *("vendor_id", "cpu family", "model", "stepping", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "Features"),
)


@cache
def host() -> Target:
    """The machine that this process runs on. Raises CompileError with R1501 where it has no fused multiply-add."""
    kept, description = _cache(), _description()
    if kept is None or description is None:
        return for_machine(*asked_of_llvm())
    name = f"{MACHINE}-{_digest(description)}"
    found: Any = _read(kept, name)
    try:
        triple, cpu, features = json.loads(found)
        return for_machine(str(triple), str(cpu), dict(features))
    except (TypeError, ValueError):  # there is nothing, or nothing of use
        answer = asked_of_llvm()
        kept.write(name, _who(MACHINE), json.dumps(answer).encode())
        return for_machine(*answer)


def _description() -> str | None:
    """Of processors and system; two machines with the same are the same to LLVM. None where the system tells too little."""
    try:
        lines = [line.split(":", 1) for line in PROCESSORS.read_text().splitlines() if ":" in line]
    except (OSError, ValueError):
        return None
    told = {(key.strip(), value.strip()) for key, value in lines if key.strip() in TOLD}
    if not {"flags", "Features"} & {key for key, _ in told}:
        return None
    return json.dumps([sorted(told), platform.machine(), *os.uname()[2:4], llvm_version()])


def _cache() -> ObjectCache | None:
    kept = user_cache()
    return None if kept is None or kept.problem() else kept


def _read(kept: ObjectCache, name: str) -> bytes | None:
    try:
        return kept.read(name)
    except Damaged:
        return None


def _who(what: str) -> bytes:
    return hashlib.sha256(what.encode()).digest()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
