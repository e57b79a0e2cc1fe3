"""
Which Python text is allowed at all: found by reading the syntax tree, before anything runs.

Allowed are assignments to names, ``if``, ``for`` over a short range or list, ``return``,
arithmetic, comparisons, indices, calls of the listed functions with positional arguments, and
constants. Everything else is refused, also where it could never be reached. Listed are readings of
the scene (`SceneView`), and for primitives motions of the gripper (`GripperPrimitives`).
"""

import ast
import warnings
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from arena_robot.core.errors import CodeRefused
from arena_robot.core.observation import Floats
from arena_robot.skills.confined.numbers import CONSTANTS, LARGEST, NUMPY, PLAIN, in_bbox

MOST_CHARACTERS = 6000
MOST_NODES = 800
MOST_DEPTH = 30
MOST_ITEMS = 16
MOST_TEXT = 64
SELF = 'self'
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_RESERVED = frozenset((SELF, 'np', 'range', 'True', 'False', *PLAIN))


def parsed(text: str) -> list[ast.stmt]:
    """Return the statements of a text that is neither too long nor nested too deeply."""
    if not isinstance(text, str) or len(text) > MOST_CHARACTERS:
        raise CodeRefused(f'code must be text of at most {MOST_CHARACTERS} characters')
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise CodeRefused(f'this is no Python: {type(error).__name__}') from error
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    nodes = 0
    while waiting:
        node, depth = waiting.pop()
        nodes += 1
        if depth > MOST_DEPTH or nodes > MOST_NODES:
            raise CodeRefused('the code is too large, or nested too deeply')
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return tree.body


def dotted(node: ast.expr) -> str:
    """Return ``np.linalg.norm`` and the like; empty for anything else than names and dots."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = dotted(node.value)
        return f'{before}.{node.attr}' if before else ''
    return ''


class Checker:
    """Checks statements; ``calls`` has the functions of the scene that may be called."""

    def __init__(self, calls: Collection[str], returns: bool) -> None:
        self._calls = frozenset(calls)
        self._returns = returns
        self._bound: set[str] = set()

    def check(self, body: Iterable[ast.stmt]) -> None:
        """Raise CodeRefused at the first thing that is not allowed."""
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            self._expression(node.value)
            if len(node.targets) != 1:
                raise _refused(node, 'several targets')
            self._target(node.targets[0])
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, _ARITHMETIC):
            self._expression(node.value)
            self._target(node.target, known=True)
        elif isinstance(node, ast.If):
            self._expression(node.test)
            self.check([*node.body, *node.orelse])
        elif isinstance(node, ast.For) and not node.orelse and node.type_comment is None:
            self._iterated(node.iter)
            self._target(node.target)
            self.check(node.body)
        elif isinstance(node, ast.Return) and self._returns and node.value is not None:
            self._expression(node.value)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.Call):
            if isinstance(node.value, ast.Call) or not isinstance(node.value.value, str):
                self._expression(node.value)
        elif not isinstance(node, ast.Pass):
            raise _refused(node)

    def _target(self, node: ast.expr, known: bool = False) -> None:
        names = node.elts if isinstance(node, ast.Tuple) and not known else [node]
        for name in names:
            if not isinstance(name, ast.Name):
                raise _refused(name, 'as a target')
            if name.id.startswith('__') or name.id in _RESERVED or name.id in self._calls:
                raise _refused(name, f"the name '{name.id}' cannot be set")
            if known and name.id not in self._bound:
                raise _refused(name, f"the name '{name.id}' is not set")
            self._bound.add(name.id)

    def _iterated(self, node: ast.expr) -> None:
        if isinstance(node, ast.Call) and dotted(node.func) == 'range':
            if node.keywords or not 1 <= len(node.args) <= 2:
                raise _refused(node, 'range takes one or two numbers')
            for argument in node.args:
                self._expression(argument)
        else:
            self._expression(node)

    def _expression(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant):
            _constant(node)
        elif isinstance(node, ast.Name):
            if node.id not in self._bound:
                raise _refused(node, f"the name '{node.id}' is not set")
        elif isinstance(node, ast.Attribute):
            if dotted(node) not in CONSTANTS:
                raise _refused(node, 'attributes')
        elif isinstance(node, ast.Call):
            self._call(node)
        else:
            for part in _parts(node):
                self._expression(part)

    def _call(self, node: ast.Call) -> None:
        name, given = dotted(node.func), list(node.args)
        if node.keywords:
            raise _refused(node, 'arguments by name')
        if name in self._calls:
            first = given.pop(0) if given else None
            if not isinstance(first, ast.Name) or first.id != SELF:
                raise _refused(node, f'{name} needs self first')
        elif name not in PLAIN and name not in NUMPY:
            raise _refused(node, f"a call of '{name or type(node.func).__name__}'")
        else:
            least, most = (PLAIN.get(name) or NUMPY[name])[1]
            if not least <= len(given) <= most:
                raise _refused(node, f'{name} with {len(given)} arguments')
        for argument in given:
            self._expression(argument)


def _parts(node: ast.expr) -> list[ast.expr]:
    """Return the operands of an allowed operation."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd | ast.Not):
        return [node.operand]
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.Compare) and all(isinstance(op, _COMPARISONS) for op in node.ops):
        return [node.left, *node.comparators]
    if isinstance(node, ast.IfExp):
        return [node.test, node.body, node.orelse]
    if isinstance(node, ast.Tuple | ast.List) and len(node.elts) <= MOST_ITEMS:
        return node.elts
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
        return [node.value, node.slice]
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        ends = [node.slice.lower, node.slice.upper]
        if node.slice.step is None:
            return [node.value, *(end for end in ends if end is not None)]
    raise _refused(node)


