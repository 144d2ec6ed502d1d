"""Rules about the code: which way imports point, who reads time and chance, how long things are.

Every rule takes files, as texts by their paths from the root, and returns its faults.
"""

from __future__ import annotations

import ast
import functools
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from tests.support.tidy_files import within

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LAYER_ROOT = "layer/python"
PACKAGE = "oncekey"
LAYER = f"{LAYER_ROOT}/{PACKAGE}"

MAX_FUNCTION_LINES = 60
MAX_MODULE_LINES = {"layer": 400, "functions": 400, "infra": 400, "tests": 450}

_ABOVE_THE_LAYER = {"oncekey_operator", "oncekey_local", "functions", "infra", "tests"}
_CLOCK = "clock.py"
_CLOCK_MODULES = {"time", "random", "secrets"}
_CLOCK_NAMES = {
    "uuid.uuid1",
    "uuid.uuid4",
    "os.urandom",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
}
_AWS = f"{LAYER}/store/"
_AWS_MODULES = {"boto3", "botocore"}
_DOTTED_NAME = re.compile(r"(?:boto3|botocore)(?:\.\w+)*")


def upward_imports(files: Mapping[str, str]) -> list[str]:
    """The layer imports what is built on it: it could not ship alone."""
    return [
        f"{path}:{node.lineno} imports {name}, which stands above the layer"
        for path, text in within(files, LAYER).items()
        for node, name in _imports(ast.parse(text), _module(path))
        if name.partition(".")[0] in _ABOVE_THE_LAYER
    ]


def import_cycles(files: Mapping[str, str]) -> list[str]:
    """Modules of the layer import each other in a circle as they are loaded."""
    layer = within(files, LAYER)
    modules = {_module(path) for path in layer}
    graph = {
        _module(path): {
            target
            for _, name in _imports(_without_late_imports(ast.parse(text)), _module(path))
            if (target := _nearest_module(name, modules)) is not None
        }
        for path, text in layer.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [f"imports form a circle: {' <- '.join(error.args[1])}"]
    return []


def readings_of_time_and_chance(files: Mapping[str, str]) -> list[str]:
    """A module of the layer other than clock.py reads time, randomness or ids by itself."""
    return [
        f"{path}:{line} uses {name}: take it from {PACKAGE}.clock"
        for path, text in within(files, LAYER).items()
        if PurePosixPath(path).name != _CLOCK
        for line, name in _names(text, _module(path))
        if name.partition(".")[0] in _CLOCK_MODULES or name in _CLOCK_NAMES
    ]


def namings_of_the_aws_sdk(files: Mapping[str, str]) -> list[str]:
    """A module of the layer names boto3 or botocore, which few files do."""
    return [
        f"{path}:{line} names {name}: only the modules of store/ know the AWS SDK"
        for path, text in within(files, LAYER).items()
        if not path.startswith(_AWS)
        for line, name in _names(text, _module(path))
        if name.partition(".")[0] in _AWS_MODULES
    ]


def long_modules(files: Mapping[str, str]) -> list[str]:
    """A module is longer than its folder allows: a reader would rather find two."""
    return [
        f"{path} has {lines} lines, at most {most}"
        for folder, most in MAX_MODULE_LINES.items()
        for path, text in within(files, folder).items()
        if (lines := len(text.splitlines())) > most
    ]


def long_functions(files: Mapping[str, str]) -> list[str]:
    """A function is longer than a screen; its docstring, which is read elsewhere, aside."""
    return [
        f"{path}:{node.lineno} {node.name} has {lines} lines, at most {MAX_FUNCTION_LINES}"
        for path, text in within(files, *MAX_MODULE_LINES).items()
        for node in _statements(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := _lines(node) - _docstring_lines(node)) > MAX_FUNCTION_LINES
    ]


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Every statement, however deep: no expression holds one, and those are most of a tree."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.expr):
            yield from _statements(node)


def _docstring_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return _lines(function.body[0]) if ast.get_docstring(function) is not None else 0


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _module(path: str) -> str:
    parts = PurePosixPath(path).relative_to(LAYER_ROOT).with_suffix("").parts
    return ".".join(parts)


def _imports(tree: ast.AST, module: str) -> Iterator[tuple[ast.stmt, str]]:
    """Each imported name in full, as `package.module.name`."""
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _from(node, module)
            yield from ((node, f"{base}.{alias.name}") for alias in node.names)


def _from(node: ast.ImportFrom, module: str) -> str:
    if not node.level:
        return node.module or ""
    package = module.split(".")[: -node.level]
    return ".".join([*package, *([node.module] if node.module else [])])


def _nearest_module(name: str, modules: set[str]) -> str | None:
    """The module that importing `name` loads: itself, or the one that the name stands in."""
    while name:
        for candidate in (name, f"{name}.__init__"):
            if candidate in modules:
                return candidate
        name = name.rpartition(".")[0]
    return None


def _without_late_imports(tree: ast.Module) -> ast.Module:
    """What runs as the module is loaded: no function bodies, nothing for type checkers only."""
    return ast.Module(body=[_Loading().visit(node) for node in tree.body], type_ignores=[])


class _Loading(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return ast.Pass()

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return ast.Pass()

    def visit_If(self, node: ast.If) -> ast.AST:
        if ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            return ast.If(test=node.test, body=[ast.Pass()], orelse=node.orelse)
        return self.generic_visit(node)


@functools.cache
def _names(text: str, module: str) -> tuple[tuple[int, str], ...]:
    """Every name that is imported, or reached through an import under whatever alias."""
    return tuple(_found_names(ast.parse(text), module))


def _found_names(tree: ast.Module, module: str) -> Iterator[tuple[int, str]]:
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            base = f"{_from(node, module)}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                full = f"{base}{alias.name}"
                root = alias.name.partition(".")[0]
                # `import a.b` binds `a`.
                aliases[alias.asname or root] = full if alias.asname or base else root
                yield node.lineno, full
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            root, _, rest = ast.unparse(node).partition(".")
            if root in aliases:
                yield node.lineno, f"{aliases[root]}.{rest}"
        elif isinstance(node, ast.Constant) and _DOTTED_NAME.fullmatch(str(node.value)):
            # A module that is imported by its name, as importlib does.
            yield node.lineno, str(node.value)
