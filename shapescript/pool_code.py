"""The code of the pool of threads: from the cache where it is there, otherwise compiled, and kept there."""

from __future__ import annotations

from shapescript.cache_settings import user_cache
from shapescript.code_places import CodePlace, code_place
from shapescript.compile_keys import key_of_part
from shapescript.compile_log import CompileLog
from shapescript.compiler.codegen.loading import NativeCode, load_object
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.codegen.workers import pool_object

WHAT = "the thread pool"


def pool_code(target: Target) -> NativeCode:
    """For this machine. Raises ArgumentError for a variable of the environment that says nothing."""
    log, cache = CompileLog(WHAT), user_cache()
    place = "the cache is off" if cache is None else code_place(cache, key_of_part(WHAT, target))
    if isinstance(place, str):
        return _compiled(target, log, None, place)
    found, cause = place.found(lambda data: load_object(data, target))
    if found is not None:
        log.loaded()
        return found
    if log.wanted:
        cause = cause or place.cause()
    log.done("looking it up")
    return _compiled(target, log, place, cause)


def _compiled(target: Target, log: CompileLog, place: CodePlace | None, cause: str) -> NativeCode:
    data = pool_object(target, lambda: log.done("codegen"))
    log.done("LLVM")
    not_kept = place.keep(data) if place else None
    code = load_object(data, target)
    log.compiled(cause)
    if not_kept:
        log.not_kept(not_kept)
    return code
