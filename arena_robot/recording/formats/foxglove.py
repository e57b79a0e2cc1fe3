"""
Both rollouts of a session beside each other in Foxglove: one bag, and a layout with its topics.

The topics of a rollout are below its slot, such as ``/A/arm_node/arm_state``. The rollout of B is
moved in time, so that both begin with their first step at once; stamps inside of messages stay.
"""

import heapq
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from arena_robot.core.files import write_text
from arena_robot.recording.bag.base import Message
from arena_robot.recording.bag.reader import BagReader
from arena_robot.recording.bag.writer import BagWriter
from arena_robot.recording.episode.views import JPEG, STEP, view_of
from arena_robot.recording.formats.exporting import ExportSource, new_folder, recorded_joints

LAYOUT = 'layout.json'
ARM, GRIPPER = 'arena_msgs/msg/ArmState', 'arena_msgs/msg/GripperState'
# Of each type, the plots: a title, and the fields that it draws; of some a line for each joint.
EACH_JOINT = (['q'], ['q_sent'])
PLOTS = {ARM: [('measured [rad]', EACH_JOINT[0])],
         STEP: [('accepted [rad]', EACH_JOINT[1]),
                ('timing [s]', ['loop_s', 'inference_s', 'late_s'])],
         GRIPPER: [('gripper', ['position'])]}


def write_foxglove(sources: Sequence[ExportSource], folder: Path) -> tuple[Path, Path]:
    """
    Write the rollouts of one session into a new folder; return its bag and its layout.

    Raises DataError when the folder is not empty, RecordingError for a bag that cannot be read.
    """
    new_folder(folder)
    with ExitStack() as stack:
        bags = {source.slot: BagReader(source.folder) for source in sources}
        for bag in bags.values():
            bag.open()
            stack.callback(bag.close)
        begin_ns = max(map(_begin_ns, bags.values()))
        with BagWriter(folder) as out:
            for slot, bag in bags.items():
                for topic in bag.topics.values():
                    out.add_topic(replace(topic, name=f'/{slot}{topic.name}'))
            for message in heapq.merge(*(_moved(slot, bag, begin_ns) for slot, bag in
                                         bags.items()), key=lambda message: message.log_ns):
                out.write(message)
        columns = {slot: _column(slot, bag) for slot, bag in bags.items()}
    panels = {name: panel for column in columns.values() for name, panel in column.items()}
    write_text(folder / LAYOUT, json.dumps({
        'configById': panels, 'globalVariables': {}, 'userNodes': {},
        'playbackConfig': {'speed': 1},
        'layout': _split('row', [_split('column', list(column)) for column in columns.values()])},
        indent=2) + '\n')
    return next(iter(sorted(folder.glob('*.mcap')))), folder / LAYOUT


def _begin_ns(bag: BagReader) -> int:
    """Return the time of the first step, of the first message where there is none."""
    steps = [topic.name for topic in bag.of_type(STEP)]
    first = next(bag.messages(steps), None) or next(bag.messages(), None)
    return first.log_ns if first else 0


def _moved(slot: str, bag: BagReader, begin_ns: int) -> Iterator[Message]:
    later_ns = begin_ns - _begin_ns(bag)
    for message in bag.messages():
        yield message._replace(topic=f'/{slot}{message.topic}', log_ns=message.log_ns + later_ns,
                               publish_ns=message.publish_ns + later_ns)


def _column(slot: str, bag: BagReader) -> dict[str, dict[str, Any]]:
    """Return the panels of a rollout by name: its pictures, then its plots."""
    pictures = [topic.name for topic in bag.of_type(JPEG)
                if not topic.is_latched and (view_of(topic.name) or ('', ''))[1] == 'left']
    panels: dict[str, dict[str, Any]] = {f'Image!{slot}{number}': {'imageMode': {
        'imageTopic': f'/{slot}{name}'}} for number, name in enumerate(pictures)}
    joints = recorded_joints(bag)
    for kind, plots in PLOTS.items():
        for topic in bag.of_type(kind):
            for title, names in plots:
                fields = [f'{name}[{k}]' for name in names for k in range(joints)] \
                    if names in EACH_JOINT else names
                panels[f'Plot!{slot} {topic.name} {title}'] = {
                    'title': f'{slot}: {title}', 'xAxisVal': 'timestamp', 'paths': [
                        {'value': f'/{slot}{topic.name}.{field}', 'label': field, 'enabled': True,
                         'timestampMethod': 'receiveTime'} for field in fields]}
    return panels


def _split(direction: str, parts: list[Any]) -> Any:
    """Return parts of equal size beside or below each other, as a layout nests them."""
    if len(parts) < 2:
        return parts[0] if parts else ''
    return {'direction': direction, 'first': parts[0], 'second': _split(direction, parts[1:]),
            'splitPercentage': 100 / len(parts)}
