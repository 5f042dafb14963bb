"""Whether named arrays fit the leaves of a layout: the check behind `load_state_dict` and behind every load of a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shapescript.runtime.arrays import NUMPY_DTYPES, Array, axes_text, dtype_name, of_element_type, shape_mismatch, usable_array
from shapescript.runtime.errors import ArgumentError, CheckpointError, did_you_mean
from shapescript.runtime.layout import Leaf

_LISTED_NAMES = 5


def fitting_arrays(
    where: str, leaves: Iterable[Leaf], found: Mapping[str, object], axes: Mapping[str, tuple[str, ...]] | None = None
) -> dict[str, Array]:
    """The arrays of `found` by leaf name, when they are exactly the leaves' names, shapes and dtypes.

    `axes` are the axis names that the source recorded, where it did. Raises CheckpointError R1303 of kind "missing",
    "unexpected", "shape" or "dtype", whose message begins with `where`.
    """
    wanted = {leaf.name: leaf for leaf in leaves}
    _check_names(where, wanted, found)
    arrays = {name: _fitting_array(where, leaf, found[name]) for name, leaf in wanted.items()}
    for name, leaf in wanted.items():
        check_axes(f"{where}: {name}", name, leaf.axes, (axes or {}).get(name))
    return arrays


def check_axes(what: str, name: str, wanted: tuple[str, ...], found: tuple[str, ...] | None) -> None:
    """Refuse a tensor in which an axis stands at another place than in the file, though both may have one size.

    An axis that only has another name now isn't refused: names of dims change as programs are edited.
    """
    if found is None or found == wanted:
        return
    moved = [axis for axis in wanted if axis in found and _places(axis, wanted) != _places(axis, found)]
    if moved:
        raise CheckpointError(
            "R1303",
            f"{what}: expected axes {axes_text(wanted)}, the file has {axes_text(found)}: {moved[0]} stands at another place",
            kind="shape",
            name=name,
            expected=axes_text(wanted),
            found=axes_text(found),
        )


def _places(axis: str, axes: tuple[str, ...]) -> list[int]:
    return [place for place, name in enumerate(axes) if name == axis]


def _check_names(where: str, wanted: Mapping[str, Leaf], found: Mapping[str, object]) -> None:
    missing = [name for name in wanted if name not in found]
    unexpected = [name for name in found if name not in wanted]
    if not missing and not unexpected:
        return
    parts = []
    if missing:
        parts.append(f"missing {_listed(missing)}")
    if unexpected:
        parts.append(f"unexpected {_listed(unexpected)}{did_you_mean(str(unexpected[0]), missing or wanted)}")
    raise CheckpointError(
        "R1303",
        f"{where}: {'; '.join(parts)}{_prefix_hint(wanted, found)}",
        kind="missing" if missing else "unexpected",
        name=str((missing or unexpected)[0]),
        expected=tuple(missing),
        found=tuple(unexpected),
    )


def _prefix_hint(wanted: Iterable[str], found: Iterable[str]) -> str:
    """Where all names differ by one prefix, as those of PyTorch's parallel and compiled modules do: how to say so."""
    here, there = set(map(str, wanted)), set(map(str, found))
    for short, long, shown in ((here, there, '{{"{}": ""}}'), (there, here, '{{"": "{}"}}')):
        prefix = min(long, default="").partition(".")[0]
        if short and long == {f"{prefix}.{name}" for name in short}:
            return f"; each name differs by {prefix!r} in front: rename={shown.format(prefix)} takes that into account"
    return ""


def _listed(names: list[str]) -> str:
    shown = ", ".join(str(name) for name in names[:_LISTED_NAMES])
    return shown + (f" and {len(names) - _LISTED_NAMES} more" if len(names) > _LISTED_NAMES else "")


def _fitting_array(where: str, leaf: Leaf, value: object) -> Array:
    what = f"{where}: {leaf.name}"
    try:
        array = usable_array(what, value)
    except ArgumentError as error:
        found = type(value).__name__
        raise CheckpointError("R1303", error.message, kind="dtype", name=leaf.name, expected=leaf.dtype, found=found) from error
    if array.shape != leaf.shape:
        message = f"{what}: {shape_mismatch(array.shape, leaf.axes, leaf.shape)}"
        raise CheckpointError("R1303", message, kind="shape", name=leaf.name, expected=leaf.shape, found=array.shape)
    try:
        return of_element_type(what, array, leaf.dtype)
    except ArgumentError as error:
        expected, found = dtype_name(NUMPY_DTYPES[leaf.dtype]), dtype_name(array.dtype)
        raise CheckpointError("R1303", error.message, kind="dtype", name=leaf.name, expected=expected, found=found) from error
