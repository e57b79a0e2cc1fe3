"""The parameters of recorder_node."""

from dataclasses import dataclass

from arena_robot.nodes.lib.parameters import Parameters, param
from arena_robot.nodes.recorder.topics import IMAGES, Choice

_MIB = 2**20
LEVELS = {'none': 0, 'zstd_fast': 1, 'zstd_small': 15}


@dataclass(frozen=True, kw_only=True)
class RecorderParams(Parameters):
    """The parameters of recorder_node."""

    output_dir: str = param(
        '~/arena/sessions',
        'folder of the sessions; an episode goes to <output_dir>/<session id>/<slot>')
    topics: tuple[str, ...] = param(('.*',), 'regular expressions of the topics to record')
    exclude: tuple[str, ...] = param(
        Choice().exclude, 'regular expressions of the topics to leave out')
    images: str = param(
        'jpeg', 'which image topics to record; jpeg: raw ones only of views without JPEGs that '
        'the session uses', choices=tuple(IMAGES))
    qos_profile_overrides_path: str = param(
        '', 'file with QoS profiles by topic, as ros2 bag takes')
    max_cache_size: int = param(
        200 * _MIB, 'limit of data waiting for the disk', _MIB, 2**34, unit='B')
    compression: str = param(
        'zstd_fast', 'compression of state; images are stored as received', choices=tuple(LEVELS))
    chunk_size: int = param(2 * _MIB, 'size of a chunk in the file', 2**16, 2**26, unit='B')
    flush_period: float = param(
        0.5, 'time between two writes to the disk; what kill -9 loses', 0.05, 10.0, unit='s')
    min_free_disk: float = param(
        4.0, 'free disk space required to start a recording', 0.0, 1e6, unit='GiB')
    settle_time: float = param(
        0.1, 'wait for late messages before closing a bag', 0.0, 5.0, unit='s')
    derive: bool = param(True, 'write steps.npz, videos and episode.json after each recording')
