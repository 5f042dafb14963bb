"""Packages that only some files need: imported when one is used, with a clear error where one isn't installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from shapescript.runtime.errors import PackageMissing, cause_of

EXTRAS = {"pyarrow": "data", "safetensors": "safetensors", "tensorboard": "tensorboard"}  # the extra that installs each package


def optional_module(module: str, purpose: str) -> Any:
    """A module of a package that an extra installs; `purpose` says who needs it, as "reading Parquet files".

    Raises PackageMissing R1502 with the command that installs it.
    """
    package = module.split(".", maxsplit=1)[0]
    try:
        return import_module(module)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name in {package, module}
        fault = "which isn't installed" if missing else f"which can't be imported ({cause_of(error)})"
        message = f"{purpose} needs the package {package}, {fault}: pip install 'shapescript[{EXTRAS[package]}]'"
        raise PackageMissing("R1502", message, name=package) from error
