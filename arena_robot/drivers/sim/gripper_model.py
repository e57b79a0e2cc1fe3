"""
The Robotiq 2F-85 with its controller, a model's own fingers, and the wrist camera's bracket.

Each finger slides; a stiff tendon spring keeps the two symmetric, as the single motor of the
real one does. The linkage bars are only drawn: :mod:`render` turns them to fit the opening. The
controller has a ramp at the requested speed, a force limit, and the detection of objects.
"""

from dataclasses import dataclass

import mujoco
import numpy as np

from arena_robot.core.observation import ObjectStatus
from arena_robot.drivers.sim.mjcf import Node
from arena_robot.robots.grippers import ROBOTIQ_2F85
from arena_robot.safety.embodiments import GripperPart
from arena_robot.safety.kinematics import rotation_of

STROKE_M = ROBOTIQ_2F85.stroke_m
FINGERS = ('finger_left', 'finger_right')
TCP_M = 0.152                    # flange to the middle of the pads, along the flange's z
TIP_M = 0.167                    # flange to the fingertips
PAD_SITE = 'tcp'
BAR_PIVOT = (0.030, 0.082)    # outer bars: pivot's distance from the middle, and height
BAR_END = (0.0135, 0.110)     # outer bars: end's distance from the pad's face, and height
SPEED_M_S = (0.020, 0.150)    # of the manual, at speed 0 and 1
FORCE_N = (20.0, 235.0)       # of the manual, at force 0 and 1
_SQUEEZE_M = 0.012            # the ramp may run ahead of a blocked finger by this much
_STALL_S = 0.06               # fingers that push and stand still so long hold something
_AT_M = 0.0015
_STILL_M_S = 0.004    # a fifth of the slowest speed


@dataclass(frozen=True)
class Fingers:
    """
    The joints that open a gripper, each named as the body that it moves.

    Each is at ``closed`` and ``open`` (rad or m) at the ends of ``stroke_m``. ``force`` is what
    each pushes with at the least and at the most force that is asked, N or N m.
    """

    joints: tuple[str, ...] = FINGERS
    closed: tuple[float, ...] = (0.0, 0.0)
    open: tuple[float, ...] = (STROKE_M / 2, STROKE_M / 2)
    stroke_m: float = STROKE_M
    force: tuple[float, float] = FORCE_N

    @classmethod
    def of(cls, part: GripperPart) -> 'Fingers':
        """Return a model's own fingers, which always push with their whole effort."""
        return cls(FINGERS[:len(part.joints)], part.closed_at, part.open_at, part.stroke_m,
                   (part.effort, part.effort))

    @property
    def travel(self) -> tuple[float, ...]:
        """How far each joint moves (rad or m) while the fingers open by a metre."""
        return tuple((end - start) / self.stroke_m
                     for start, end in zip(self.closed, self.open, strict=True))

    @property
    def stiffness(self) -> tuple[float, ...]:
        """Of each joint's servo, which is at full effort as far ahead as that of a 2F-85."""
        return tuple(self.force[1] / abs(way * _SQUEEZE_M) for way in self.travel)


def add_gripper(flange: Node) -> Node:
    """Add adapter, palm, fingers and pads to ``flange``; return the hand body."""
    hand = flange.add('body', name='hand', gravcomp=1)
    hand.add('inertial', mass=0.78, pos=(0.004, 0, 0.05), diaginertia=(0.0012, 0.0011, 0.0006))
    shapes = (('cylinder', 'dark', 0.0375, (0, 0, 0.0), (0, 0, 0.014)),
              ('cylinder', 'metal', 0.0368, (0, 0, 0.014), (0, 0, 0.018)),
              ('cylinder', 'dark', 0.0375, (0, 0, 0.018), (0, 0, 0.05)))
    for kind, material, size, a, b in shapes:
        hand.add('geom', class_='visual', type=kind, material=material, size=[size],
                 fromto=(*a, *b))
    hand.add('geom', class_='arm', type='box', material='dark', size=(0.024, 0.0375, 0.021),
             pos=(0, 0, 0.068))
    hand.add('geom', class_='visual', type='box', material='metal', size=(0.0245, 0.02, 0.008),
             pos=(0, 0, 0.078))
    for side in (1, -1):
        hand.add('geom', class_='visual', type='cylinder', material='metal', size=[0.006],
                 fromto=(-0.0255, side * 0.03, 0.082, 0.0255, side * 0.03, 0.082))
        for face in (1, -1):
            hand.add('geom', class_='visual', type='capsule', material='dark',
                     name=f'bar_{"left" if side > 0 else "right"}_{face}',
                     size=(0.0058, 0.016), pos=(0, 0, 0.1))
    hand.add('site', name=PAD_SITE, pos=(0, 0, TCP_M), size=[0.004], rgba=(0, 0, 0, 0))
    for name, side in zip(FINGERS, (1, -1), strict=True):
        _finger(hand, name, side)
    return hand


