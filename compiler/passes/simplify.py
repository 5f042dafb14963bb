"""The same program with less to do: known numbers, cheaper ways to say things, common subexpressions, dead code, invariants out of loops.

One walk in program order renames operands, applies the local rules (in `*rules.py`) and looks every pure operation up among those already
made in this block and the blocks around it. What a loop computes anew each time from values outside of it moves before the loop, but for
broadcasts and `iota` with axes, which cost nothing where they are fused and storage where they are not, and for what would fail there
because a size is none. Walks are repeated until nothing changes. Bits are kept; no ordered operation is moved, dropped or done twice, but a
check of what has been checked already.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field

from shapescript.compiler.ir.nodes import Block, Function, Op, Value
from shapescript.compiler.ir.sizes import Symbol
from shapescript.compiler.ir.types import Element
from shapescript.compiler.ops.build import Builder, rebuilt
from shapescript.compiler.ops.storage import LOOPS, is_stored
from shapescript.compiler.ops.table import Control, entry
from shapescript.compiler.passes import model_rules, nested_place_rules, place_rules, reshape_rules, rules, window_rules
from shapescript.compiler.passes.dead import drop_dead
from shapescript.compiler.passes.fold import known
from shapescript.compiler.passes.single_use import rewrite_single_uses
from shapescript.compiler.passes.symbols import attribute_key, doubtful_sizes_of, mentions, rows_bound
from shapescript.compiler.records.dataclass import dataclass

MOST_WALKS = 10
MOST_REWRITES = 30  # of what one operation became: far beyond what the rules need, and an end if two of them undid each other
FREE_WHEN_FUSED = ("broadcast", "iota")
NEVER_SHARED = ("reserve",)
ALL_RULES = tuple(
    rule for file in (rules, model_rules, reshape_rules, place_rules, nested_place_rules, window_rules) for rule in file.RULES
)


def simplify(function: Function) -> Function:
    body = function.body
    for _ in range(MOST_WALKS):
        walk = _Walk(ALL_RULES)
        body, rewritten = rewrite_single_uses(drop_dead(walk.block(body)))
        if not walk.changed and not rewritten:
            break
    return function.with_body(body)


def fold_conditions(function: Function) -> Function:
    """Known host scalars as constants, and branches that are never taken gone.

    This much is done before differentiation; sharing subexpressions there would change the order in which adjoints are added.
    """
    body = drop_dead(_Walk((rules.constant,), shares=False).block(function.body))
    return function.with_body(body)


@dataclass
class _Scope:
    """A block being made. `repeats`: it is the body of a loop; `is_apart`: it takes nothing that lies in storage from the blocks around it
    that it could compute; `symbols` are the sizes bound in it."""

    outer: _Scope | None = None
    repeats: bool = False
    is_apart: bool = False
    symbols: set[Symbol] = field(default_factory=set)
    ops: list[Op] = field(default_factory=list)
    defined: set[Value] = field(default_factory=set)
    made: dict[Hashable, tuple[Value, ...]] = field(default_factory=dict)
    checked: set[Hashable] = field(default_factory=set)
    norms: dict[Value, Value] = field(default_factory=dict)

    def find(self, key: Hashable) -> tuple[Value, ...] | None:
        scope: _Scope | None = self
        numbers_only = False
        while scope is not None:
            found = scope.made.get(key)
            if found is not None and not (numbers_only and any(map(is_stored, found))):
                return found
            numbers_only = numbers_only or scope.is_apart
            scope = scope.outer
        return None

    def has_checked(self, what: Hashable) -> bool:
        return what in self.checked or (self.outer is not None and self.outer.has_checked(what))

    def norm_of(self, gradient: Value) -> Value | None:
        """The norm of a gradient, or of what it was scaled from: it is finite where the gradient is."""
        return self.norms.get(gradient) or (self.outer.norm_of(gradient) if self.outer else None)


class _Walk:
    def __init__(self, local_rules: Sequence[rules.Rule], shares: bool = True) -> None:
        self.rules, self.shares = local_rules, shares
        self.definitions: dict[Value, Op] = {}
        self.replaced: dict[Value, Value] = {}
        self.changed = False
        self.depth = 0

    def values(self, values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(self.value(value) for value in values)

    def value(self, value: Value) -> Value:
        while value in self.replaced:
            value = self.replaced[value]
        return value

    def replace(self, old: Sequence[Value], new: Sequence[Value]) -> None:
        self.replaced.update((a, b) for a, b in zip(old, self.values(new), strict=True) if a is not b)
        self.changed = True

    def block(self, block: Block, outer: _Scope | None = None, around: str = "") -> Block:
        """`around` is the operation whose region the block is."""
        scope = _Scope(outer, around in LOOPS, around == "isolated", set(block.symbols), defined=set(block.parameters))
        for op in block.ops:
            self.add(op, scope)
        return Block(block.parameters, tuple(scope.ops), self.values(block.yields), block.symbols)

    def add(self, op: Op, scope: _Scope) -> None:
        """Put the operation, or what is as good, at the end of the scope."""
        op = self.by_norm(rebuilt(op, self.values(op.operands), op.regions, op.results), scope)
        if isinstance(entry(op.name).lowering, Control):
            self.add_control(op, scope)
        elif not self.rewrite(op, scope) and not self.is_checked(op, scope) and not self.is_evaluation(op, scope):
            self.share(op, scope)

    def rewrite(self, op: Op, scope: _Scope) -> bool:
        if self.depth == MOST_REWRITES:
            return False
        builder = Builder(op.span)
        for rule in self.rules:
            if builder.ops:  # a rule began, and gave up
                builder = Builder(op.span)
            found = rule(op, self.definitions, builder)
            if found is not None:
                self.depth += 1
                for made in builder.ops:
                    self.add(made, scope)
                self.depth -= 1
                self.replace(op.results, (found,))
                return True
        return False

    def is_checked(self, op: Op, scope: _Scope) -> bool:
        """Whether the operation checks what has been checked before; notes what is checked from here on."""
        place = (op.operands, op.attributes["size"]) if op.name in ("check_slice", "check_index") else None
        if (op.name == "check_finite" and scope.has_checked(op.operands[0])) or (place and scope.has_checked(place)):
            self.changed = True
            return True
        if place:
            scope.checked.add(place)
        if op.name == "check_finite":
            scope.checked.add(op.operands[0])
        elif op.name == "scale_model" and scope.has_checked(op.operands[0]):
            scope.checked.add(op.result)
        return False

    def by_norm(self, op: Op, scope: _Scope) -> Op:
        """A gradient whose norm is known needs no other look at its elements to say whether they are finite."""
        norm = scope.norm_of(op.operands[0]) if op.operands and self.shares else None
        if op.name == "global_norm":
            scope.norms[op.operands[0]] = op.result if norm is None else norm
        elif op.name == "scale_model" and norm is not None:
            scope.norms[op.result] = norm
        elif norm is not None and ((op.name == "check_finite" and len(op.operands) == 1) or op.name == "all_finite"):
            self.changed = True
            return rebuilt(op, (*op.operands, norm) if op.name == "check_finite" else (norm,), (), op.results)
        return op

    def is_evaluation(self, op: Op, scope: _Scope) -> bool:
        """Whether the operation draws from a mode that is known to be Eval: its draw is -1, no stream moves, and nobody uses the seed."""
        mode = self.definitions.get(op.operands[0]) if op.name == "mode_draw" else None
        if mode is None or mode.name != "mode_eval":
            return False
        builder = Builder(op.span)
        numbers = [builder.constant(number, Element.I64) for number in (0, -1)]
        for made in builder.ops:
            self.add(made, scope)
        self.replace(op.results, numbers)
        return True

    def share(self, op: Op, scope: _Scope) -> None:
        key = self.key(op)
        found = scope.find(key) if key is not None else None
        if found is not None:
            self.replace(op.results, found)
            return
        target = self.place(op, scope)
        self.changed = self.changed or target is not scope
        self.append(op, target)
        if key is not None:
            target.made[key] = op.results

    def append(self, op: Op, scope: _Scope) -> None:
        scope.ops.append(op)
        scope.defined.update(op.results)
        scope.symbols.update(rows_bound(op))
        self.definitions.update((result, op) for result in op.results)

    def key(self, op: Op) -> Hashable | None:
        if not self.shares or entry(op.name).ordered or op.regions or op.name in NEVER_SHARED:
            return None
        return op.name, op.operands, tuple((name, attribute_key(part)) for name, part in op.attributes.items())

    def place(self, op: Op, scope: _Scope) -> _Scope:
        """The outermost scope in which the operation may stand, out of loops only."""
        stays = entry(op.name).ordered or op.name in NEVER_SHARED or (op.name in FREE_WHEN_FUSED and is_stored(op.result))
        if not self.shares or stays:
            return scope
        while scope.repeats and scope.outer and not any(value in scope.defined for value in op.operands):
            if scope.symbols and mentions(op, scope.symbols):
                break
            if any(doubtful_sizes_of(op)):  # the loop may have no turn, or check before
                break
            scope = scope.outer
        return scope

    # ---- control flow

    def add_control(self, op: Op, scope: _Scope) -> None:
        condition = known(op.operands[0], self.definitions) if op.name == "if" else None
        if condition is not None:
            taken = op.regions[0 if condition else 1]
            for inner in taken.ops:
                self.add(inner, scope)
            self.replace(op.results, taken.yields)
            return
        if op.name in LOOPS:
            self.replace_invariants(op)
        regions = tuple(self.block(region, scope, op.name) for region in op.regions)
        done = rebuilt(op, self.values(op.operands), regions, op.results)
        if op.name == "if":
            self.replace_equal_results(done)
        self.append(done, scope)

    def replace_invariants(self, op: Op) -> None:
        """A carried value that the body yields as it got it, or as it was before the loop, is the value before the loop."""
        first, body = LOOPS[op.name], op.regions[-1]
        own = len(body.parameters) - len(op.operands[first:])
        for place, operand in enumerate(op.operands[first:]):
            parameter = body.parameters[own + place]
            if self.value(body.yields[place]) in (parameter, operand):
                inside = [region.parameters[own + place] for region in op.regions]
                self.replace([*inside, op.results[place]], [operand] * (len(inside) + 1))

    def replace_equal_results(self, op: Op) -> None:
        for result, then, otherwise in zip(op.results, op.regions[0].yields, op.regions[1].yields, strict=True):
            if then is otherwise:
                self.replace([result], [then])
