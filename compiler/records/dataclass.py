"""`dataclass` as the standard library's, without code that is compiled anew for each class.

The standard one compiles up to seven functions a class (0.5 ms), which was half of the time that loading the checker took. Here methods are
shared, and go by the class's fields; only `__init__` is compiled, at the first use. For a type checker it is the standard one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, repr=True):
        """See dataclasses.dataclass."""

        def decorated(cls):
            return _made(cls, frozen, slots, eq, repr)

        return decorated if cls is None else decorated(cls)


__all__ = ["dataclass"]


def _made(cls: type, frozen: bool, slots: bool, eq: bool, repr: bool) -> Any:
    written = vars(cls)
    own = {name for name in ("__init__", "__eq__", "__hash__", "__repr__") if written.get(name) is not None}
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # the standard one would compose a signature, slowly
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
    fields = dataclasses.fields(made)
    if "__init__" not in own:
        made.__init__ = _first_init(made, frozen)
    if repr and "__repr__" not in own:
        made.__repr__ = _repr_of([field.name for field in fields if field.repr])
    if eq:
        values = _values_of([field.name for field in fields if field.compare])
        if "__eq__" not in own:
            made.__eq__ = _eq_of(values)
        if "__hash__" not in own:
            made.__hash__ = _hash_of(values) if frozen else None
    if frozen:
        made.__setattr__, made.__delattr__ = _refuse_set, _refuse_delete
        if slots:
            made.__getstate__, made.__setstate__ = _state, _set_state
    return made


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """The fields of an object as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda _: ()
    only = attrgetter(*names)
    return lambda record: (only(record),)


def _eq_of(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, object], Any]:
    def __eq__(self: Any, other: object) -> Any:  # noqa: N807
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash_of(values: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values(self))

    return __hash__


def _repr_of(names: list[str]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:  # noqa: N807
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _refuse_set(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


# ---- __init__


def _first_init(made: Any, frozen: bool) -> Callable[..., None]:
    """What stands for `__init__` until it is called for the first time."""

    def __init__(self: Any, *arguments: Any, **named: Any) -> None:  # noqa: N807
        made.__init__ = _init_of(made, frozen)
        made.__init__(self, *arguments, **named)

    return __init__


def _init_of(made: Any, frozen: bool) -> Callable[..., None]:
    names: dict[str, Any] = {"set_": object.__setattr__, "missing": dataclasses.MISSING}
    parameters, body = ["self"], []
    for field in dataclasses.fields(made):
        name = value = field.name
        default = f"default_{name}"
        if field.default_factory is not dataclasses.MISSING:
            names[default] = field.default_factory
            parameters.append(f"{name}=missing")
            value = f"{default}() if {name} is missing else {name}"
        elif not field.init:
            continue
        elif field.default is not dataclasses.MISSING:
            names[default] = field.default
            parameters.append(f"{name}={default}")
        else:
            parameters.append(name)
        slot: Any = getattr(made, name, None) if frozen else None
        if hasattr(slot, "__objclass__"):  # a slot's own setter is the fastest
            names[f"set_{name}"] = slot.__set__
            body.append(f"set_{name}(self, {value})")
        else:
            body.append(f"set_(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    lines = "".join(f"\n    {line}" for line in body or ["pass"])
    exec(f"def __init__({', '.join(parameters)}):{lines}", names)
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    return init
