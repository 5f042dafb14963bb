"""A whole function as one native function: sizes and arguments at its start, moves and results at its end."""

from __future__ import annotations

from shapescript.compiler.codegen import (
    along,
    emit,
    fold,
    fused_reductions,
    indexing,
    lower_batches,
    lower_control,
    lower_data,
    lower_draws,
    lower_elements,
    lower_host,
    lower_logs,
    lower_models,
    lower_optimisers,
    lower_places,
    lower_reductions,
    lower_reserve,
    products,
    reduced_contraction,
    rows_product,
    sorting,
    window_products,
    windows,
)
from shapescript.compiler.codegen.block import lower_block, move
from shapescript.compiler.codegen.context import ENTRY, ContextLayout, load_address, load_number, load_word, store_number, store_word
from shapescript.compiler.codegen.emit import I64, LANES, Builder, Value, at, constant, load, store
from shapescript.compiler.codegen.environment import emit_entry
from shapescript.compiler.codegen.leaf_updates import each_vector
from shapescript.compiler.codegen.lowering import MEMORY_TYPES, Lowering, Site
from shapescript.compiler.codegen.target import Target
from shapescript.compiler.ir import nodes
from shapescript.compiler.ir.nodes import Function
from shapescript.compiler.ir.sizes import product
from shapescript.compiler.ir.types import MODE, DatasetType, Element, TensorType
from shapescript.compiler.numerics import bfloat16
from shapescript.compiler.ops.locations import Location, ParameterStorage, ResultStorage, argument_symbols, has_storage
from shapescript.compiler.passes.plan import plan_memory

RULE_MODULES = (  # they fill RULES
    along,
    fold,
    fused_reductions,
    indexing,
    lower_batches,
    lower_control,
    lower_data,
    lower_draws,
    lower_elements,
    lower_host,
    lower_logs,
    lower_models,
    lower_optimisers,
    lower_places,
    lower_reductions,
    lower_reserve,
    products,
    reduced_contraction,
    rows_product,
    sorting,
    window_products,
    windows,
)

LEFT = 1  # what the entry returns where native code left at a site; 0 otherwise


def lower_function(function: Function, target: Target, profile: bool = False) -> Lowering:
    """LLVM IR of the function, as `Lowering.module`, whose exported function ENTRY takes the address of a context.

    `profile`: it measures itself (profile.py).
    """
    symbols = argument_symbols(function)
    layout = ContextLayout(len(function.body.parameters), len(symbols), function.results)
    low = Lowering(function, target, plan_memory(function), layout, profile)
    b = low.b
    if low.probes:
        low.probes.begin()
    low.set_deadline(low.clock())
    for place, symbol in enumerate(symbols):
        low.sizes.bind(symbol, load_word(b, low.context, layout.first_symbol + place))
    for index, value in enumerate(function.body.parameters):
        _define_parameter(low, value, index)
    lower_block(low, function.body)
    _finish(low)
    _return(low, 0)
    b.position_at_end(low.exit)
    _return(low, LEFT)
    emit_entry(low.module, target, ENTRY, low.native)
    return low


def _return(low: Lowering, status: int) -> None:
    if low.probes:
        low.probes.end()
    low.b.ret(I64(status))


def _define_parameter(low: Lowering, value: nodes.Value, index: int) -> None:
    """A handle's object has its parameter's number."""
    word = low.parameter_word(index)
    match value.type:
        case TensorType(element, ()):
            low.define(value, load_number(low.b, low.context, word, element))
        case DatasetType():
            low.define(value, I64(index), load_address(low.b, low.context, word))
        case _ if value.type == MODE:
            low.define(value, I64(index), load_address(low.b, low.context, word))
        case _ if not has_storage(value):
            low.define(value, I64(index))


def _finish(low: Lowering) -> None:
    """Results to the caller, then the new values of `mut` parameters to their storages."""
    function, yields = low.function, low.function.body.yields
    for place, value in enumerate(yields[: function.results]):
        _give(low, value, place)
    changed = [index for index, mutable in enumerate(function.mutable) if mutable]
    for index, value in zip(changed, yields[function.results :], strict=True):
        if has_storage(value):
            move(low, value, Location(ParameterStorage(index)))
            _make_nans_canonical(low, value, Location(ParameterStorage(index)))


def _give(low: Lowering, value: nodes.Value, place: int) -> None:
    b, word = low.b, low.layout.first_result + place
    if has_storage(value):
        target = Location(ResultStorage(place))
        if place in low.late_results:
            _ask_for_storage(low, value, word)
        move(low, value, target)
        _make_nans_canonical(low, value, target)
    elif isinstance(value.type, TensorType):
        number = low.number(value)
        if value.type.element.is_float and value.type.element is not Element.BF16:  # as a bf16 every NaN is the canonical one
            number = b.select(b.fcmp_unordered("uno", number, number), constant(float("nan"), number.type), number)
        store_number(b, number, low.context, word)
    else:
        store_word(b, low.values[value][0], low.context, word)


def _ask_for_storage(low: Lowering, value: nodes.Value, word: int) -> None:
    """Have Python make a result's array now that its sizes are known."""
    assert isinstance(value.type, TensorType)
    for place, axis in enumerate(value.type.axes):
        store_word(low.b, emit.size(low.size(axis)), low.context, low.layout.first_exchange + place)
    low.exchange_words = max(low.exchange_words, len(value.type.axes))
    low.call_host(Site("late result", None, (word, value.type.element.value, len(value.type.axes))))


def _make_nans_canonical(low: Lowering, value: nodes.Value, where: Location) -> None:
    """In a tensor of floats that leaves the program."""
    if isinstance(value.type, TensorType) and value.type.element.is_float:
        element = MEMORY_TYPES[value.type.element]
        arguments = [low.address(where), emit.size(low.size(product(value.type.axes)))]
        low.shared("canonical_nan", element, arguments, lambda b, given: _canonical(b, element, *given))


def _canonical(b: Builder, element: emit.ElementType, values: Value, count: Value) -> None:
    """A NaN's sign and payload are not exact: in what is returned every NaN is the positive quiet one."""
    is_bf16 = element == emit.I16
    nan = constant(bfloat16.NAN if is_bf16 else float("nan"), emit.vector_of(element, LANES))
    magnitude, infinite = (constant(bits, nan.type) for bits in (0x7FFF, 0x7F80))

    def is_nan(value: Value) -> Value:
        return b.icmp_signed(">", b.and_(value, magnitude), infinite) if is_bf16 else b.fcmp_unordered("uno", value, value)

    def vector(i: Value, mask: Value | None) -> None:
        here = at(b, values, i, element)
        value = load(b, here, element, LANES, mask)
        store(b, b.select(is_nan(value), nan, value), here, mask)

    each_vector(b, count, vector)


__all__ = ["LEFT", "lower_function"]
