"""Native functions: from the cache where it has their code, otherwise compiled, and kept there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from shapescript.cache_settings import user_cache
from shapescript.checking import stage
from shapescript.code_places import CodePlace, code_place
from shapescript.compile_keys import key_of
from shapescript.compile_log import CompileLog, told
from shapescript.compiler.codegen.artifact_data import code_from_bytes, from_bytes, to_bytes
from shapescript.compiler.codegen.kernel_objects import KNOWN
from shapescript.compiler.codegen.program import Artifact, NativeFunction, compile_artifact, load_artifact
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.codegen.workers import PROCESS
from shapescript.compiler.ir.data import Encoder, Unencodable
from shapescript.compiler.ir.nodes import Module
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.object_cache import ObjectCache
from shapescript.pool_code import pool_code
from shapescript.this_machine import host

PROCESS.code = pool_code  # it knows no cache itself

PROFILE = "profile"  # a flag: the function measures itself


def native_function(module: Module, name: str, sizes: Mapping[Symbol, Size], flags: tuple[str, ...] = ()) -> NativeFunction:
    """The function of this name with these dims, for this machine. Flags say how it is compiled.

    Raises CompileError, InternalError; ArgumentError for a variable of the environment that says nothing.
    """
    log, target = CompileLog(told(module.functions[name], sizes)), host()
    cache = user_cache()
    place = "the cache is off" if cache is None else _place(cache, module, name, sizes, flags, target)
    if isinstance(place, str):
        return _load(_compiled(module, name, sizes, flags, target, log), target, log, place)
    found, cause = place.found(target)
    if found is not None:
        log.loaded()
        return found
    if log.wanted:
        cause = cause or place.code.cause()
    place.learn(target)
    log.done("looking it up")
    artifact = _compiled(module, name, sizes, flags, target, log)
    not_kept = place.keep(artifact)
    function = _load(artifact, target, log, cause)
    if not_kept:
        log.not_kept(not_kept)
    return function


def _compiled(module: Module, name: str, sizes: Mapping[Symbol, Size], flags: tuple[str, ...], target: Target, log: CompileLog) -> Artifact:
    from shapescript.compiler.passes.pipeline import compile_entry  # only here are passes needed

    span = module.functions[name].span
    with stage("passes", span):
        function = compile_entry(module, name, sizes)
    log.done("passes")
    with stage("codegen", span):
        artifact = compile_artifact(function, target, PROFILE in flags, lambda: log.done("codegen"))
    log.done("LLVM")
    return artifact


def _load(artifact: Artifact, target: Target, log: CompileLog, cause: str) -> NativeFunction:
    with stage("codegen", artifact.function.span):
        function = load_artifact(artifact, target)
    log.compiled(cause)
    return function


class _Place:
    """A function's place in the cache."""

    def __init__(self, code: CodePlace, program: Encoder) -> None:
        self.code, self.program = code, program

    def found(self, target: Target) -> tuple[NativeFunction | None, str]:
        """What is there; where that is damaged, how."""
        return self.code.found(lambda data: load_artifact(from_bytes(data, self.program.places), target))

    def learn(self, target: Target) -> None:
        """Take over the kernels of what the function was before, most of which it will have again."""
        with suppress(Exception):  # whatever bytes are there, the program runs
            data = self.code.before()
            if data is not None:
                KNOWN.add(target, code_from_bytes(data))

    def keep(self, artifact: Artifact) -> str | None:
        """Gives why it can't be kept."""
        try:
            content = to_bytes(artifact, self.program)
        except Unencodable as error:
            return str(error)
        return self.code.keep(content)


def _place(
    cache: ObjectCache, module: Module, name: str, sizes: Mapping[Symbol, Size], flags: tuple[str, ...], target: Target
) -> _Place | str:
    """Or why it has none."""
    try:
        made = key_of(module, name, sizes, flags, target)
    except Unencodable as error:
        return f"the cache can't be used: {error}"
    code = code_place(cache, made[0] if made else None)
    if isinstance(code, str):
        return code
    assert made is not None  # without a key there is no place
    return _Place(code, made[1])