def _finger(hand: Node, name: str, side: int) -> None:
    finger = hand.add('body', name=name, gravcomp=1)
    finger.add('inertial', mass=0.06, pos=(0, side * 0.01, 0.13),
               diaginertia=(5e-5, 5e-5, 1e-5))
    finger.add('joint', name=name, type='slide', axis=(0, side, 0), range=(0, STROKE_M / 2),
               armature=0.25, damping=4, actuatorfrcrange=(-130, 130))
    finger.add('geom', class_='visual', type='box', material='dark', size=(0.011, 0.0055, 0.019),
               pos=(0, side * 0.0145, 0.112), euler=(side * 0.12, 0, 0))
    finger.add('geom', class_='finger', type='box', material='dark', size=(0.011, 0.0042, 0.021),
               pos=(0, side * 0.0082, TIP_M - 0.021))
    finger.add('geom', class_='pad', type='box', material='pad', name=f'{name}_pad',
               size=(0.011, 0.002, 0.0185), pos=(0, side * 0.002, TIP_M - 0.019))


def add_own_hand(flange: Node, part: GripperPart) -> Node:
    """Add the point between a model's own fingers; return the body of the wrist camera."""
    quat, turn = np.zeros(4), rotation_of(np.array(part.grasp[3:]))
    mujoco.mju_mat2Quat(quat, turn.ravel())
    hand = flange.add('body', name='hand', pos=part.grasp[:3] - TCP_M * turn[:, 2], quat=quat)
    hand.add('site', name=PAD_SITE, pos=(0, 0, TCP_M), size=[0.004], rgba=(0, 0, 0, 0))
    return hand


def add_own_servos(root: Node, fingers: Fingers) -> None:
    """Add a position servo per finger of a model."""
    servos = root.add('actuator')
    for name, ends, kp in zip(fingers.joints, zip(fingers.closed, fingers.open, strict=True),
                              fingers.stiffness, strict=True):
        servos.add('position', name=name, joint=name, kp=kp, dampratio=1.5,
                   ctrlrange=sorted(ends), forcerange=(-fingers.force[1], fingers.force[1]))


def add_finger_servos(root: Node) -> None:
    """Add the coupling spring and one position servo per finger."""
    spring = root.add('tendon').add('fixed', name='coupling', stiffness=6000, damping=60,
                                    springlength=0)
    for name, sign in zip(FINGERS, (1, -1), strict=True):
        spring.add('joint', joint=name, coef=sign)
    servos = root.add('actuator')
    for name in FINGERS:
        servos.add('general', name=name, joint=name, gainprm=(5000, 0, 0), biastype='affine',
                   biasprm=(0, -5000, -120), ctrlrange=(0, STROKE_M / 2), forcerange=(-20, 20))


def add_wrist_camera(hand: Node) -> Node:
    """Add bracket and ZED Mini to ``hand``; return the body that carries its eyes."""
    hand.add('geom', class_='visual', type='box', material='bracket', size=(0.012, 0.016, 0.004),
             pos=(0.046, 0, 0.012))
    hand.add('geom', class_='visual', type='box', material='bracket', size=(0.004, 0.02, 0.014),
             pos=(0.058, 0, 0.020), euler=(0, 0.2, 0))
    body = hand.add('body', name='camera_wrist', pos=(0.070, 0, 0.030), gravcomp=1)
    body.add('inertial', mass=0.063, pos=(0, 0, 0), diaginertia=(6e-5, 6e-5, 2e-5))
    return body