def _constant(node: ast.Constant) -> None:
    value = node.value
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        if not abs(value) <= LARGEST:
            raise _refused(node, 'a number that large')
    elif not isinstance(value, str) or len(value) > MOST_TEXT or not value.isprintable():
        raise _refused(node, f'such a constant ({type(value).__name__})')


def _refused(node: ast.AST, what: str = '') -> CodeRefused:
    line = f'line {node.lineno}: ' if isinstance(node, ast.stmt | ast.expr) else ''
    return CodeRefused(f'{line}{what or type(node).__name__} is not allowed')


class SceneView(Protocol):
    """
    Reads a scene; positions in m in the base frame, angles in rad.

    Every method raises CodeRefused for a name that the scene lacks.
    """

    def get_eef_pos(self) -> tuple[Floats, Floats]:
        """Return position (3,) of the point between the pads and its roll, pitch, yaw (3,)."""

    def get_position(self, object_name: str) -> Floats:
        """Return the (3,) position of an object."""

    def get_link_state(self, object_name: str, link_name: str) -> Floats:
        """Return the (3,) position of a link: the place where it is held or pushed."""

    def get_joint_state(self, object_name: str, joint_name: str) -> float:
        """Return a joint's position, rad or m."""

    def get_joint_limit(self, object_name: str, joint_name: str) -> tuple[float, float]:
        """Return a joint's limits (low, high), rad or m."""

    def get_bounding_box(self, object_name: str) -> tuple[Floats, Floats]:
        """Return the corners (low, high), (3,) each, of an object along the base axes."""

    def get_bounding_box_link(self, object_name: str, link_name: str) -> tuple[Floats, Floats]:
        """Return the corners (low, high), (3,) each, of a link along the base axes."""


class GripperPrimitives(Protocol):
    """Motions; a motion that fails leaves nothing grasped. Raises CodeRefused as a view does."""

    def grasp_object(self, object_name: str) -> None:
        """Grasp a free object from above."""

    def grasp_object_link(self, object_name: str, link_name: str) -> None:
        """Grasp a link of an object."""

    def release_grasp(self) -> None:
        """Open the gripper and retreat."""

    def check_grasped(self, object_name: str, link_name: str = '') -> bool:
        """Return whether both fingers touch the object, or that link of it."""


Functions = dict[str, Callable[..., Any]]


READINGS = ('get_eef_pos', 'get_position', 'get_link_state', 'get_joint_state',
            'get_joint_limit', 'get_bounding_box', 'get_bounding_box_link', 'in_bbox')


MOTIONS = ('grasp_object', 'grasp_object_link', 'release_grasp')


PRIMITIVES = (*MOTIONS, 'check_grasped')


def readings(view: SceneView) -> Functions:
    """Return what reward code may call, by name."""
    return {'get_eef_pos': view.get_eef_pos, 'get_position': view.get_position,
            'get_link_state': view.get_link_state, 'get_joint_state': view.get_joint_state,
            'get_joint_limit': view.get_joint_limit,
            'get_bounding_box': view.get_bounding_box,
            'get_bounding_box_link': view.get_bounding_box_link, 'in_bbox': in_bbox}


def primitives(hand: GripperPrimitives) -> Functions:
    """Return what code of a primitive subtask may call, by name."""
    return {'grasp_object': hand.grasp_object, 'grasp_object_link': hand.grasp_object_link,
            'release_grasp': hand.release_grasp, 'check_grasped': hand.check_grasped}
