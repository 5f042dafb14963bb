"""Checkpoints: `save`, `load`, `latest`."""

from __future__ import annotations

import os
from dataclasses import field

from shapescript.compiler.check import types
from shapescript.compiler.check.scope import ModelEntity, RecordEntity
from shapescript.compiler.check.site import Site
from shapescript.compiler.check.type_names import BUILT_IN, TypeReader
from shapescript.compiler.check.typed import Typed
from shapescript.compiler.diagnostics.model import Span
from shapescript.compiler.ir.nodes import Value
from shapescript.compiler.ir.types import Type as IRType
from shapescript.compiler.records.dataclass import dataclass
from shapescript.compiler.syntax import tree

SAVED = types.Model | types.Optimiser | types.Scalar | types.Tensor | types.Handle | types.Dataset
OPTIONS = {"save": ("keep",), "load": ("rename", "partial", "force")}
STEP = "{step}"
STEP_NAMES = ("step", "epochs", "epoch")
FACTS = "shapescript"


@dataclass
class _Call:
    """The path, then what is saved or loaded by name, and the options."""

    path: Typed
    path_span: Span
    named: dict[str, tree.Argument] = field(default_factory=dict)
    options: dict[str, tree.Argument] = field(default_factory=dict)


def _read(site: Site) -> _Call:
    arguments = site.node.arguments
    if site.node.pattern is not None or site.items is not None or not arguments or arguments[0].name is not None:
        site.fail("E0302", f'`{site.name}` takes a path, then names with values: {site.name}("run.pt", m=...)')
    call = _Call(site.value(arguments[0], types.STR), arguments[0].value.span)
    for argument in arguments[1:]:
        _enter(site, call, argument)
    if not call.named:
        site.fail("E0302", f"`{site.name}` needs at least one name")
    return call


def _enter(site: Site, call: _Call, argument: tree.Argument) -> None:
    if argument.name is None:
        site.fail("E0302", f"what `{site.name}` takes behind the path has a name: `m=m`", argument.span)
    if argument.is_mut:
        site.fail("E0604", f"`mut` doesn't stand in `{site.name}`", argument.span)
    name = argument.name.text
    owner = next((called for called, options in OPTIONS.items() if name in options), None)
    if owner == site.name:
        call.options[name] = argument
    elif owner is not None:
        site.fail("E0311", f"`{name}` is an option of `{owner}`, and no name for an entry", argument.name.span, "choose another name")
    elif site.name == "save" and name == FACTS:
        site.fail("E0311", f"the name `{FACTS}` is kept for what a checkpoint says of itself", argument.name.span, "choose another name")
    else:
        call.named[name] = argument


def _kept(site: Site, name: str, argument: tree.Argument) -> Typed:
    typed = site.evaluate(argument)
    if not isinstance(typed.type, SAVED) or (isinstance(typed.type, types.Dataset) and typed.type.ordered):
        site.fail(
            "E0301",
            f"`{name}`: a checkpoint holds models, optimisers, numbers, tensors, modes, sinks and datasets, not {typed.type}",
            argument.value.span,
        )
    return typed


# ---- save


def _save(site: Site) -> Typed:
    call = _read(site)
    operands: list[Value] = []
    keep = call.options.get("keep")
    if keep is not None:
        operands.append(_checked_keep(site, call, keep).value)
    kept = {name: _kept(site, name, argument) for name, argument in call.named.items()}
    _check_step(site, call, kept)
    operands += [value for typed in kept.values() for value in typed.values]
    site.body.builder.emit("save", call.path.value, *operands, names=tuple(kept), keep=keep is not None)
    return Typed(types.NOTHING)


def _checked_keep(site: Site, call: _Call, argument: tree.Argument) -> Typed:
    """How many checkpoints are kept. E0503 for a constant below 1; one that a run computes is checked there (R1109)."""
    keep = site.value(argument, types.INT)
    if isinstance(keep.constant, int) and keep.constant < 1:
        site.fail("E0503", f"at least 1 checkpoint is kept, not {keep.constant}", argument.value.span)
    if isinstance(call.path.constant, str) and STEP not in call.path.constant:
        text = f"with `keep` each checkpoint has a name of its own: the path says where its step stands, as `{STEP}`"
        site.fail("E0302", text, call.path_span, f'"run.{STEP}.pt"')
    return keep


def _check_step(site: Site, call: _Call, kept: dict[str, Typed]) -> None:
    """E0302 where the path is to have the step, and nothing that is saved says it."""
    if isinstance(call.path.constant, str) and STEP in os.path.dirname(call.path.constant):
        site.fail("E0302", f"`{STEP}` stands in the file's name, not in its folder's", call.path_span)
    wants_step = "keep" in call.options or (isinstance(call.path.constant, str) and STEP in call.path.constant)
    says_step = any(
        isinstance(typed.type, types.Optimiser) or (name in STEP_NAMES and typed.type == types.INT) for name, typed in kept.items()
    )
    if wants_step and not says_step:
        text = "the path has the checkpoint's step, and nothing that is saved says which it is"
        site.fail("E0302", text, call.path_span, "save an optimiser, or an int as `step`, `epochs` or `epoch`")


