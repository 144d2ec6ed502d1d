"""The mutation tool: every small fault that it can make in a module, one at a time."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.mutants.mutant import Mutant, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OTHER: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
}
_EXCHANGED = {"min": "max", "max": "min", "any": "all", "all": "any"}
# What only people read: a log line or a repr decides nothing.
_FOR_PEOPLE = ("telemetry", "watching", "relay_telemetry", "job_telemetry", "_logger", "warnings")


# The kind of a fault, what stands in the place of the node, and, where their texts would be too
# long, what is said of both.
Change = tuple[str, ast.AST] | tuple[str, ast.AST, str, str]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: what `before` is in the function `where`, and `after` in the mutant.

    `line` is where it stands now. It is no part of the name, which must outlive other changes.
    """

    path: str
    where: str
    kind: str
    before: str
    after: str
    line: int
    tree: ast.Module = field(repr=False)

    @property
    def name(self) -> str:
        """Names the fault in the list of survivors."""
        return f"{self.path} {self.where}: {self.before} -> {self.after}"

    def mutant(self, *, tests: list[str]) -> Mutant:
        """The mutant that has this fault."""
        return Mutant(self.name, self.path, self.tree, tests)


def faults_of(path: str) -> list[Fault]:
    """Every fault that can be made in the module at `path`, in the order of its lines."""
    return faults_in(path, parsed(path))


def faults_in(path: str, tree: ast.Module) -> list[Fault]:
    """The same for `tree` as the module's code."""
    found = list(_Finder(path, tree).faults())
    # Two equal faults in one function are told apart by their place.
    counted: dict[str, int] = {}
    named: list[Fault] = []
    for each in sorted(found, key=lambda fault: fault.line):
        number = counted[each.name] = counted.get(each.name, 0) + 1
        where = each.where if number == 1 else f"{each.where} #{number}"
        named.append(Fault(path, where, each.kind, each.before, each.after, each.line, each.tree))
    return named


class _Finder:
    """Finds the faults of one module."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self._path = path
        self._tree = tree

    def faults(self) -> Iterator[Fault]:
        """One after the other."""
        yield from self._within(self._tree, "module")

    def _within(self, node: ast.AST, where: str) -> Iterator[Fault]:
        for child in ast.iter_child_nodes(node):
            if _is_for_people(child):
                continue
            inside = where
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = child.name if where == "module" else f"{where}.{child.name}"
            if child not in _annotations(node):
                yield from self._of(child, inside)
                yield from self._within(child, inside)

    def _of(self, node: ast.AST, where: str) -> Iterator[Fault]:
        for kind, changed, *said in _changes(node):
            before, after = said or (_text(node), _text(changed))
            tree = _replaced(self._tree, node, copy.deepcopy(changed))
            line = getattr(node, "lineno", 0)
            yield Fault(self._path, where, kind, before, after, line, tree)


def _text(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 110 else f"{text[:60]} ... {text[-45:]}"


def _replaced(tree: ast.Module, node: ast.AST, changed: ast.AST) -> ast.Module:
    """A copy of `tree` with `changed` in the place of `node`; what is unchanged is shared."""

    def rebuilt(each: ast.AST) -> ast.AST:
        if each is node:
            ast.copy_location(changed, node)
            return ast.fix_missing_locations(changed)
        if not any(inner is node for inner in ast.walk(each)):
            return each
        new = copy.copy(each)
        for name, value in ast.iter_fields(each):
            if isinstance(value, ast.AST):
                setattr(new, name, rebuilt(value))
            elif isinstance(value, list):
                setattr(
                    new,
                    name,
                    [rebuilt(one) if isinstance(one, ast.AST) else one for one in value],
                )
        return new

    made = rebuilt(tree)
    assert isinstance(made, ast.Module)
    return made


def _changes(node: ast.AST) -> Iterator[Change]:
    """Each fault that can be made of `node`, without those of what is inside it."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _OPPOSITE:
            yield "comparison", ast.Compare(node.left, [_OPPOSITE[type(op)]()], node.comparators)
        case ast.BoolOp(values=values):
            for left_out in values:
                rest = [each for each in values if each is not left_out]
                yield "clause dropped", rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        case ast.UnaryOp(op=ast.Not()):
            yield "not dropped", node.operand
        case ast.BinOp(op=op) if type(op) in _OTHER and not _is_text(node):
            yield "arithmetic", ast.BinOp(node.left, _OTHER[type(op)](), node.right)
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield "constant", ast.Constant(value + 1)
            if value:
                yield "constant", ast.Constant(value - 1)
        case ast.Call(func=ast.Name(id=name), args=[_, _, *_]) if name in _EXCHANGED:
            yield (
                "bound",
                ast.Call(ast.Name(_EXCHANGED[name], ast.Load()), node.args, node.keywords),
            )
        case _:
            yield from _changes_of_parts(node)


