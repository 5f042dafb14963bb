"""Native functions: from the cache where it has their code, otherwise compiled, and kept there."""

from __future__ import annotations

from collections.abc import Mapping

from shapescript.cache_settings import user_cache
from shapescript.checking import stage
from shapescript.compile_keys import Key, compiler_digest, key_of
from shapescript.compile_log import CompileLog
from shapescript.compiler.codegen.artifact_data import from_bytes, to_bytes
from shapescript.compiler.codegen.program import Artifact, NativeFunction, compile_artifact, load_artifact
from shapescript.compiler.codegen.target import Target, host
from shapescript.compiler.ir.data import Encoder, Unencodable
from shapescript.compiler.ir.nodes import Module
from shapescript.compiler.ir.sizes import Size, Symbol
from shapescript.object_cache import Damaged, ObjectCache

PROFILE = "profile"  # a flag: the function measures itself


def native_function(module: Module, name: str, sizes: Mapping[Symbol, Size], flags: tuple[str, ...] = ()) -> NativeFunction:
    """The function of this name with these dims, for this machine. Flags say how it is compiled.

    Raises CompileError, InternalError; ArgumentError for a variable of the environment that says nothing.
    """
    log, target = CompileLog(module.functions[name], sizes), host()
    cache = user_cache()
    if cache is None:
        return _load(_compiled(module, name, sizes, flags, target, log), target, log, "the cache is off")
    place = _place(cache, module, name, sizes, flags, target)
    if isinstance(place, str):
        return _load(_compiled(module, name, sizes, flags, target, log), target, log, place)
    found, cause = place.found()
    if found is not None:
        function = load_artifact(found, target)
        log.loaded()
        return function
    if log.wanted:
        cause = cause or place.cause()
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

    def __init__(self, cache: ObjectCache, key: Key, program: Encoder) -> None:
        self.cache, self.key, self.program = cache, key, program
        self.name = _name(key)

    def found(self) -> tuple[Artifact | None, str]:
        """What is there; where that is damaged, how."""
        try:
            data = self.cache.read(self.name)
        except Damaged as error:
            return None, f"what the cache has is no use: {error}"
        if data is None:
            return None, ""
        try:
            return from_bytes(data, self.program.places), ""
        except Exception as error:  # whatever bytes are there, the program runs
            return None, f"what the cache has is no use: {type(error).__name__}: {error}"

    def cause(self) -> str:
        """Why there is nothing."""
        same = [_parts(name) for name in self.cache.made_for(self.key.who)]
        program, machine, compiler = _parts(self.name)
        if not same:
            return "it isn't in the cache"
        if (program, machine) in [known[:2] for known in same]:
            return "another version of ShapeScript or LLVM compiled it last"
        if (program, compiler) in [known[::2] for known in same]:
            return "it was compiled for another CPU"
        return "its sources or dims have changed"

    def keep(self, artifact: Artifact) -> str | None:
        """Gives why it can't be kept."""
        if compiler_digest() != self.key.compiler:
            return "the compiler's files have changed"
        try:
            content = to_bytes(artifact, self.program)
        except Unencodable as error:
            return str(error)
        return self.cache.write(self.name, self.key.who, content)


def _place(
    cache: ObjectCache, module: Module, name: str, sizes: Mapping[Symbol, Size], flags: tuple[str, ...], target: Target
) -> _Place | str:
    """Or why it has none."""
    problem = cache.problem()
    if problem:
        return f"the cache can't be used: {cache.folder}: {problem}"
    try:
        made = key_of(module, name, sizes, flags, target)
    except Unencodable as error:
        return f"the cache can't be used: {error}"
    return "the compiler's files have changed since it was loaded" if made is None else _Place(cache, *made)


def _name(key: Key) -> str:
    """Of a file."""
    return f"{key.program.hex()}-{key.machine.hex()}-{key.compiler.hex()}"


def _parts(name: str) -> tuple[str, ...]:
    return tuple(name.split("-"))
