"""The arguments of a program's `main`, as words of a command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shapescript.compiler.check.program import Signature, SignatureParameter
from shapescript.runtime.errors import did_you_mean
from shapescript.signatures import literal

TRUTH = {"true": True, "false": False}


class UsageError(Exception):
    """Words that the command line can't be given."""


def parse_arguments(signature: Signature, words: Sequence[str]) -> dict[str, Any]:
    """`--name value` and `--name=value`, with `-` or `_` in names; a bool alone is true, `--no-name` false.

    Raises UsageError.
    """
    parameters = {parameter.name: parameter for parameter in signature.parameters}
    for parameter in signature.parameters:
        if str(parameter.type) not in _READERS:
            what = f"main's parameter {parameter.name}: {parameter.type}"
            raise UsageError(f"{what} can't be given on the command line; call main from Python")
    found: dict[str, Any] = {}
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if not word.startswith("--") or word == "--":
            raise UsageError(f"unexpected {word!r}: main's parameters are given by name, as --name value")
        option, equals, text = word[2:].partition("=")
        parameter, value = _named(option, parameters)
        if value is not None:
            if equals:
                raise UsageError(f"--{option} takes no value")
        elif not equals:
            value = _following(option, parameter, rest)
        else:
            value = _read(option, parameter, text)
        if parameter.name in found:
            raise UsageError(f"--{option} is given twice")
        found[parameter.name] = value
    missing = [parameter for parameter in signature.parameters if parameter.name not in found and parameter.default is None]
    if missing:
        raise UsageError(f"main needs {', '.join(f'--{_shown(parameter)} ({parameter.type})' for parameter in missing)}")
    return found


def wants_help(words: Sequence[str]) -> bool:
    return "--help" in words or "-h" in words


def help_text(signature: Signature, file: str) -> str:
    """What `run FILE --help` prints."""
    options = "[--engine native|numpy] [--threads N] [--profile] [--trace JSON] [--dim NAME=N]"
    lines = [f"usage: shapescript run {options} {file} [--name value …]", ""]
    if not signature.parameters:
        return "\n".join([*lines, "main takes no arguments."])
    lines.append("arguments of main:")
    names = [f"--{_shown(parameter)}" for parameter in signature.parameters]
    width = max(map(len, names))
    for name, parameter in zip(names, signature.parameters, strict=True):
        default = "required" if parameter.default is None else f"default {literal(parameter.default)}"
        lines.append(f"  {name:{width}}  {parameter.type!s:5}  {default}")
    return "\n".join(lines)


def _named(option: str, parameters: dict[str, SignatureParameter]) -> tuple[SignatureParameter, bool | None]:
    """The parameter, and False where the option is `--no-` before a bool's name."""
    name = option.replace("-", "_")
    if name in parameters:
        return parameters[name], None
    negated = parameters.get(name.removeprefix("no_"))
    if name.startswith("no_") and negated and str(negated.type) == "bool":
        return negated, False
    if name in ("engine", "threads", "dim", "profile", "trace"):
        raise UsageError(f"--{option} is an option of `run` and stands before the file; main has no parameter {name}")
    raise UsageError(f"main has no parameter {name!r}{did_you_mean(name, parameters)}")


def _following(option: str, parameter: SignatureParameter, rest: list[str]) -> Any:
    if str(parameter.type) == "bool":
        return TRUTH[rest.pop()] if rest and rest[-1] in TRUTH else True
    if not rest:
        raise UsageError(f"--{option} needs a value ({parameter.type})")
    return _read(option, parameter, rest.pop())


def _read(option: str, parameter: SignatureParameter, text: str) -> Any:
    try:
        return _READERS[str(parameter.type)](text)
    except (ValueError, KeyError):
        raise UsageError(f"--{option}: expected {_WANTED[str(parameter.type)]}, got {text!r}") from None


def _int(text: str) -> int:
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise ValueError
    return value


def _shown(parameter: SignatureParameter) -> str:
    return parameter.name.replace("_", "-")


_READERS: dict[str, Callable[[str], Any]] = {"int": _int, "float": float, "bool": TRUTH.__getitem__, "str": str}
_WANTED = {"int": "an int that fits in 64 bits", "float": "a float", "bool": "true or false", "str": "a string"}
