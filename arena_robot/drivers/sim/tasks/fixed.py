"""Open, close and press: fixtures with joints."""

from collections.abc import Iterator

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.drivers.sim.fixtures import Drawer, LidBox, PushButton
from arena_robot.drivers.sim.props import Block
from arena_robot.drivers.sim.tasks.base import (
    Approach,
    ExpertHands,
    Layout,
    Place,
    Setup,
    Staged,
    choose,
    colours,
    share,
)
from arena_robot.drivers.sim.tasks.pick import HALF, scatter
from arena_robot.drivers.sim.truth import SceneTruth

_NARROW = 0.52   # gripper position whose fingers fit behind the drawer's bar


def _cabinet(rng: np.random.Generator, colour: str) -> Drawer:
    return Drawer('drawer', float(rng.uniform(0.66, 0.70)), float(rng.uniform(-0.12, 0.12)),
                  float(rng.uniform(-0.15, 0.15)), colour)


def _clutter(rng: np.random.Generator, colour: str) -> dict[str, Place]:
    side = 1 if rng.random() < 0.5 else -1
    return {f'{colour}_cube': Place(float(rng.uniform(0.38, 0.5)),
                                    side * float(rng.uniform(0.27, 0.34)), HALF,
                                    float(rng.uniform(-0.7, 0.7)))}


class _DrawerTask(Staged):
    """Base of the drawer tasks."""

    category = 'open and close'

    def __init__(self, rng: np.random.Generator) -> None:
        colour, other = colours(rng, 2)
        self.drawer = _cabinet(rng, colour)
        self._reach = Approach()
        self.places = _clutter(rng, other)
        self.props = (self.drawer, Block(f'{other}_cube', other))

    def towards_robot(self) -> Floats:
        """Return the (2,) direction in which the drawer opens."""
        return -np.array([np.cos(self.drawer.yaw), np.sin(self.drawer.yaw)])


class OpenDrawer(_DrawerTask):
    """Pull the drawer out by at least 10 cm."""

    name = 'open_drawer'

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.setup = Setup(choose(rng, 'open the drawer', 'pull the drawer open'), self.props,
                           self.places)

    def stage(self, truth: SceneTruth) -> float:
        """Reach 0.2, grasp 0.4, then travel."""
        reach = 0.2 * self._reach(truth.distance('drawer_handle'))
        travel = share(truth.joint('drawer_slide'), 0.10)
        grasp = 0.4 if truth.grasped('drawer_handle') else reach
        return max(grasp, 0.4 + 0.55 * travel if travel > 0.05 else 0.0)

    def done(self, truth: SceneTruth) -> bool:
        """Ten centimetres open."""
        return truth.joint('drawer_slide') > 0.10

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Straddle the bar, close, pull."""
        x, y, z = hands.truth.position('drawer_handle')
        yaw = self.drawer.yaw + np.pi / 2
        yield from hands.grip(_NARROW)
        yield from hands.go(x, y, z + 0.13, yaw)
        yield from hands.go(x, y, z - 0.004, yaw)
        yield from hands.grip(1.0)
        out = self.towards_robot() * (Drawer.TRAVEL_M + 0.01)
        yield from hands.go(x + out[0], y + out[1], z - 0.004, yaw)
        yield from hands.grip(_NARROW)
        yield from hands.go(x + out[0], y + out[1], z + 0.12, yaw)


class CloseDrawer(_DrawerTask):
    """Push the open drawer shut."""

    name = 'close_drawer'

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.start = float(rng.uniform(0.09, 0.125))
        self.setup = Setup(choose(rng, 'close the drawer', 'push the drawer shut'), self.props,
                           self.places, {'drawer_slide': self.start})

    def stage(self, truth: SceneTruth) -> float:
        """Reach 0.3, then travel."""
        reach = 0.3 * self._reach(truth.distance('drawer_handle'))
        travel = share(self.start - truth.joint('drawer_slide'), self.start)
        return max(reach, 0.3 + 0.65 * travel if travel > 0.03 else 0.0)

    def done(self, truth: SceneTruth) -> bool:
        """Within 8 mm of shut."""
        return truth.joint('drawer_slide') < 0.008

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Push the bar with closed fingers."""
        x, y, z = hands.truth.position('drawer_handle')
        out, yaw = self.towards_robot(), self.drawer.yaw
        before, after = 0.05 * out, -(self.start + 0.02) * out
        yield from hands.grip(1.0)
        yield from hands.go(x + before[0], y + before[1], z + 0.10, yaw)
        yield from hands.go(x + before[0], y + before[1], z, yaw)
        yield from hands.go(x + after[0], y + after[1], z, yaw)
        yield from hands.go(x + before[0], y + before[1], z + 0.10, yaw)


