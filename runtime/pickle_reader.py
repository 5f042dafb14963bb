"""Reads the pickle inside a `.pt` file by interpreting an allow-list of opcodes; no class is looked up and nothing is called.

What such files hold is plain: dicts, lists, tuples, numbers, strings, and tensors that refer to storages beside the pickle.
Anything else is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from shapescript.compiler.records.dataclass import dataclass
from shapescript.runtime.file_errors import UnusableFileError
from shapescript.runtime.pickle_tensors import (
    NAMED_DTYPES,
    STORAGE_DTYPES,
    UNTYPED_STORAGE,
    Storage,
    Storages,
    is_array,
    refuse_other_elements,
    tensor,
)

_LONGEST_INT = 16  # bytes

_ORDERED_DICT = "collections.OrderedDict"
_REBUILD_TENSOR = "torch._utils._rebuild_tensor_v2"
_REBUILD_NAMED_TENSOR = "torch._utils._rebuild_tensor_v3"  # of an element type that no storage class is called by, as uint16
_REBUILD_PARAMETER = "torch._utils._rebuild_parameter"
_REBUILD_MARKED_PARAMETER = "torch._utils._rebuild_parameter_with_state"  # of a Parameter with attributes of the user's
_SIZE = "torch.Size"
_NAMES = frozenset(
    {
        _ORDERED_DICT,
        _REBUILD_TENSOR,
        _REBUILD_NAMED_TENSOR,
        _REBUILD_PARAMETER,
        _REBUILD_MARKED_PARAMETER,
        _SIZE,
        UNTYPED_STORAGE,
        *STORAGE_DTYPES,
        *NAMED_DTYPES,
    }
)


@dataclass(frozen=True)
class _Global:
    """A name that the pickle refers to; it stands for what this module does when it is "called"."""

    name: str


class _Internals(tuple[Any, ...]):
    """A tuple that holds names or storages: an argument, never a value of the result."""


def read_pickle(pickle: bytes, storages: Storages) -> Any:
    """The tree that the pickle describes. Raises UnusableFileError."""
    try:
        return _Interpreter(pickle, storages).run()
    except UnusableFileError:
        raise
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, struct.error) as error:
        raise UnusableFileError(f"its pickle is damaged: {error}") from error


class _Interpreter:
    def __init__(self, pickle: bytes, storages: Storages) -> None:
        self._pickle, self._at, self._storages = pickle, 0, storages
        self._stack: list[Any] = []
        self._outer: list[list[Any]] = []  # the stacks below each open mark
        self._memo: dict[int, Any] = {}

    def run(self) -> Any:
        if self._take(1) != b"\x80":
            raise UnusableFileError("its pickle has no beginning")
        if (protocol := self._take(1)[0]) != 2:
            raise UnusableFileError(f"its pickle has protocol {protocol}; only 2 is read, torch.save's default", "version")
        while (opcode := self._take(1)) != b".":
            action = _ACTIONS.get(opcode)
            if action is None:
                raise UnusableFileError(f"its pickle has the opcode {opcode!r}, which plain data never needs")
            action(self)
        if self._at != len(self._pickle) or len(self._stack) != 1 or self._outer:
            raise UnusableFileError("its pickle doesn't end where it should")
        return self._plain(self._stack.pop())

    def _take(self, count: int) -> bytes:
        taken = self._pickle[self._at : self._at + count]
        if len(taken) != count:
            raise UnusableFileError("its pickle ends too soon")
        self._at += count
        return taken

    def _number(self, layout: str) -> Any:
        return struct.unpack(layout, self._take(struct.calcsize(layout)))[0]

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _marked(self) -> list[Any]:
        items, self._stack = self._stack, self._outer.pop()
        return items

    def _mark(self) -> None:
        self._outer.append(self._stack)
        self._stack = []

    def _plain(self, value: Any) -> Any:
        if isinstance(value, _Global | Storage | _Internals):
            raise UnusableFileError("its pickle uses a name as a value")
        return value

    def _push_tuple(self, items: list[Any]) -> None:
        internal = any(isinstance(item, _Global | Storage | _Internals) for item in items)
        self._push(_Internals(items) if internal else tuple(items))

    def _push_last(self, count: int) -> None:
        if len(self._stack) < count:
            raise UnusableFileError("its pickle takes values that aren't there")
        items = self._stack[-count:]
        del self._stack[-count:]
        self._push_tuple(items)

    def _push_int(self) -> None:
        length = self._take(1)[0]
        if length > _LONGEST_INT:
            raise UnusableFileError(f"its pickle has an int of {length} bytes")
        self._push(int.from_bytes(self._take(length), "little", signed=True))

    def _push_text(self) -> None:
        self._push(self._take(self._number("<I")).decode("utf-8"))

    def _push_global(self) -> None:
        module, name, _ = [*self._pickle[self._at : self._at + 512].split(b"\n", 2), b"", b""][:3]
        self._at += len(module) + len(name) + 2
        full = f"{module.decode('ascii', 'replace')}.{name.decode('ascii', 'replace')}"
        if full not in _NAMES:
            refuse_other_elements(full)
            raise UnusableFileError(f"its pickle refers to {full}, which plain data never needs")
        self._push(_Global(full))

    def _append(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not list:
            raise UnusableFileError("its pickle appends to what is no list")
        target.extend(self._plain(item) for item in items)

    def _set_items(self, items: list[Any]) -> None:
        target = self._stack[-1]
        if type(target) is not dict or len(items) % 2:
            raise UnusableFileError("its pickle sets items of what is no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            # Other keys have no use in such files, and hashes that an author can choose make a dict slow.
            if type(key) is not str and (type(key) is not int or abs(key) >= 2**63):
                raise UnusableFileError(f"its pickle has a key of type {type(key).__name__}")
            target[key] = self._plain(value)

    def _build(self) -> None:
        """The state of an OrderedDict: PyTorch keeps the versions of modules there, which say nothing about the values."""
        state = self._stack.pop()
        if type(state) is not dict or type(self._stack[-1]) is not dict:
            raise UnusableFileError("its pickle gives a state to what is no dict")

    def _reduce(self) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        if not isinstance(function, _Global) or not isinstance(arguments, tuple):
            raise UnusableFileError("its pickle calls what is no function")
        if function.name == _ORDERED_DICT and not arguments:
            self._push({})
        elif function.name == _REBUILD_TENSOR and len(arguments) >= 4:
            storage, offset, shape, strides = arguments[:4]
            self._push(tensor(storage, offset, shape, strides, arguments[6:]))
        elif function.name == _REBUILD_NAMED_TENSOR and len(arguments) >= 7:
            storage, offset, shape, strides = arguments[:4]
            self._push(tensor(storage, offset, shape, strides, arguments[7:], _named_dtype(arguments[6])))
        elif function.name in (_REBUILD_PARAMETER, _REBUILD_MARKED_PARAMETER) and arguments and is_array(arguments[0]):
            self._push(arguments[0])
        elif function.name == _SIZE and len(arguments) == 1 and isinstance(arguments[0], tuple):
            self._push(self._plain(arguments[0]))
        else:
            raise UnusableFileError(f"its pickle calls {function.name} with arguments that don't fit")

    def _push_storage(self) -> None:
        reference = self._stack.pop()
        if not isinstance(reference, tuple) or len(reference) != 5 or reference[0] != "storage":
            raise UnusableFileError("its pickle refers to what is no storage")
        _, kind, key, _, count = reference
        self._push(self._storages.storage(kind.name if isinstance(kind, _Global) else None, key, count))

    def _put(self, place: int) -> None:
        self._memo[place] = self._stack[-1]

    def _get(self, place: int) -> None:
        self._push(self._memo[place])


def _named_dtype(name: Any) -> Any:
    if not isinstance(name, _Global) or name.name not in NAMED_DTYPES:
        raise UnusableFileError("its pickle describes a tensor of no element type")
    return NAMED_DTYPES[name.name]


_ACTIONS: dict[bytes, Callable[[_Interpreter], None]] = {
    b"(": _Interpreter._mark,
    b"N": lambda i: i._push(None),
    b"\x88": lambda i: i._push(True),
    b"\x89": lambda i: i._push(False),
    b")": lambda i: i._push(()),
    b"]": lambda i: i._push([]),
    b"}": lambda i: i._push({}),
    b"K": lambda i: i._push(i._number("<B")),
    b"M": lambda i: i._push(i._number("<H")),
    b"J": lambda i: i._push(i._number("<i")),
    b"G": lambda i: i._push(i._number(">d")),
    b"\x8a": _Interpreter._push_int,
    b"X": _Interpreter._push_text,
    b"c": _Interpreter._push_global,
    b"t": lambda i: i._push_tuple(i._marked()),
    b"\x85": lambda i: i._push_last(1),
    b"\x86": lambda i: i._push_last(2),
    b"\x87": lambda i: i._push_last(3),
    b"a": lambda i: i._append([i._stack.pop()]),
    b"e": lambda i: i._append(i._marked()),
    b"s": lambda i: i._set_items([i._stack.pop(-2), i._stack.pop()]),
    b"u": lambda i: i._set_items(i._marked()),
    b"b": _Interpreter._build,
    b"R": _Interpreter._reduce,
    b"Q": _Interpreter._push_storage,
    b"q": lambda i: i._put(i._number("<B")),
    b"r": lambda i: i._put(i._number("<I")),
    b"h": lambda i: i._get(i._number("<B")),
    b"j": lambda i: i._get(i._number("<I")),
}