class GripperControl:
    """The gripper's 250 Hz state machine; widths in m between the pads."""

    def __init__(self, fingers: Fingers | None = None) -> None:
        self.fingers = fingers or Fingers()
        self.requested_m = self.fingers.stroke_m
        self.speed, self.force = 0.5, 0.0
        self.fault = 0
        self.status = ObjectStatus.AT_REQUESTED
        self.width_m = self.fingers.stroke_m
        self.width_rate_m_s = 0.0
        self._ramp_m = self.fingers.stroke_m
        self._blocked_s = 0.0

    def bind(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Use a new model; hold the present width."""
        kind, names = mujoco.mjtObj, self.fingers.joints
        joints = [mujoco.mj_name2id(model, kind.mjOBJ_JOINT, name) for name in names]
        self._model = model
        self._closed, self._travel = np.array(self.fingers.closed), np.array(self.fingers.travel)
        # The only finger of a hand counts as both.
        self._qpos = [int(model.jnt_qposadr[j]) for j in (joints[0], joints[-1])]
        self._dofs = [int(model.jnt_dofadr[j]) for j in (joints[0], joints[-1])]
        self._shares = 0.5 / float(self._travel[0]), 0.5 / float(self._travel[-1])
        self._closed_m = float(np.mean(self._closed / self._travel))
        self._servos = np.array([mujoco.mj_name2id(model, kind.mjOBJ_ACTUATOR, name)
                                 for name in names])
        self._read(data)
        self.requested_m = self._ramp_m = self.width_m
        self.status, self.fault = ObjectStatus.AT_REQUESTED, 0
        self._set_force()
        data.ctrl[self._servos] = self._closed + self._travel * self._ramp_m

    def go(self, width_m: float, speed: float, force: float) -> None:
        """Ramp to ``width_m`` with ``speed`` and ``force`` as fractions 0 to 1."""
        if abs(width_m - self.requested_m) > 1e-4:
            self.status, self._blocked_s = ObjectStatus.MOVING, 0.0
        self.requested_m, self.speed, self.force = width_m, speed, force
        self._set_force()

    def resume(self, saved: 'GripperControl', data: mujoco.MjData) -> None:
        """Continue with the state of another controller."""
        self.requested_m, self.speed, self.force = saved.requested_m, saved.speed, saved.force
        self.status, self.fault = saved.status, saved.fault
        self._ramp_m, self._blocked_s = saved._ramp_m, saved._blocked_s
        self._set_force()
        data.ctrl[self._servos] = self._closed + self._travel * self._ramp_m

    def stop(self) -> None:
        """Keep the fingers where they are."""
        self.requested_m = self._ramp_m = self.width_m
        self.status = ObjectStatus.AT_REQUESTED

    def tick(self, data: mujoco.MjData, dt: float) -> None:
        """Advance the ramp by ``dt`` seconds and detect contact of the fingers."""
        self._read(data)
        rate = SPEED_M_S[0] + self.speed * (SPEED_M_S[1] - SPEED_M_S[0])
        step = max(-rate * dt, min(rate * dt, self.requested_m - self._ramp_m))
        ahead = self._ramp_m + step - self.width_m
        self._ramp_m = self.width_m + max(-_SQUEEZE_M, min(_SQUEEZE_M, ahead))
        data.ctrl[self._servos] = self._closed + self._travel * self._ramp_m
        self._judge(dt)

    def _judge(self, dt: float) -> None:
        error = self.requested_m - self.width_m
        still = abs(self.width_rate_m_s) < _STILL_M_S
        if abs(error) < _AT_M:
            self.status = ObjectStatus.AT_REQUESTED
            return
        pushing = abs(self._ramp_m - self.width_m) > 0.6 * min(abs(error), _SQUEEZE_M)
        self._blocked_s = self._blocked_s + dt if still and pushing else 0.0
        if self._blocked_s >= _STALL_S:
            self.status = (ObjectStatus.GRIPPED_CLOSING if error < 0
                           else ObjectStatus.GRIPPED_OPENING)
        elif not still:
            self.status = ObjectStatus.MOVING

    def _read(self, data: mujoco.MjData) -> None:
        # Of two numbers, 250 times a second, the sum of arrays would take longer.
        (left, right), (a, b), qpos = self._qpos, self._shares, data.qpos
        self.width_m = float(a * qpos[left] + b * qpos[right] - self._closed_m)
        (left, right), qvel = self._dofs, data.qvel
        self.width_rate_m_s = float(a * qvel[left] + b * qvel[right])

    def _set_force(self) -> None:
        least, most = self.fingers.force
        newton = least + self.force * (most - least)
        self._model.actuator_forcerange[self._servos] = (-newton, newton)

    def current_a(self, data: mujoco.MjData) -> float:
        """Return a motor current in A that grows with the force, as the real one reports."""
        return float(0.05 + 0.004 * np.abs(data.actuator_force[self._servos]).mean())
