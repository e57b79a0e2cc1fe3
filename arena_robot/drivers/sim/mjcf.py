"""A thin writer of MJCF (elements with typed attributes), and poses in DROID's convention."""

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from math import atan2, hypot

import numpy as np

from arena_robot.core.observation import Floats

Value = str | float | int | bool | Iterable[float]


def text(value: Value) -> str:
    """Return an attribute as MJCF spells it: nine digits, lists separated by blanks."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return 'true' if value else 'false'
    if isinstance(value, int | float):
        return f'{value:.9g}'
    return ' '.join(f'{float(item):.9g}' for item in value)


class Node:
    """One MJCF element; ``add`` returns the child, so the code is nested like the MJCF."""

    def __init__(self, element: ET.Element) -> None:
        self.element = element

    @classmethod
    def root(cls, tag: str, **attributes: Value) -> 'Node':
        """Return a new tree's root."""
        return cls(ET.Element(tag, {k: text(v) for k, v in attributes.items()}))

    def add(self, tag: str, **attributes: Value) -> 'Node':
        """Append a child; a trailing underscore keeps Python's own words usable (``class_``)."""
        named = {k.rstrip('_'): text(v) for k, v in attributes.items()}
        return Node(ET.SubElement(self.element, tag, named))

    def xml(self) -> str:
        """Return the tree as text."""
        ET.indent(self.element)
        return ET.tostring(self.element, encoding='unicode')


def pose_of(position: Floats, matrix: Floats) -> Floats:
    """Return ``x y z roll pitch yaw`` (extrinsic xyz, R = Rz Ry Rx) from (3,) and (9,)."""
    r = matrix
    flat = hypot(r[0], r[3])
    if flat > 1e-9:
        angles = atan2(r[7], r[8]), atan2(-r[6], flat), atan2(r[3], r[0])
    else:
        angles = atan2(-r[5], r[4]), atan2(-r[6], flat), 0.0
    return np.array([*position, *angles])


def yaw_quat(yaw: float) -> Floats:
    """Return the quaternion w x y z of a turn about z."""
    return np.array([np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])
