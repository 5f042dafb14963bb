"""The states of optimisers: what each remembers of every parameter, the number of updates done, and the constants of the update."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from shapescript.compiler.numerics.optimisers import BLOCK_WORDS, FIRST_CONSTANT, FIRST_SLOT, KINDS, STEP, OptimiserKind
from shapescript.compiler.numerics.ranges import RANGES
from shapescript.runtime.arrays import Array, Bytes, Words, address_of, aligned
from shapescript.runtime.errors import ArgumentError, ArgumentValueError
from shapescript.runtime.host_numbers import checked_int, checked_number
from shapescript.runtime.layout import Layout
from shapescript.runtime.model import Model, check_buffer
from shapescript.runtime.torch_optimisers import from_torch, to_torch


class Optimiser:
    """The state of an optimiser over a model's parameters.

    It belongs to a layout, not to one model: its slots lie as the parameters do. `block` and `slots` are what engines read and write in
    place; numerics/optimisers.py says what is in them. A slot that the constants don't ask for isn't there.
    """

    kind: ClassVar[OptimiserKind]
    option_names: ClassVar[tuple[str, ...]]  # what a state is made with, as the constructor names it
    _layout: Layout
    _block: Words
    _slots: list[Bytes | None]

    @classmethod
    def over(cls, layout: Layout, options: Mapping[str, Any]) -> Self:
        """A fresh state for models of this layout. Raises ArgumentError R1004 for options that can't be."""
        return cls.with_constants(layout, cls.constants_of(options))

    @classmethod
    def with_constants(cls, layout: Layout, constants: Sequence[float]) -> Self:
        """The same for constants that are known to be right."""
        state = cls.__new__(cls)
        state._set_up(layout, constants)
        return state

    @classmethod
    def constants_of(cls, options: Mapping[str, Any]) -> list[float]:
        """The kind's constants, checked."""
        given = [(constant.name, options[constant.name], constant.range) for constant in cls.kind.constants]
        return [checked_number(name, value, range_) if range_ else _flag(name, value) for name, value, range_ in given]

    def _of(self, model: Model, options: Mapping[str, Any]) -> None:
        if not isinstance(model, Model):
            raise ArgumentError("R1004", f"{self.kind.name}: expected a model, got {type(model).__name__}")
        self._set_up(model.layout, self.constants_of(options))

    def _set_up(self, layout: Layout, constants: Sequence[float]) -> None:
        self._layout = layout
        self._block = np.zeros(BLOCK_WORDS, np.int64)
        self._block[FIRST_CONSTANT : FIRST_CONSTANT + len(constants)].view(np.float64)[:] = constants
        self._slots = [None] * len(self.kind.slots)
        for slot in self.kind.slots_of(constants):
            buffer, place = aligned(layout.slots.nbytes), self.kind.slots.index(slot)
            check_buffer(layout.slots, buffer)
            self._slots[place] = buffer
            self._block[FIRST_SLOT + place] = address_of(buffer)

    @property
    def layout(self) -> Layout:
        return self._layout

    @property
    def block(self) -> Words:
        return self._block

    @property
    def slots(self) -> list[Bytes | None]:
        """The buffers, laid out as the parameters, in the kind's order; an engine may put in one that wasn't there."""
        return self._slots

    @property
    def options(self) -> dict[str, Any]:
        """The constants, by the constructor's names."""
        return {name: getattr(self, name) for name in self.option_names}

    @property
    def slot_names(self) -> tuple[str, ...]:
        """The slots that are there."""
        return tuple(slot.name for slot in self.kind.slots_of(self._constants()))

    def slot(self, name: str) -> Bytes:
        """A slot's buffer. Raises KeyError for one that isn't there."""
        if name not in self.slot_names:
            raise KeyError(f"this {self.kind.name} has no {name!r}; it has {', '.join(self.slot_names) or 'no slots'}")
        buffer = self._slots[[slot.name for slot in self.kind.slots].index(name)]
        assert buffer is not None
        return buffer

    def moment(self, which: str, name: str) -> Array:
        """A read-only view of one parameter's part of a slot: of its "first" moment, say."""
        return self._layout.slots.read_only_view(self.slot(which), name)

    @property
    def step(self) -> int:
        """The number of updates done: 0 before the first."""
        return int(self._block[STEP])

    @step.setter
    def step(self, value: int) -> None:
        self._block[STEP] = checked_int("step", value, 0)

    def _constants(self) -> Iterable[float]:
        return [float(value) for value in self._block[FIRST_CONSTANT : FIRST_CONSTANT + len(self.kind.constants)].view(np.float64)]

    def _constant(self, name: str) -> float:
        word = self.kind.constant_word(name)
        return float(self._block[word : word + 1].view(np.float64)[0])

    def state_dict(self, names: Sequence[str] | None = None, lr: float = 1e-3) -> dict[str, Any]:
        """Copies in the form of `torch.optim`'s `state_dict`, with NumPy's arrays.

        PyTorch knows parameters by their places: `names` are its own, in its order (`dict(module.named_parameters())` gives them); the
        layout's, where none are given. The rate isn't part of a state here; `lr` is what PyTorch is told.
        """
        return to_torch(self, names, lr)

    def load_state_dict(self, state: Mapping[str, Any], names: Sequence[str] | None = None) -> None:
        """Take the step, the constants and the slots from a `state_dict` of the same kind of `torch.optim`, or of `state_dict` here.

        `names` as above, where the state doesn't hold them (`torch.optim` does where it was made with `named_parameters()`). Raises
        CheckpointError R1303, and then nothing has changed.
        """
        loaded = from_torch(self._layout.model_name, type(self), self._layout, state, names)
        self._block[:], self._slots[:] = loaded._block, loaded._slots

    def copy(self) -> Self:
        twin = self.over(self._layout, self.options)
        twin.step = self.step
        for name in self.slot_names:
            np.copyto(twin.slot(name), self.slot(name))
        return twin

    def __copy__(self) -> Self:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self.copy()

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a state of {self.kind.name} can't be pickled; save it with shapescript.save_checkpoint")

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"<{self.kind.name} of {self._layout.model_name}, step {self.step}, {options}>"