# ---- load


def _load(site: Site) -> Typed:
    """A type at a name is a result; a handle is restored in place or compared; another value must equal what was saved. In a partial
    load a model or an optimiser's state is what the result starts from."""
    call = _read(site)
    partial = _partial(site, call)
    rename = _renamed(site, call.options["rename"]) if "rename" in call.options else ()
    operands = [site.value(call.options["force"], types.BOOL).value] if "force" in call.options else []
    asked: list[IRType | None] = []
    results: list[types.Type] = []
    starts: list[str] = []
    for name, argument in call.named.items():
        kind = _as_type(site, argument.value)
        if kind is None:
            typed = _kept(site, name, argument)
            operands += typed.values
            is_start = partial and isinstance(typed.type, types.Model | types.Optimiser)
            asked.append(types.lower(typed.type)[0] if is_start else None)
            if is_start:
                starts.append(name)
                results.append(typed.type)
        elif isinstance(kind, types.Model | types.Optimiser | types.Scalar | types.Tensor):
            if partial and isinstance(kind, types.Model | types.Optimiser):
                text = f"`{name}`: a partial load starts from a value, and {kind} is a type"
                site.fail("E0301", text, argument.value.span, f"give the value whose other parameters stay: `{name}={name}`")
            results.append(kind)
            asked.append(types.lower(kind)[0])
        else:
            site.fail("E0301", f"`{name}`: {kind} can't be loaded as a type; give the {kind} to restore", argument.value.span)
    if partial and not starts:
        site.fail("E0302", "a partial load needs a model or an optimiser's state to start from", call.options["partial"].span)
    values = site.body.builder.emit(
        "load",
        call.path.value,
        *operands,
        names=tuple(call.named),
        asked=tuple(asked),
        starts=tuple(starts),
        rename=rename,
        force="force" in call.options,
    )
    if len(results) == 1:
        return Typed(results[0], values)
    return Typed(types.Tuple(tuple(results)), values)


def _partial(site: Site, call: _Call) -> bool:
    argument = call.options.get("partial")
    if argument is None:
        return False
    given = site.value(argument, types.BOOL)
    if not isinstance(given.constant, bool):
        site.fail("E0301", "`partial` is `true` or `false` as the program says it: it decides what is a result", argument.value.span)
    return given.constant


def _renamed(site: Site, argument: tree.Argument) -> tuple[tuple[str, str], ...]:
    node = argument.value
    if not isinstance(node, tree.Dict):
        site.fail("E0301", '`rename` takes names in braces: `{"old": "new"}`', node.span)
    pairs: dict[str, str] = {}
    for pair in node.pairs:
        old, new = _text(site, pair.key), _text(site, pair.value)
        if old in pairs:
            site.fail("E0302", f'"{old}" is renamed twice', pair.key.span)
        pairs[old] = new
    if not pairs:
        site.fail("E0302", "`rename` names nothing", node.span, '`{"old": "new"}`')
    return tuple(pairs.items())


def _text(site: Site, node: tree.Expression) -> str:
    typed = site.body.evaluate(node)
    if typed.type != types.STR or not isinstance(typed.constant, str):
        found = "a string that a run computes" if typed.type == types.STR else str(typed.type)
        site.fail("E0301", f"names in `rename` are strings that the program says, found {found}", node.span)
    return typed.constant


def _as_type(site: Site, node: tree.Expression) -> types.Type | None:
    """The type that an expression names, None where it is a value."""
    reader = TypeReader(site.body.context, site.body.report)
    base, items = (node.base, node.items) if isinstance(node, tree.Bracket) else (node, None)
    name = _qualified(base)
    if name is None or name.parts[0].text in site.body.environment:
        return None
    entity = site.body.entity(base)
    known = str(name) in BUILT_IN or str(name) in site.body.context.types
    if isinstance(entity, ModelEntity | RecordEntity) or (entity is None and known):
        return reader.applied(name, items, node.span)
    return None


def _qualified(node: tree.Expression) -> tree.QualifiedName | None:
    match node:
        case tree.Name(span, name):
            return tree.QualifiedName(span, (tree.Identifier(span, name),))
        case tree.Attribute(span, base, name):
            inner = _qualified(base)
            return None if inner is None else tree.QualifiedName(span, (*inner.parts, name))
    return None


# ---- latest


def _latest(site: Site) -> Typed:
    pattern = site.value(site.arguments(("pattern",))["pattern"], types.STR)
    return Typed(types.STR, site.body.builder.emit("latest", pattern.value))


HANDLERS = {"save": _save, "load": _load, "latest": _latest}
