"""The names of the classes of results. A name leads to the same class in every process."""

from __future__ import annotations

import dataclasses
import sys
from enum import Enum
from functools import lru_cache
from typing import Any

from oncekey.encoding.refusals import Unreadable, Unstorable


def kind_of(cls: type) -> str | None:
    """`enum`, `namedtuple`, `model` (pydantic's), `dataclass`, or None for any other class."""
    if issubclass(cls, Enum):
        return "enum"
    if issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple):
        return "namedtuple"
    # Every model class imports pydantic, so there are no models if pydantic is not loaded.
    base_model = getattr(sys.modules.get("pydantic.main"), "BaseModel", None)
    if base_model is not None and issubclass(cls, base_model):
        return "model"
    return "dataclass" if dataclasses.is_dataclass(cls) else None


@lru_cache(maxsize=1_024)
def class_name(cls: type) -> str:
    """The module and qualified name of `cls`, with a colon between them.

    Raises:
        Unstorable: the name does not lead to `cls`, here or in another process.
    """
    name, module = cls.__qualname__, cls.__module__
    if "<locals>" in name:
        raise Unstorable(f"of a local class ({name})", "define the class at the top of its module")
    if "[" in name:
        raise Unstorable(f"of a parametrised class ({name})", "derive a class of its own from it")
    if module == "__main__":
        raise Unstorable(
            f"of a class of the main program ({name})",
            "define the class in a module that can be imported",
        )
    loaded = sys.modules.get(module)
    if loaded is None or _look_up(vars(loaded), name) is not cls or not _is_found(module):
        raise Unstorable(
            f"of a class that cannot be imported again ({module}.{name})",
            "define the class under its own name, at the top of a module that can be imported",
        )
    return f"{module}:{name}"


def _is_found(module: str) -> bool:
    # `importlib.util.find_spec` finds loaded modules in memory. Another process must search for
    # them, so this does, too.
    package = module.rpartition(".")[0]
    path = None
    if package:
        path = getattr(sys.modules.get(package), "__path__", None)
        if path is None or not _is_found(package):
            return False
    return any(finder.find_spec(module, path) is not None for finder in sys.meta_path)


def _look_up(names: Any, qualified_name: str) -> object:
    found: object = None
    for name in qualified_name.split("."):
        found = names.get(name)
        names = vars(found) if isinstance(found, type) else {}
    return found


def find_class(kind: str, name: str) -> type:
    """The class that `class_name` gave `name` to. It imports nothing and runs no code.

    Stored data must not choose which module is imported, because an import runs code. The modules
    that the handler's own module imports are already loaded.

    Raises:
        Unreadable: the module is not loaded, or the class is gone or is no longer of this kind.
    """
    module, _, qualified_name = name.partition(":")
    loaded = sys.modules.get(module)
    if loaded is None:
        raise Unreadable(
            f"The stored result is of the class {name}, whose module is not loaded, and reading a"
            " result imports none: import it at the top of the handler's module, and keep it there"
            " while results are kept."
        )
    cls = _look_up(vars(loaded), qualified_name)
    if not isinstance(cls, type) or kind_of(cls) != kind:
        raise Unreadable(
            f"The stored result is of the class {name}, which is gone or is no {kind} any more:"
            " keep it while results are kept."
        )
    return cls
