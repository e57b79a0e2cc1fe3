"""
Other spellings of generated code that mean the same, to test what reads code for its meaning.

Variables get other names, comparisons are turned round or negated, differences change their sides,
limits are unpacked otherwise, numbers become sums, truth values are set in branches. What the code
asks of the scene and what it answers stay the same.
"""

import ast
from dataclasses import replace

import numpy as np

from arena_robot.skills.base import Solution, SubtaskKind
from arena_robot.skills.confined.code import SUCCESS

TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
OPPOSITE = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}


def rewritten(solution: Solution, seed: int) -> Solution:
    """Return the solution in another spelling; code that is no Python stays as it is."""
    rng = np.random.default_rng([seed, len(solution.subtasks)])
    subtasks = []
    for subtask in solution.subtasks:
        try:
            tree = ast.parse(subtask.code)
        except SyntaxError:
            subtasks.append(subtask)
            continue
        spelling = _Spelling(rng, {SUCCESS} if subtask.kind is SubtaskKind.PRIMITIVE else set())
        tree = ast.fix_missing_locations(spelling.visit(tree))
        subtasks.append(replace(subtask, code=ast.unparse(tree) + '\n'))
    return replace(solution, subtasks=tuple(subtasks))


class _Spelling(ast.NodeTransformer):
    """Rewrites one text; ``kept`` are names that somebody else reads."""

    def __init__(self, rng: np.random.Generator, kept: set[str]) -> None:
        self._rng, self._kept = rng, kept
        self._names: dict[str, str] = {}

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        """Rename the target; unpack through one name; set truth values in branches."""
        node.value = self.visit(node.value)
        target = node.targets[0]
        if isinstance(target, ast.Tuple):
            pair = self._new('pair')
            made: list[ast.stmt] = [ast.Assign([ast.Name(pair, ast.Store())], node.value)]
            made += [ast.Assign([self._target(name)], ast.Subscript(
                ast.Name(pair, ast.Load()), ast.Constant(k), ast.Load()))
                for k, name in enumerate(target.elts)]
            return made
        node.targets = [self._target(target)]
        if _is_truth(node.value):
            def setting(value: bool) -> list[ast.stmt]:
                return [ast.Assign(node.targets, ast.Constant(value))]
            return ast.If(node.value, setting(True), setting(False))
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Rename what was assigned."""
        return ast.Name(self._names.get(node.id, node.id), node.ctx)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """Turn a comparison round, or negate its opposite."""
        self.generic_visit(node)
        if len(node.ops) != 1 or type(node.ops[0]) not in TURNED:
            return node
        kind = type(node.ops[0])
        if self._rng.random() < 0.5:
            return ast.Compare(node.comparators[0], [TURNED[kind]()], [node.left])
        return ast.UnaryOp(ast.Not(), ast.Compare(node.left, [OPPOSITE[kind]()],
                                                  node.comparators))

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Write a difference the other way round."""
        self.generic_visit(node)
        if isinstance(node.op, ast.Sub) and self._rng.random() < 0.5:
            return ast.UnaryOp(ast.USub(), ast.BinOp(node.right, ast.Sub(), node.left))
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """Write a number as the sum of its halves, which is exact."""
        if isinstance(node.value, float) and self._rng.random() < 0.7:
            half = ast.Constant(node.value / 2)
            return ast.BinOp(half, ast.Add(), half)
        return node

    def _target(self, node: ast.expr) -> ast.expr:
        if not isinstance(node, ast.Name) or node.id in self._kept:
            return node
        return ast.Name(self._names.setdefault(node.id, self._new('n')), ast.Store())

    def _new(self, stem: str) -> str:
        return f'{stem}_{int(self._rng.integers(10 ** 6))}'


def _is_truth(node: ast.expr) -> bool:
    return isinstance(node, ast.Compare | ast.BoolOp) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
