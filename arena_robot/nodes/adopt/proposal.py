"""A station file for a graph, with what is missing and what to do about it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from arena_robot.nodes.adopt.cameras import find_cameras
from arena_robot.nodes.adopt.graph import FoundGraph
from arena_robot.nodes.adopt.robot import find_arm, find_gripper

DEPTH = ('/parameter_events', '.*/replay/.*', '/replay/.*', '.*/depth/.*', '.*/point_cloud/.*',
         '.*/disparity/.*', '.*/confidence/.*')
HEAD = """\
# Written by `arena station --adopt` from a running graph. Check every line, then start it with
#
#   arena station --config {path} --session --console
#
# What each line is for: docs/in_your_stack.md.
"""


@dataclass(frozen=True)
class Proposal:
    """
    Parameters by node name; ``found`` and ``missing`` are sentences for a person.

    What is ``missing`` has to be mended before a session; ``remarks`` are to be read.
    """

    sections: dict[str, dict[str, Any]]
    found: tuple[str, ...]
    remarks: tuple[str, ...]
    missing: tuple[str, ...]

    def text(self, path: str) -> str:
        """Return the station file, with what is missing and the remarks as comments."""
        notes = [*(f'# MISSING: {one}\n' for one in self.missing),
                 *(f'# CHECK: {one}\n' for one in self.remarks)]
        content = {f'/**/{name}': {'ros__parameters': values}
                   for name, values in self.sections.items()}
        return (HEAD.format(path=path) + ('#\n' if notes else '') + ''.join(notes)
                + yaml.safe_dump(content, sort_keys=False, width=95))


def propose(graph: FoundGraph, station: str = 'my_lab') -> Proposal:
    """Return a station file for what is in a graph."""
    arm, gripper, cameras = find_arm(graph), find_gripper(graph), find_cameras(graph)
    parts = (arm, gripper, cameras)
    sections: dict[str, dict[str, Any]] = {}
    if arm.values:
        sections['arm_node'] = arm.values
    if gripper.values:
        sections['gripper_node'] = gripper.values
    sections['session_node'] = {
        'station': station, **cameras.values, 'data_dir': '~/arena', 'arena': 'local',
        'arena_file': 'config/policies.yaml'}
    broadcaster = arm.values.get('ros_control', {}).get('broadcaster', '')
    fast = [f'.*{broadcaster}/.*'] if broadcaster else []
    sections['recorder_node'] = {'exclude': [*DEPTH, *fast]}
    return Proposal(sections, _all(part.found for part in parts),
                    _all(part.remarks for part in parts), _all(part.missing for part in parts))


def _all(lists: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(one for each in lists for one in each)
