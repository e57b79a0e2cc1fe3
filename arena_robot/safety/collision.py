"""Thresholds of torque and force above which a robot stops itself."""

from collections.abc import Sequence
from dataclasses import dataclass

from arena_robot.core.errors import SafetyError
from arena_robot.robots.arms import DOF

# The most that can be asked: torque of a joint in N m, force (N) and torque (N m) at the flange.
# DROID's own thresholds are 40 for all of them.
MOST_TORQUE = (100.0,) * DOF
MOST_FORCE = (100.0, 100.0, 100.0, 30.0, 30.0, 30.0)


@dataclass(frozen=True)
class CollisionThresholds:
    """
    Above ``upper_*`` is a collision, between ``lower_*`` and it a contact.

    ``*_torque`` (7,) N m at the joints; ``*_force`` (6,) at the flange, N and N m. Empty:
    unchanged.
    """

    lower_torque: tuple[float, ...] = ()
    upper_torque: tuple[float, ...] = ()
    lower_force: tuple[float, ...] = ()
    upper_force: tuple[float, ...] = ()

    def checked(self) -> 'CollisionThresholds':
        """Return these thresholds; SafetyError when an arm cannot have them."""
        _check('torque', self.lower_torque, self.upper_torque, MOST_TORQUE)
        _check('force', self.lower_force, self.upper_force, MOST_FORCE)
        if not self.upper_torque and not self.upper_force:
            raise SafetyError('no thresholds were given: torque needs '
                              f'{DOF} numbers, force {len(MOST_FORCE)}')
        return self


def _check(kind: str, lower: Sequence[float], upper: Sequence[float],
           most: Sequence[float]) -> None:
    if not lower and not upper:
        return
    for name, values in (('lower', lower), ('upper', upper)):
        if len(values) != len(most):
            raise SafetyError(f'{name}_{kind}_thresholds_nominal needs {len(most)} numbers, found '
                              f'{len(values)}')
    for i, (low, high, limit) in enumerate(zip(lower, upper, most, strict=True), 1):
        if not 0.0 < low <= high <= limit:
            raise SafetyError(f'{kind} thresholds, number {i}: found {low:g} and {high:g}; they '
                              f'must be above 0, lower at most upper, upper at most {limit:g}')
