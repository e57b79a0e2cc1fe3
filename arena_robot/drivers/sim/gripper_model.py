"""
The Robotiq 2F-85 and the wrist camera's bracket.

Each finger slides; a stiff tendon spring keeps the two symmetric, as the single motor of the
real one does. The linkage bars are only drawn: :mod:`render` turns them to fit the opening.
"""

from arena_robot.drivers.sim.mjcf import Node
from arena_robot.robots.grippers import ROBOTIQ_2F85

STROKE_M = ROBOTIQ_2F85.stroke_m
FINGERS = ('finger_left', 'finger_right')
TCP_M = 0.152                    # flange to the middle of the pads, along the flange's z
TIP_M = 0.167                    # flange to the fingertips
PAD_SITE = 'tcp'
BAR_PIVOT = (0.030, 0.082)       # outer bars: pivot's distance from the middle, and height
BAR_END = (0.0135, 0.110)        # outer bars: end's distance from the pad's face, and height


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