def _flag(name: str, value: object) -> float:
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError("R1004", f"{name}: expected a bool, got {type(value).__name__}")
    return float(value)


class Sgd(Optimiser):
    """Stochastic gradient descent: plain, with a momentum, or with Nesterov's. Without a momentum it remembers nothing."""

    kind = KINDS["Sgd"]
    option_names = ("momentum", "nesterov", "decay", "dampening")

    def __init__(self, model: Model, momentum: float = 0.0, nesterov: bool = False, decay: float = 0.0, dampening: float = 0.0) -> None:
        """Raises ArgumentError R1004 for what is no model, and for numbers out of their range."""
        self._of(model, {"momentum": momentum, "nesterov": nesterov, "decay": decay, "dampening": dampening})

    @classmethod
    def constants_of(cls, options: Mapping[str, Any]) -> list[float]:
        momentum, nesterov, decay, dampening = super().constants_of(options)
        if nesterov and (dampening or not RANGES["nesterov"].holds(momentum)):
            raise ArgumentValueError("R1004", f"nesterov: {RANGES['nesterov'].fault(momentum)}")
        return [momentum, nesterov, decay, dampening]

    @property
    def momentum(self) -> float:
        return self._constant("momentum")

    @property
    def nesterov(self) -> bool:
        return bool(self._constant("nesterov"))

    @property
    def decay(self) -> float:
        return self._constant("decay")

    @property
    def dampening(self) -> float:
        return self._constant("dampening")


class Adam(Optimiser):
    """Adam, whose decay is added to the gradient."""

    kind = KINDS["Adam"]
    option_names = ("betas", "eps", "decay", "amsgrad")

    def __init__(
        self, model: Model, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, decay: float = 0.0, amsgrad: bool = False
    ) -> None:
        """Raises ArgumentError R1004 for what is no model, and for numbers out of their range."""
        self._of(model, {"betas": betas, "eps": eps, "decay": decay, "amsgrad": amsgrad})

    @classmethod
    def constants_of(cls, options: Mapping[str, Any]) -> list[float]:
        betas = options["betas"]
        if not isinstance(betas, tuple | list) or len(betas) != 2:
            raise ArgumentError("R1004", "betas: expected two floats, as (0.9, 0.999)")
        checked = [checked_number(f"betas[{place}]", beta, RANGES[f"beta{place + 1}"]) for place, beta in enumerate(betas)]
        return super().constants_of({**options, "beta1": checked[0], "beta2": checked[1]})

    @property
    def betas(self) -> tuple[float, float]:
        return self._constant("beta1"), self._constant("beta2")

    @property
    def eps(self) -> float:
        return self._constant("eps")

    @property
    def decay(self) -> float:
        return self._constant("decay")

    @property
    def amsgrad(self) -> bool:
        """Whether the largest second moment so far is remembered and used."""
        return bool(self._constant("amsgrad"))


class AdamW(Adam):
    """Adam with a decay of its own beside the gradient's step."""

    kind = KINDS["AdamW"]

    def __init__(
        self, model: Model, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, decay: float = 0.01, amsgrad: bool = False
    ) -> None:
        """Raises ArgumentError R1004 for what is no model, and for numbers out of their range."""
        super().__init__(model, betas, eps, decay, amsgrad)


OPTIMISERS: dict[str, type[Optimiser]] = {cls.kind.name: cls for cls in (Sgd, Adam, AdamW)}
