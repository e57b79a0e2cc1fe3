"""A thin writer of MJCF: elements with typed attributes."""

import xml.etree.ElementTree as ET
from collections.abc import Iterable

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
