"""
``metadata.yaml`` of a rosbag2 bag, version 9 (ROS 2 Jazzy), written and read.

rosbag2 decodes every field of a QoS profile without defaults, so all nine are always written;
an infinite duration is 9223372036 s and 854775807 ns. Times are integer nanoseconds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from arena_robot.core.config import parse_yaml, read_yaml
from arena_robot.core.errors import ConfigError, RecordingError
from arena_robot.core.files import write_text
from arena_robot.recording.bag.base import Custom, Qos, Topic

VERSION = 9
ROOT = 'rosbag2_bagfile_information'
FILE_NAME = 'metadata.yaml'


@dataclass(frozen=True)
class BagFile:
    """One file of a bag: its name, first stamp, duration and number of messages."""

    path: str
    start_ns: int
    duration_ns: int
    message_count: int


@dataclass(frozen=True)
class BagMetadata:
    """Contents of ``metadata.yaml``; ``counts`` has the number of messages of each topic."""

    files: tuple[BagFile, ...]
    topics: tuple[Topic, ...]
    counts: Mapping[str, int]
    custom: Custom = field(default_factory=dict)
    ros_distro: str = 'jazzy'

    @property
    def message_count(self) -> int:
        """Messages in all files."""
        return sum(f.message_count for f in self.files)

    @property
    def start_ns(self) -> int:
        """Stamp of the first message; 0 in an empty bag."""
        return min((f.start_ns for f in self.files if f.message_count), default=0)

    @property
    def duration_ns(self) -> int:
        """Time from the first to the last message."""
        ends = [f.start_ns + f.duration_ns for f in self.files if f.message_count]
        return max(ends) - self.start_ns if ends else 0


def qos_to_map(qos: Qos) -> dict[str, Any]:
    """Return a profile as rosbag2 version 9 writes it."""
    return {
        'history': qos.history,
        'depth': qos.depth,
        'reliability': qos.reliability,
        'durability': qos.durability,
        'deadline': _time_map(qos.deadline_ns),
        'lifespan': _time_map(qos.lifespan_ns),
        'liveliness': qos.liveliness,
        'liveliness_lease_duration': _time_map(qos.liveliness_lease_ns),
        'avoid_ros_namespace_conventions': qos.avoid_ros_namespace_conventions,
    }


def qos_to_text(profiles: Iterable[Qos]) -> str:
    """Return profiles as the YAML text that an MCAP channel carries."""
    return yaml.safe_dump([qos_to_map(q) for q in profiles], sort_keys=False)


def qos_from_maps(items: Any) -> tuple[Qos, ...]:
    """
    Return the profiles in a list of version 9 maps, or in the YAML text of one.

    Raises RecordingError when a field is missing or has the wrong type.
    """
    try:
        return _qos_from_text(items) if isinstance(items, str) else _qos_from(items)
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise RecordingError(f'offered_qos_profiles cannot be read: {error!r}') from error


@lru_cache(maxsize=256)
def _qos_from_text(text: str) -> tuple[Qos, ...]:
    return _qos_from(parse_yaml(text))


def _qos_from(maps: Any) -> tuple[Qos, ...]:
    return tuple(_qos_from_map(m) for m in maps or ())


def _qos_from_map(m: Mapping[str, Any]) -> Qos:
    return Qos(
        reliability=str(m['reliability']), durability=str(m['durability']),
        history=str(m['history']), depth=int(m['depth']),
        deadline_ns=_time_ns(m['deadline']), lifespan_ns=_time_ns(m['lifespan']),
        liveliness=str(m['liveliness']),
        liveliness_lease_ns=_time_ns(m['liveliness_lease_duration']),
        avoid_ros_namespace_conventions=bool(m['avoid_ros_namespace_conventions']))


def _time_map(ns: int) -> dict[str, int]:
    sec, nsec = divmod(ns, 10**9)
    return {'sec': sec, 'nsec': nsec}


def _time_ns(m: Mapping[str, Any]) -> int:
    return int(m['sec']) * 10**9 + int(m['nsec'])


def to_text(metadata: BagMetadata, root: bool = True) -> str:
    """Return the whole ``metadata.yaml``, or the part below its root as in MCAP records."""
    body: dict[str, Any] = {
        'version': VERSION,
        'storage_identifier': 'mcap',
        'duration': {'nanoseconds': metadata.duration_ns},
        'starting_time': {'nanoseconds_since_epoch': metadata.start_ns},
        'message_count': metadata.message_count,
        'topics_with_message_count': [
            {'topic_metadata': _topic_map(topic),
             'message_count': metadata.counts.get(topic.name, 0)} for topic in metadata.topics],
        'compression_format': '',
        'compression_mode': '',
        'relative_file_paths': [f.path for f in metadata.files],
        'files': [{'path': f.path,
                   'starting_time': {'nanoseconds_since_epoch': f.start_ns},
                   'duration': {'nanoseconds': f.duration_ns},
                   'message_count': f.message_count} for f in metadata.files],
        'custom_data': dict(metadata.custom) or None,
        'ros_distro': metadata.ros_distro,
    }
    return yaml.safe_dump({ROOT: body} if root else body, sort_keys=False, allow_unicode=True,
                          width=1000)


def _topic_map(topic: Topic) -> dict[str, Any]:
    return {'name': topic.name, 'type': topic.type, 'serialization_format': 'cdr',
            'offered_qos_profiles': [qos_to_map(q) for q in topic.qos],
            'type_description_hash': topic.type_hash}


def write(folder: Path, metadata: BagMetadata) -> None:
    """Write ``metadata.yaml`` atomically."""
    target = folder / FILE_NAME
    try:
        write_text(target, to_text(metadata))
    except OSError as error:
        raise RecordingError(f'cannot write {target}: {error.strerror or error}') from error


def read(folder: Path) -> BagMetadata:
    """
    Return the contents of ``metadata.yaml`` in ``folder``.

    Definitions are not in it and stay empty. Raises RecordingError when the file is missing or
    does not describe an MCAP bag.
    """
    path = folder / FILE_NAME
    try:
        body = read_yaml(path)[ROOT]
        if body['storage_identifier'] != 'mcap':
            raise RecordingError(f"{path} describes a {body['storage_identifier']} bag; only "
                                 'mcap bags are read here (ros2 bag convert makes one)')
        topics = [(t['topic_metadata'], int(t['message_count']))
                  for t in body['topics_with_message_count']]
        return BagMetadata(
            files=tuple(_file(f) for f in body['files']),
            topics=tuple(_topic(t) for t, _ in topics),
            counts={t['name']: n for t, n in topics},
            custom={str(k): str(v) for k, v in (body.get('custom_data') or {}).items()},
            ros_distro=str(body.get('ros_distro', '')))
    except ConfigError as error:
        raise RecordingError(f'{error}; recover a bag that was cut off with '
                             f'`arena episode recover {folder}`') from error
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(f'{path} is not the metadata of a bag: {error!r}') from error


def _file(f: Mapping[str, Any]) -> BagFile:
    return BagFile(str(f['path']), int(f['starting_time']['nanoseconds_since_epoch']),
                   int(f['duration']['nanoseconds']), int(f['message_count']))


def _topic(t: Mapping[str, Any]) -> Topic:
    return Topic(str(t['name']), str(t['type']), '', str(t.get('type_description_hash', '')),
                 qos_from_maps(t['offered_qos_profiles']))
