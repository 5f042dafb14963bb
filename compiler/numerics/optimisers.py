"""The built-in optimisers as data: what each remembers, its constants, and its arithmetic. docs/exactness.md says the same in formulas.

An update of a tensor is one scalar expression, in the tensor's type. What depends on the step alone is a *number* of the update: an
expression in f64, rounded once to the tensor's type before it meets a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from shapescript.compiler.numerics.norms import FIRST_FACTOR
from shapescript.compiler.numerics.ranges import RANGES, Range
from shapescript.compiler.numerics.scalar import F64, I64, Argument, Expr, Kind, select, sqrt
from shapescript.compiler.numerics.selections import maximum
from shapescript.compiler.records.dataclass import dataclass

# The words of an optimiser's block: the number of updates done, the address of each slot, the bits of each constant as f64.
BLOCK_WORDS = 16
STEP, FIRST_SLOT, FIRST_CONSTANT = 0, 1, 8

# A moment smaller than this becomes 0: otherwise moments of parameters that get no gradient end as subnormals, and those slow each later
# update by half.
SMALLEST_MOMENT = 2.0**-100

Named = Mapping[str, Expr]


@dataclass(frozen=True)
class OptimiserConstant:
    """A number that a state keeps; a flag is 0.0 or 1.0."""

    name: str
    default: float
    is_flag: bool = False

    @property
    def range(self) -> Range | None:
        return None if self.is_flag else RANGES[self.name]


@dataclass(frozen=True)
class Slot:
    """What a state remembers of each parameter: a tensor like it, 0 at the start. `only_with` is the constant that, where it is 0, leaves
    the slot out."""

    name: str
    only_with: str = ""


@dataclass(frozen=True)
class OptimiserKind:
    """`numbers` is given the constants, "rate", "step" (I64) and, of each constant among `powers`, its power at the step as "beta1^t".

    `move` is given "value", "gradient" (finite, scaled) and the slots that are there, by name, and the numbers; it gives the value and
    those slots afterwards.
    """

    name: str
    constants: tuple[OptimiserConstant, ...]
    slots: tuple[Slot, ...]
    powers: tuple[str, ...]
    numbers: Callable[[Named], Named]
    move: Callable[[Named, Named], Named]

    def constant_word(self, name: str) -> int:
        """The word of the block that holds a constant."""
        return FIRST_CONSTANT + [constant.name for constant in self.constants].index(name)

    @property
    def optional_slots(self) -> tuple[Slot, ...]:
        return tuple(slot for slot in self.slots if slot.only_with)

    def slots_with(self, has_optional: bool) -> tuple[Slot, ...]:
        """The slots of a state that has the optional ones, or that hasn't: a kind has one at most."""
        return tuple(slot for slot in self.slots if has_optional or not slot.only_with)

    def slots_of(self, constants: Iterable[float]) -> tuple[Slot, ...]:
        """The slots of a state with these constants."""
        given = dict(zip((constant.name for constant in self.constants), constants, strict=True))
        return self.slots_with(any(given[slot.only_with] != 0.0 for slot in self.optional_slots))


@lru_cache
def _numbers(kind: OptimiserKind) -> dict[str, Expr]:
    names = [*(constant.name for constant in kind.constants), "rate", *(f"{name}^t" for name in kind.powers)]
    given: dict[str, Expr] = {name: Argument(place, F64) for place, name in enumerate(names)}
    return dict(kind.numbers({**given, "step": Argument(len(names), I64)}))


def number_expressions(kind: OptimiserKind) -> tuple[Expr, ...]:
    """The numbers of an update in f64. Arguments: the constants, the rate, the powers, all f64, and the step, from 1 (I64)."""
    return tuple(_numbers(kind).values())


@lru_cache
def update_expressions(kind: OptimiserKind, element: Kind, has_optional: bool, is_split: bool = False) -> tuple[Expr, ...]:
    """The value and the slots after an update, in the tensor's type. Arguments: the value, the gradient, the slots that are there, the
    factor on the gradient, the numbers. `is_split`: the factor is the second of two (norms.py)."""
    slots = [slot.name for slot in kind.slots_with(has_optional)]
    tensors = ["value", "gradient", *slots]
    given: dict[str, Expr] = {name: Argument(place, element) for place, name in enumerate(tensors)}
    factor, first = Argument(len(tensors), element), len(tensors) + 1
    numbers: dict[str, Expr] = {name: Argument(first + place, element) for place, name in enumerate(_numbers(kind))}
    gradient = given["gradient"] * FIRST_FACTOR if is_split else given["gradient"]
    moved = kind.move({**given, "gradient": gradient * factor}, numbers)
    return tuple(moved[name] for name in ["value", *slots])


