"""One deliberate fault in one module of the layer, and how it gets into a running process."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "layer/python"


@dataclass(frozen=True, slots=True)
class Mutant:
    """A fault: `path` (from the layer's package folder) with the syntax tree `tree` as its code.

    `tests` are node ids, or beginnings of them, in the order in which they are to run.
    """

    name: str
    path: str
    tree: ast.Module = field(repr=False)
    tests: Sequence[str] = ()

    @property
    def module(self) -> str:
        """The name of the module."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def file(self) -> str:
        """The absolute path of the module's file."""
        return str(PACKAGES / self.path)

    def code(self) -> CodeType:
        """The compiled module."""
        return compile(self.tree, self.file, "exec", dont_inherit=True)


def parsed(path: str) -> ast.Module:
    """The syntax tree of a file of the layer."""
    return ast.parse((PACKAGES / path).read_text("utf-8"))


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, mutant: Mutant) -> None:
        super().__init__(mutant.module, mutant.file)
        self._mutant = mutant

    def get_code(self, fullname: str) -> CodeType:
        """The mutant's code, in place of the file's."""
        return self._mutant.code()


class Finder(importlib.abc.MetaPathFinder):
    """Whoever imports the mutant's module from now on gets the mutant."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The mutant's module; None for all others."""
        if fullname != self._mutant.module:
            return None
        return importlib.util.spec_from_file_location(
            fullname, self._mutant.file, loader=_Loader(self._mutant)
        )


def install(mutant: Mutant) -> None:
    """Later imports of the module get the mutant."""
    sys.meta_path.insert(0, Finder(mutant))


def changed_functions(before: CodeType, after: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    """The outermost functions that differ, before and after; None if more than functions differs.

    A constant, a decorator, a default or a class attribute belongs to the module's own code, which
    runs when it is imported: such a change needs a new import.
    """
    if before == after:
        return []
    if before.co_flags & inspect.CO_OPTIMIZED:
        return [(before, after)]
    if before.co_code != after.co_code or len(before.co_consts) != len(after.co_consts):
        return None
    changed: list[tuple[CodeType, CodeType]] = []
    for old, new in zip(before.co_consts, after.co_consts, strict=True):
        if isinstance(old, CodeType) and isinstance(new, CodeType):
            inside = changed_functions(old, new)
            if inside is None:
                return None
            changed += inside
        elif old != new or type(old) is not type(new):
            return None
    return changed


def patch_loaded(mutant: Mutant) -> bool:
    """Give the loaded module's functions the mutant's code. False if that is not possible."""
    module = sys.modules.get(mutant.module)
    if module is None:
        return True
    changed = changed_functions(compile(parsed(mutant.path), mutant.file, "exec"), mutant.code())
    if changed is None:
        return False
    functions = list(_functions_of(module))
    for before, after in changed:
        found = [each for each in functions if each.__code__ == before]
        if not found or before.co_freevars != after.co_freevars:
            return False
        for each in found:
            each.__code__ = after
    return True


def _functions_of(module: ModuleType) -> Iterator[FunctionType]:
    """The functions and methods that the module defines, also those within decorators."""
    todo: list[Any] = list(vars(module).values())
    seen: set[int] = set()
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, type) and each.__module__ == module.__name__:
            todo += vars(each).values()
        elif isinstance(each, property):
            todo += [each.fget, each.fset]
        elif isinstance(each, staticmethod | classmethod):
            todo.append(each.__func__)
        if isinstance(each, FunctionType) and each.__code__.co_filename == module.__file__:
            yield each
        # As it stands: an object's own `__getattr__` may raise anything.
        if (wrapped := inspect.getattr_static(each, "__wrapped__", None)) is not None:
            todo.append(wrapped)
