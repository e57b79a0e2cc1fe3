"""
What the code of a subtask says, read from its syntax tree and never run.

Which primitives and state functions it calls with which names, which joint its success is about,
towards which limit, and how close. Any policy model's code is read, not only the generator's.
"""

import ast
from dataclasses import dataclass

from arena_robot.skills.base import Subtask

PRIMITIVES = ('grasp_object', 'grasp_object_link', 'release_grasp')
STATE = ('check_grasped', 'get_eef_pos', 'get_position', 'get_link_state', 'get_joint_state',
         'get_joint_limit', 'get_bounding_box', 'get_bounding_box_link', 'in_bbox')
_ROLES = {'get_joint_state': 'joint', 'get_eef_pos': 'gripper', 'get_link_state': 'place',
          'get_position': 'place'}
UPPER, LOWER, MIDDLE, CONSTANT, NO_GOAL = 'upper', 'lower', 'middle', 'constant', ''


@dataclass(frozen=True)
class CodeFacts:
    """
    What was read; ``calls`` are (function, names in quotes).

    ``about`` is what the success is about: joint, gripper, place, or empty. ``goal`` of a joint is
    upper, lower, middle or constant;
    ``share`` is the middle's. ``tolerance`` is None when no number bounds the success;
    ``relative`` tells that it is a share of the joint's range. ``problem`` is a syntax error.
    """

    calls: tuple[tuple[str, tuple[str, ...]], ...] = ()
    about: str = ''
    goal: str = NO_GOAL
    share: float = 0.0
    tolerance: float | None = None
    relative: bool = False
    has_success: bool = False
    has_reward: bool = False
    problem: str = ''

    def names(self, *functions: str) -> list[tuple[str, ...]]:
        """Return the names that these functions were called with."""
        return [names for function, names in self.calls if function in functions]


def facts_of(subtask: Subtask) -> CodeFacts:
    """Return the facts of a subtask."""
    try:
        tree = ast.parse(subtask.code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return CodeFacts(problem=str(error) or 'the code cannot be parsed')
    reader = _Reader()
    for node in _statements(tree):
        reader.read(node)
    calls = [(n.func.id, _texts(n)) for n in ast.walk(tree)
             if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    goal, share = reader.goal()
    tolerance, relative = reader.tolerance()
    return CodeFacts(tuple(sorted(set(calls), key=calls.index)), reader.about(), goal, share,
                     tolerance, relative, 'success' in reader.values, 'reward' in reader.values)


def _statements(tree: ast.Module) -> list[ast.stmt]:
    statements: list[ast.stmt] = []
    for node in tree.body:
        statements += node.body if isinstance(node, ast.FunctionDef) else [node]
    return statements


def _texts(call: ast.Call) -> tuple[str, ...]:
    return tuple(a.value for a in call.args
                 if isinstance(a, ast.Constant) and isinstance(a.value, str))


class _Reader:
    """Follows which names have a joint's value, its limits, or a place."""

    def __init__(self) -> None:
        self.roles: dict[str, frozenset[str]] = {}
        self.values: dict[str, ast.expr] = {}

    def read(self, node: ast.stmt) -> None:
        """Take in an assignment."""
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            return
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Name):
            self.values[target.id] = value
            self.roles[target.id] = self.of(value)
        elif isinstance(target, ast.Tuple) and _calls(value) == 'get_joint_limit':
            for name, role in zip(target.elts, ('low', 'high'), strict=False):
                if isinstance(name, ast.Name):
                    self.roles[name.id] = frozenset({role})

    def of(self, node: ast.expr) -> frozenset[str]:
        """Return the roles in an expression; a subscript of limits is one limit."""
        if isinstance(node, ast.Subscript):
            inner = self.of(node.value)
            if 'limits' in inner and isinstance(node.slice, ast.Constant):
                return frozenset({'high' if node.slice.value in (1, -1) else 'low'})
            return inner
        if isinstance(node, ast.Name):
            return self.roles.get(node.id, frozenset())
        called = _calls(node)
        if called == 'get_joint_limit':
            return frozenset({'limits'})
        if called in _ROLES:
            return frozenset({_ROLES[called]})
        return frozenset().union(*(self.of(child) for child in ast.iter_child_nodes(node)
                                   if isinstance(child, ast.expr)))

    def about(self) -> str:
        """Return what the success is about."""
        test = self._test()
        roles = self.of(test.left) if test is not None else frozenset()
        return next((role for role in ('joint', 'gripper', 'place') if role in roles), '')

    def goal(self) -> tuple[str, float]:
        """Return what the success wants of a joint, and the share for a middle."""
        test = self._test()
        if test is None or 'joint' not in (left := self.of(test.left)):
            return NO_GOAL, 0.0
        if {'low', 'high'} <= left:
            return MIDDLE, self._share()
        if 'high' in left or 'low' in left:
            return (UPPER if 'high' in left else LOWER), 0.0
        right = self.of(test.comparators[0])
        if {'low', 'high'} & right and not _is_difference(self._resolved(test.left)):
            return (UPPER if isinstance(test.ops[0], ast.Gt | ast.GtE) else LOWER), 0.0
        return CONSTANT, 0.0

    def tolerance(self) -> tuple[float | None, bool]:
        """Return the number that bounds the success, and whether it is a share of the range."""
        test = self._test()
        if test is None:
            return None, False
        right = test.comparators[0]
        numbers = [n for n in _numbers(right) if n > 0.0]
        return (numbers[0] if numbers else None), bool({'low', 'high'} & self.of(right))

    def _test(self) -> ast.Compare | None:
        value = self.values.get('success')
        return next((n for n in ast.walk(value) if isinstance(n, ast.Compare)), None) \
            if value is not None else None

    def _resolved(self, node: ast.expr) -> ast.expr:
        return self.values.get(node.id, node) if isinstance(node, ast.Name) else node

    def _share(self) -> float:
        test = self._test()
        written = self.values.get('goal', self._resolved(test.left) if test else None)
        return next(iter(_numbers(written)), 0.5) if written is not None else 0.5


def _calls(node: ast.AST) -> str:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ''


def _numbers(node: ast.expr) -> list[float]:
    return [float(n.value) for n in ast.walk(node) if isinstance(n, ast.Constant)
            and isinstance(n.value, int | float) and not isinstance(n.value, bool)]


def _is_difference(node: ast.expr) -> bool:
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Sub) for n in ast.walk(node))
