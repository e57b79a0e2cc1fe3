"""Run the checks on one part: what moves nothing first, then, if allowed, commands and motions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from arena_robot.core import conformance
from arena_robot.core.conformance import FAIL, Check, CheckFailed, Result, skipped
from arena_robot.core.errors import ArenaError
from arena_robot.drivers.conformance import arm, camera, gripper
from arena_robot.drivers.conformance.rig import AnyRig

AnyCheck = Check[Any]   # of the rig of its kind of part


@dataclass(frozen=True)
class Suite:
    """The checks of one kind of part, and ``warning``: what the moving ones do."""

    still: tuple[AnyCheck, ...]
    commands: tuple[AnyCheck, ...] = ()
    motions: tuple[AnyCheck, ...] = ()
    warning: str = ''

    @property
    def moving(self) -> tuple[AnyCheck, ...]:
        """The checks that send commands."""
        return (*self.commands, *self.motions)


ARM = Suite(arm.STILL, arm.COMMANDS, arm.MOTIONS,
            'the flange turns about itself by up to 0.2 rad (joint 7) and back; keep the area '
            'clear and a hand on the user stop')
GRIPPER = Suite(gripper.STILL, gripper.COMMANDS, gripper.MOTIONS,
                'the fingers open and close completely; keep them free')
CAMERA = Suite(camera.STILL)
SUITES = {'arm': ARM, 'gripper': GRIPPER, 'camera': CAMERA}


def run_check(check: AnyCheck, rig: AnyRig) -> Result:
    """Run one check, or skip it for the reason that the rig has."""
    if check.__name__ in rig.withheld:
        return skipped([check], rig.withheld[check.__name__])[0]
    return conformance.run_check(check, rig, _explained)


def run_still(suite: Suite, rig: AnyRig, told: Callable[[Result], None]) -> list[Result]:
    """Run the checks that move nothing and hand each result to ``told``."""
    return _run(suite.still, rig, told, go_on=True)


def run_moving(suite: Suite, rig: AnyRig, told: Callable[[Result], None]) -> list[Result]:
    """Run the others; where something real moves, nothing more is run after a failure."""
    return _run(suite.moving, rig, told, go_on=rig.harmless)


def leave_out(checks: Sequence[AnyCheck], why: str, told: Callable[[Result], None],
              ) -> list[Result]:
    """Skip checks for one reason."""
    found = skipped(checks, why)
    for result in found:
        told(result)
    return found


def _run(checks: Sequence[AnyCheck], rig: AnyRig, told: Callable[[Result], None], *,
         go_on: bool) -> list[Result]:
    results: list[Result] = []
    for number, check in enumerate(checks):
        result = run_check(check, rig)
        told(result)
        results.append(result)
        if result.outcome == FAIL and not go_on:
            why = f'not run after {check.__name__} failed'
            return [*results, *leave_out(checks[number + 1:], why, told)]
    return results


def _explained(error: Exception) -> CheckFailed:
    code = f' [{error.code}]' if isinstance(error, ArenaError) else ''
    return CheckFailed("the check's calls", f'{type(error).__name__}: {error}{code}',
                       'see arena_robot/drivers/base.py for what each method promises')
