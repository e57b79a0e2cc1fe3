"""
Code of a subtask, ready to run: ``_compute_reward`` of a reward subtask, or calls of primitives.

::

    reward, success = RewardCode(subtask.code)(view)
    success = PrimitiveCode(subtask.code)(hand)

Both constructors raise CodeRefused for text that is not allowed, both calls for a run that does
not end in time or does not give finite scalars.
"""

import ast
from collections.abc import Callable

from arena_robot.core.errors import CodeRefused
from arena_robot.skills.confined.checking import (
    MOTIONS,
    PRIMITIVES,
    READINGS,
    SELF,
    Checker,
    Functions,
    GripperPrimitives,
    SceneView,
    parsed,
    primitives,
    readings,
)
from arena_robot.skills.confined.numbers import number
from arena_robot.skills.confined.walker import Opaque, Walker

REWARD_FUNCTION = '_compute_reward'
SUCCESS = 'success'
MOST_MOTIONS = 4


class RewardCode:
    """A generated ``_compute_reward(self)``."""

    def __init__(self, text: str) -> None:
        body = parsed(text)
        if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
            raise CodeRefused(f'reward code is one function, {REWARD_FUNCTION}')
        function = body[0]
        if not _plain(function):
            raise CodeRefused(f'the function must read: def {REWARD_FUNCTION}({SELF}):')
        Checker(READINGS, returns=True).check(function.body)
        self._body = function.body

    def __call__(self, view: SceneView) -> tuple[float, bool]:
        """Return reward and success in the present state."""
        answer = Walker(readings(view)).run(self._body)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise CodeRefused(f'{REWARD_FUNCTION} must return reward and success')
        reward, success = number(answer[0]), number(answer[1])
        if not isinstance(reward, int | float):
            raise CodeRefused('the reward must be one number')
        return float(reward), _success(success)


class PrimitiveCode:
    """Generated calls of primitives; they set ``success``."""

    def __init__(self, text: str) -> None:
        self._body = parsed(text)
        Checker(PRIMITIVES, returns=False).check(self._body)

    def __call__(self, hand: GripperPrimitives) -> bool:
        """Make the motions, at most four; return success."""
        walker = Walker(_counted(primitives(hand)))
        walker.run(self._body)
        if SUCCESS not in walker.variables:
            raise CodeRefused(f"the code does not set '{SUCCESS}'")
        return _success(number(walker.variables[SUCCESS]))


def _plain(function: ast.FunctionDef) -> bool:
    args = function.args
    extras = (args.posonlyargs, args.kwonlyargs, args.defaults, args.kw_defaults,
              function.decorator_list)
    return (function.name == REWARD_FUNCTION and [arg.arg for arg in args.args] == [SELF]
            and args.vararg is None and args.kwarg is None and not any(extras)
            and function.returns is None and args.args[0].annotation is None)


def _success(value: object) -> bool:
    if not isinstance(value, bool):
        raise CodeRefused('success must be one truth value')
    return value


def _counted(functions: Functions) -> Functions:
    """Return the functions with a limit on the number of motions, and RoboGen's results."""
    motions: list[str] = []

    def moving(name: str) -> Callable[..., tuple[Opaque, Opaque]]:
        def motion(*names: str) -> tuple[Opaque, Opaque]:
            motions.append(name)
            if len(motions) > MOST_MOTIONS:
                raise CodeRefused(f'a subtask makes at most {MOST_MOTIONS} motions')
            functions[name](*names)
            return Opaque(), Opaque()
        return motion

    return {name: moving(name) if name in MOTIONS else function
            for name, function in functions.items()}