def _changes_of_parts(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Call(keywords=keywords):
            for left_out in keywords:
                if left_out.arg is not None:
                    rest = [each for each in keywords if each is not left_out]
                    called = _text(node.func)
                    said = f"{called}({left_out.arg}={_text(left_out.value)})"
                    yield (
                        "keyword dropped",
                        ast.Call(node.func, node.args, rest),
                        said,
                        f"{called}()",
                    )
        case ast.Dict(keys=keys, values=values):
            for number in range(len(keys)):
                without = ast.Dict(
                    [each for place, each in enumerate(keys) if place != number],
                    [each for place, each in enumerate(values) if place != number],
                )
                key = keys[number]
                said = "**" if key is None else f"{_text(key)}: "
                yield "entry dropped", without, f"{{{said}{_text(values[number])}}}", "{}"
        case ast.Set(elts=elements) if len(elements) > 1:
            for element in elements:
                yield "entry dropped", ast.Set([each for each in elements if each is not element])
        case ast.IfExp(test=test):
            if not _is_turned(test):
                negated = ast.UnaryOp(ast.Not(), test)
                turned = ast.IfExp(negated, node.body, node.orelse)
                yield "condition turned", turned, f"if {_text(test)}", f"if not ({_text(test)})"
        case ast.If(test=test):
            if not _is_turned(test):
                negated = ast.UnaryOp(ast.Not(), test)
                other = ast.If(negated, node.body, node.orelse)
                yield "condition turned", other, f"if {_text(test)}", f"if not ({_text(test)})"
        case ast.Return(value=ast.expr() as value) if not _is_nothing(value):
            yield "nothing returned", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield()) | ast.AugAssign() | ast.Raise():
            yield "statement dropped", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement dropped", ast.Pass()
        case ast.Continue() | ast.Break():
            yield "statement dropped", ast.Pass()
        case _:
            return


def _is_turned(test: ast.expr) -> bool:
    """Whether turning the condition is a fault of its own parts already."""
    turning = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
    is_compared = isinstance(test, ast.Compare) and len(test.ops) == 1
    if is_compared and isinstance(test, ast.Compare) and isinstance(test.ops[0], turning):
        return True
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _is_nothing(value: ast.expr) -> bool:
    # Whoever is given None in place of False decides the same.
    return isinstance(value, ast.Constant) and (value.value is None or value.value is False)


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr) for side in (node.left, node.right)) or any(
        isinstance(side, ast.Constant) and isinstance(side.value, str)
        for side in (node.left, node.right)
    )


def _is_for_people(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.AnnAssign(value=None):
            return True
        case ast.FunctionDef(name="__repr__") | ast.Assert():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
            return name in _FOR_PEOPLE
        case ast.Expr(value=ast.Call(func=ast.Name(id="tell"))):
            return True
        case ast.Call(func=ast.Name(id="field")):
            return True
        case _:
            return False


def _annotations(node: ast.AST) -> list[ast.AST]:
    """The children of `node` that only type checkers read."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [each for each in (node.returns, *node.decorator_list) if each is not None]
        case ast.ClassDef():
            return [*node.bases, *node.keywords, *node.decorator_list]
        case ast.arg():
            return [node.annotation] if node.annotation is not None else []
        case ast.AnnAssign():
            return [node.annotation]
        case ast.Subscript(value=ast.Name(id=("list" | "dict" | "set" | "tuple" | "cast"))):
            return [node.slice]
        case ast.Raise():
            # The kind of the error is tested; the words of its message are not counted.
            return [node.exc] if node.exc is not None else []
        case ast.Call(func=ast.Name(id="cast"), args=[first, *_]):
            return [first]
        case _:
            return []