# ---- Adam and AdamW


def _without_tiny(moment: Expr) -> Expr:
    return select(abs(moment) < SMALLEST_MOMENT, 0.0, moment)


def _moments(given: Named, gradient: Expr, numbers: Named) -> dict[str, Expr]:
    """Kingma and Ba, "Adam" (2015), with Reddi, Kale and Kumar's largest second moment (2018) where that is a slot."""
    first = _without_tiny((gradient - given["first"]) * numbers["add_first"] + given["first"])
    second = (gradient * gradient) * numbers["add_second"] + given["second"] * numbers["keep_second"]
    moved = {"first": first, "second": second}
    if "largest" in given:
        moved["largest"] = maximum(given["largest"], second)
    return moved


def _direction(moved: Named, numbers: Named) -> Expr:
    """PyTorch's bias corrections, the second as a factor of the root, which saves a division."""
    return moved["first"] / (sqrt(moved.get("largest", moved["second"])) * numbers["root"] + numbers["eps"])


def _adam_numbers(given: Named) -> dict[str, Expr]:
    return {
        "add_first": 1.0 - given["beta1"],
        "keep_second": given["beta2"],
        "add_second": 1.0 - given["beta2"],
        "root": 1.0 / sqrt(1.0 - given["beta2^t"]),
        "eps": given["eps"],
        "rate": given["rate"] / (1.0 - given["beta1^t"]),
    }


def _adamw_move(given: Named, numbers: Named) -> Named:
    """Loshchilov and Hutter, "Decoupled weight decay regularization" (2019)."""
    moved = _moments(given, given["gradient"], numbers)
    return {**moved, "value": given["value"] * numbers["shrink"] - _direction(moved, numbers) * numbers["rate"]}


def _adam_move(given: Named, numbers: Named) -> Named:
    moved = _moments(given, given["gradient"] + given["value"] * numbers["decay"], numbers)
    return {**moved, "value": given["value"] - _direction(moved, numbers) * numbers["rate"]}


def _adam_constants(decay: float) -> tuple[OptimiserConstant, ...]:
    return (
        OptimiserConstant("beta1", 0.9),
        OptimiserConstant("beta2", 0.999),
        OptimiserConstant("eps", 1e-8),
        OptimiserConstant("decay", decay),
        OptimiserConstant("amsgrad", 0.0, is_flag=True),
    )


ADAM_SLOTS = (Slot("first"), Slot("second"), Slot("largest", only_with="amsgrad"))


# ---- stochastic gradient descent


def _sgd_numbers(given: Named) -> dict[str, Expr]:
    return {
        "keep": given["momentum"],
        "add": select(given["step"].eq(1), 1.0, 1.0 - given["dampening"]),  # the first velocity is the gradient itself
        "nesterov": given["nesterov"],
        "decay": given["decay"],
        "rate": given["rate"],
    }


def _sgd_move(given: Named, numbers: Named) -> Named:
    """With PyTorch's momentum (Sutskever, Martens, Dahl and Hinton, 2013, but that the rate is on the whole velocity)."""
    gradient = given["gradient"] + given["value"] * numbers["decay"]
    if "velocity" not in given:
        return {"value": given["value"] - gradient * numbers["rate"]}
    velocity = _without_tiny(given["velocity"] * numbers["keep"] + gradient * numbers["add"])
    direction = select(numbers["nesterov"].ne(0.0), gradient + velocity * numbers["keep"], velocity)
    return {"value": given["value"] - direction * numbers["rate"], "velocity": velocity}


SGD_CONSTANTS = (
    OptimiserConstant("momentum", 0.0),
    OptimiserConstant("nesterov", 0.0, is_flag=True),
    OptimiserConstant("decay", 0.0),
    OptimiserConstant("dampening", 0.0),
)


def _with(number: str, expression: Callable[[Named], Expr]) -> Callable[[Named], Named]:
    """Adam's numbers and one more."""
    return lambda given: {**_adam_numbers(given), number: expression(given)}


_DECAY = _with("decay", lambda given: given["decay"])
_SHRINK = _with("shrink", lambda given: 1.0 - given["rate"] * given["decay"])
_BETAS = ("beta1", "beta2")

KINDS: dict[str, OptimiserKind] = {
    kind.name: kind
    for kind in (
        OptimiserKind("Sgd", SGD_CONSTANTS, (Slot("velocity", only_with="momentum"),), (), _sgd_numbers, _sgd_move),
        OptimiserKind("Adam", _adam_constants(0.0), ADAM_SLOTS, _BETAS, _DECAY, _adam_move),
        OptimiserKind("AdamW", _adam_constants(0.01), ADAM_SLOTS, _BETAS, _SHRINK, _adamw_move),
    )
}