class CloseBox(Staged):
    """Flip the lid over so that it lies on the box."""

    name, category = 'close_box', 'open and close'

    def __init__(self, rng: np.random.Generator) -> None:
        colour, other = colours(rng, 2)
        self.box = LidBox('box', float(rng.uniform(0.44, 0.56)), float(rng.uniform(-0.16, 0.04)),
                          float(rng.uniform(-0.25, 0.25)), colour)
        self._reach = Approach()
        self.setup = Setup(
            choose(rng, 'close the box', f'close the lid of the {colour} box', 'shut the lid'),
            (self.box, Block(f'{other}_cube', other)),
            {f'{other}_cube': Place(self.box.x, self.box.y, HALF + 0.008, 0.2)},
            {'box_lid': LidBox.OPEN_RAD})

    def stage(self, truth: SceneTruth) -> float:
        """Reach 0.3, then the lid's angle."""
        reach = 0.3 * self._reach(truth.distance('box_cover'))
        angle = share(LidBox.OPEN_RAD - truth.joint('box_lid'), LidBox.OPEN_RAD)
        return max(reach, 0.3 + 0.65 * angle if angle > 0.03 else 0.0)

    def done(self, truth: SceneTruth) -> bool:
        """The lid is within 5 degrees of shut."""
        return truth.joint('box_lid') < 0.09

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Sweep the lid over from behind, then press it down."""
        yaw = self.box.yaw
        across = np.array([-np.sin(yaw), np.cos(yaw)])
        sy, top = LidBox.HALF[1], 2 * LidBox.HALF[2]
        middle = np.array([self.box.x, self.box.y])

        def at(distance: float, z: float) -> tuple[float, float, float]:
            x, y = middle + across * distance
            return float(x), float(y), z

        yield from hands.grip(1.0)
        yield from hands.go(*at(sy + 0.13, top + 0.16), yaw)
        yield from hands.go(*at(sy + 0.11, top + 0.075), yaw)
        yield from hands.go(*at(sy - 0.05, top + 0.085), yaw)
        yield from hands.wait(0.5)
        yield from hands.go(*at(-sy * 0.4, top + 0.10), yaw)
        yield from hands.go(*at(-sy * 0.4, top + 0.016), yaw)
        yield from hands.go(*at(-sy * 0.4, top + 0.12), yaw)


class PressButton(Staged):
    """Press the button; cubes stand around."""

    name, category = 'press_button', 'press'

    def __init__(self, rng: np.random.Generator) -> None:
        colour, *others = colours(rng, 3, ('white', 'black', 'yellow', 'orange'))
        layout = Layout(rng)
        x, y = layout.spot(0.07)
        self._reach = Approach()
        self._pressed = False
        names = [f'{other}_cube' for other in others]
        self.setup = Setup(
            choose(rng, f'press the {colour} button', 'push the button', 'press the button'),
            (PushButton('button', x, y, colour),
             *(Block(f'{other}_cube', other) for other in others)),
            scatter(rng, layout, names))

    def stage(self, truth: SceneTruth) -> float:
        """Reach 0.5, then the travel of the button."""
        pushed = share(-truth.joint('button_cap'), 0.6 * PushButton.TRAVEL_M)
        self._pressed = self._pressed or pushed >= 1.0
        reach = 0.5 * self._reach(truth.distance('button'))
        return max(reach, 0.5 + 0.45 * pushed if pushed > 0.1 else 0.0)

    def done(self, truth: SceneTruth) -> bool:
        """The button was pressed."""
        return self._pressed

    def solve(self, hands: ExpertHands) -> Iterator[None]:
        """Press with closed fingers."""
        x, y, _ = hands.truth.position('button')
        yield from hands.grip(1.0)
        yield from hands.go(x, y, 0.14)
        yield from hands.go(x, y, PushButton.TOP_M - 0.04)
        yield from hands.go(x, y, 0.14)
