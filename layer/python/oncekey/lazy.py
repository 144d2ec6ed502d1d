"""Public names are imported on first use, so that a handler loads only the modules it needs.

https://peps.python.org/pep-0562/
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def names(
    package: str, where: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of `package`; `where` says which module defines which names.

    After its first use, a name is an ordinary attribute of the package.
    """
    modules = {name: module for module, found in where.items() for name in found}

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted({*vars(sys.modules[package]), *modules})
