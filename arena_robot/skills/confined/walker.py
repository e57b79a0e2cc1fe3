"""Evaluates checked statements; every node costs fuel, so every run ends."""

import ast
import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from arena_robot.core.errors import CodeRefused
from arena_robot.skills.confined.checking import SELF, Functions, dotted
from arena_robot.skills.confined.numbers import (
    CONSTANTS,
    NUMPY,
    PLAIN,
    number,
    operand,
    power,
    truth,
)

FUEL = 3000         # steps of a run
MOST_LOOPS = 100    # rounds of a loop
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: power}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne}
_FAILURES = (ArithmeticError, ValueError, TypeError, IndexError)


class Opaque:
    """A value that code may only pass around, such as the pictures of a primitive."""


class Walker:
    """One run: its variables, and the fuel that is left."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._fuel = FUEL
        self.variables: dict[str, Any] = {}

    def run(self, body: Iterable[ast.stmt]) -> Any:
        """Run statements; return the value of the first ``return`` reached, or None."""
        for node in body:
            self._burn()
            if isinstance(node, ast.Return) and node.value is not None:
                return self._value(node.value)
            returned = self._step(node)
            if returned is not None:
                return returned
        return None

    def _step(self, node: ast.stmt) -> Any:
        if isinstance(node, ast.Assign):
            self._bind(node.targets[0], self._value(node.value))
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            before = self._named(node.target.id)
            self.variables[node.target.id] = self._binary(node.op, before,
                                                          self._value(node.value))
        elif isinstance(node, ast.If):
            return self.run(node.body if truth(self._value(node.test)) else node.orelse)
        elif isinstance(node, ast.For):
            return self._loop(node)
        elif isinstance(node, ast.Expr):
            self._value(node.value)
        return None

    def _loop(self, node: ast.For) -> Any:
        if isinstance(node.iter, ast.Call) and dotted(node.iter.func) == 'range':
            ends = [self._whole(argument) for argument in node.iter.args]
            items: Any = range(*ends)
        else:
            items = self._value(node.iter)
        if not isinstance(items, tuple | range) and not (
                isinstance(items, np.ndarray) and items.ndim):
            raise CodeRefused('a loop needs a range, a list or an array')
        if len(items) > MOST_LOOPS:
            raise CodeRefused(f'a loop of {len(items)} rounds, allowed are {MOST_LOOPS}')
        for item in items:
            self._bind(node.target, item)
            returned = self.run(node.body)
            if returned is not None:
                return returned
        return None

    def _bind(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self.variables[target.id] = value
        elif isinstance(target, ast.Tuple):
            items = value if isinstance(value, tuple | np.ndarray) else ()
            if np.ndim(items) == 0 and not isinstance(items, tuple):
                raise CodeRefused('a single number cannot be unpacked')
            if len(items) != len(target.elts):
                raise CodeRefused(f'{len(target.elts)} names for {len(items)} values')
            for name, item in zip(target.elts, items, strict=True):
                self._bind(name, item)

    def _value(self, node: ast.expr) -> Any:
        self._burn()
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._named(node.id)
        if isinstance(node, ast.Attribute):
            return CONSTANTS[dotted(node)]
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Tuple | ast.List):
            return tuple(self._value(item) for item in node.elts)
        if isinstance(node, ast.Subscript):
            return self._item(node)
        if isinstance(node, ast.BinOp):
            return self._binary(node.op, self._value(node.left), self._value(node.right))
        return self._logic(node)

    def _logic(self, node: ast.expr) -> Any:
        if isinstance(node, ast.UnaryOp):
            value = self._value(node.operand)
            if isinstance(node.op, ast.Not):
                return not truth(value)
            return number(-np.asarray(operand(value), dtype=float)
                          if isinstance(node.op, ast.USub) else operand(value))
        if isinstance(node, ast.BoolOp):
            stop = isinstance(node.op, ast.Or)
            return any(truth(self._value(value)) for value in node.values) if stop else all(
                truth(self._value(value)) for value in node.values)
        if isinstance(node, ast.Compare):
            return self._compare(node)
        if isinstance(node, ast.IfExp):
            return self._value(node.body if truth(self._value(node.test)) else node.orelse)
        raise CodeRefused(f'{type(node).__name__} is not allowed')

    def _compare(self, node: ast.Compare) -> Any:
        left, result = operand(self._value(node.left)), None
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = operand(self._value(right_node))
            holds = _computed(_COMPARE[type(op)], left, right)
            result = holds if result is None else _computed(np.logical_and, result, holds)
            left = right
        return result

    def _binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(left, tuple) and isinstance(right, tuple):
            raise CodeRefused('arithmetic of two lists; use np.array')
        return _computed(_BINARY[type(op)], operand(left), operand(right))

    def _item(self, node: ast.Subscript) -> Any:
        value = self._value(node.value)
        if not isinstance(value, tuple | np.ndarray):
            raise CodeRefused('only lists and arrays have items')
        try:
            if isinstance(node.slice, ast.Slice):
                ends = [None if end is None else self._whole(end)
                        for end in (node.slice.lower, node.slice.upper)]
                return value[slice(*ends)]
            item = value[self._whole(node.slice)]
        except IndexError as error:
            raise CodeRefused('an index is out of range') from error
        return item.item() if isinstance(item, np.generic) else item

    def _call(self, node: ast.Call) -> Any:
        name = dotted(node.func)
        if name in self._functions:
            given = [self._value(arg) for arg in node.args
                     if not (isinstance(arg, ast.Name) and arg.id == SELF)]
            return self._scene(name, given)
        given = [self._value(arg) for arg in node.args]
        if name == 'len':
            return PLAIN[name][0](*given)
        function = (PLAIN.get(name) or NUMPY[name])[0]
        return _computed(function, *(operand(value) for value in given))

    def _scene(self, name: str, given: list[Any]) -> Any:
        if name != 'in_bbox' and not all(isinstance(value, str) for value in given):
            raise CodeRefused(f'{name} takes names in quotes')
        try:
            return self._functions[name](*given)
        except TypeError as error:
            raise CodeRefused(f'{name} does not take {len(given)} names') from error

    def _named(self, name: str) -> Any:
        if name not in self.variables:
            raise CodeRefused(f"the name '{name}' is not set")
        return self.variables[name]

    def _whole(self, node: ast.expr) -> int:
        value = self._value(node)
        if isinstance(value, bool) or not isinstance(value, int | float) or (
                not math.isfinite(value) or value != int(value)):
            raise CodeRefused('an index or a number of rounds must be whole')
        return int(value)

    def _burn(self) -> None:
        self._fuel -= 1
        if self._fuel < 0:
            raise CodeRefused('the code takes too many steps')


def _computed(function: Callable[..., Any], *values: Any) -> Any:
    """Return a finite result; an error of the calculation is a CodeRefused."""
    try:
        with np.errstate(all='ignore'):
            return number(function(*values))
    except _FAILURES as error:
        raise CodeRefused(f'a calculation failed: {error}') from error
