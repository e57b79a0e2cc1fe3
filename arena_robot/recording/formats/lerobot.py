"""
Export to LeRobotDataset v3.0: parquet tables, one video per view and episode, ``meta/``.

``timestamp`` is the nominal time that the format requires (frame over 15); the recorded time of
each step is in ``true_timestamp``. ``action`` is the policy's request, so a dataset has one action
space only: episodes of several make a dataset each.
"""

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from arena_robot.core.action import ActionSpace
from arena_robot.core.episode import CONTROL_RATE_HZ
from arena_robot.core.errors import DataError
from arena_robot.core.files import write_text
from arena_robot.core.observation import Pixels
from arena_robot.core.parallel import HERE, Workers
from arena_robot.recording.episode.frames import read_video
from arena_robot.recording.formats.exporting import (
    EpisodeExport,
    ExportSource,
    new_folder,
    video_shape,
)
from arena_robot.robots.action_spaces import JOINT_NUMBERS, POSE_NUMBERS

FPS = int(CONTROL_RATE_HZ)
_SAMPLE_EVERY = FPS    # a picture a second is enough for the statistics of its colours
DATA = 'data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet'
VIDEO = 'videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4'


def export_lerobot(sources: Sequence[ExportSource], output: Path,
                   at_work: Workers = HERE) -> list[Path]:
    """
    Write ``sources`` as one dataset in ``output``, or as one for each action space below it.

    Returns the folders of the datasets. Raises DataError when episodes of a dataset differ in
    views, or ``output`` is not empty.
    """
    by_space: dict[str, list[ExportSource]] = {}
    keys: dict[str, set[str]] = {}
    for source in sources:
        with EpisodeExport(source) as episode:
            space = episode.tracks.steps.space
            views = {_key(view) for view in episode.views()}
            _agree(source, views, keys.setdefault(space, views))
            by_space.setdefault(space, []).append(source)
    if len(by_space) < 2:
        return [_dataset(sources, output, at_work)]
    new_folder(output)
    return [_dataset(episodes, output / space, at_work) for space, episodes in by_space.items()]


@dataclass(frozen=True)
class _EpisodePart:
    """What one episode adds to a dataset; its videos are written already."""

    prompt: str
    space: str
    table: dict[str, Any]
    row: dict[str, Any]
    shapes: dict[str, tuple[int, int]]
    samples: dict[str, list[Pixels]]


def _dataset(sources: Sequence[ExportSource], output: Path, at_work: Workers) -> Path:
    root = new_folder(output)
    parts = at_work.map(functools.partial(_part, root=root), list(enumerate(sources)))
    tasks = list(dict.fromkeys(part.prompt for part in parts))
    samples: dict[str, list[Pixels]] = {}
    total = 0
    for number, part in enumerate(parts):
        count = len(part.table['index'])
        part.table['index'] += total
        part.table['task_index'][:] = tasks.index(part.prompt)
        part.row.update({'dataset_from_index': total, 'dataset_to_index': total + count})
        total += count
        for key, frames in part.samples.items():
            samples.setdefault(key, []).extend(frames)
        _write(root / DATA.format(chunk_index=0, file_index=number),
               pa.table(_columns(part.table)))
    tables = [part.table for part in parts]
    _write(root / 'meta/episodes/chunk-000/file-000.parquet',
           pa.Table.from_pylist([part.row for part in parts]))
    _write(root / 'meta/tasks.parquet', _tasks(tasks))
    _json(root / 'meta/stats.json', {**_stats(tables), **_picture_stats(samples)})
    shapes = {key: shape for part in parts for key, shape in part.shapes.items()}
    _json(root / 'meta/info.json', _info(tables, shapes, parts[0].space, len(tasks)))
    return root


def _part(numbered: tuple[int, ExportSource], root: Path) -> _EpisodePart:
    """Write the videos of an episode; return the rest, its frames counted from 0."""
    number, source = numbered
    samples: dict[str, list[Pixels]] = {}
    with EpisodeExport(source) as episode:
        shapes = _videos(episode, root, number, samples)
        return _EpisodePart(
            episode.prompt, episode.tracks.steps.space, _table(episode, number),
            _episode(episode, number, list(shapes), source), shapes, samples)


def _agree(source: ExportSource, keys: set[str], before: set[str]) -> None:
    if keys != before:
        raise DataError(f"all episodes of a dataset show the same views; {source.folder} "
                        f"has {', '.join(sorted(keys)) or 'none'}, the ones before "
                        f"{', '.join(sorted(before)) or 'none'}")


def _key(view: str) -> str:
    return f"observation.images.{view.removesuffix('_left')}"


def _table(episode: EpisodeExport, number: int) -> dict[str, Any]:
    rows, steps = episode.rows(), episode.tracks.steps
    count = len(steps.index)
    frames = np.arange(count)
    state = np.column_stack([rows.joints, rows.gripper])
    return {'observation.state': state.astype(np.float32),
            'observation.cartesian_position': rows.pose.astype(np.float32),
            'action': rows.requested.astype(np.float32),
            'action.joint_target': np.column_stack([steps.q_sent, steps.gripper_sent]
                                                   ).astype(np.float32),
            'timestamp': (frames / FPS).astype(np.float32),
            'true_timestamp': (steps.stamps - steps.stamps[0]) * 1e-9,
            'frame_index': frames, 'episode_index': np.full(count, number),
            'index': frames.copy(), 'task_index': np.zeros_like(frames)}


def _columns(table: dict[str, Any]) -> dict[str, pa.Array]:
    return {name: pa.array(values) if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(
        pa.array(values.ravel()), values.shape[1]) for name, values in table.items()}


def _videos(episode: EpisodeExport, root: Path, number: int, samples: dict[str, list[Pixels]]
            ) -> dict[str, tuple[int, int]]:
    shapes = {}
    for view in episode.views():
        path = root / VIDEO.format(video_key=_key(view), chunk_index=0, file_index=number)
        path.parent.mkdir(parents=True, exist_ok=True)
        episode.write_step_video(view, path)
        shapes[_key(view)] = video_shape(path)
        every = read_video(path)
        samples.setdefault(_key(view), []).extend(
            frame[::4, ::4] for k, frame in enumerate(every) if k % _SAMPLE_EVERY == 0)
    return shapes


def _episode(episode: EpisodeExport, number: int, keys: list[str], source: ExportSource
             ) -> dict[str, Any]:
    count = len(episode.tracks.steps.index)
    row: dict[str, Any] = {
        'episode_index': number, 'tasks': [episode.prompt], 'length': count,
        'data/chunk_index': 0, 'data/file_index': number,
        'dataset_from_index': 0, 'dataset_to_index': count,
        'meta/episodes/chunk_index': 0, 'meta/episodes/file_index': 0,
        'session_id': source.session.session_id, 'slot': source.slot,
        'policy': source.session.policy(source.slot),
        'partial_success': source.session.progress(source.slot)}
    for key in keys:
        row.update({f'videos/{key}/chunk_index': 0, f'videos/{key}/file_index': number,
                    f'videos/{key}/from_timestamp': 0.0,
                    f'videos/{key}/to_timestamp': count / FPS})
    return row


def _tasks(tasks: list[str]) -> pa.Table:
    """Return the table of tasks, with the index that pandas readers of the format look up."""
    table = pa.table({'task_index': pa.array(range(len(tasks)), pa.int64()), 'task': tasks})
    columns = [{'name': n, 'field_name': n, 'pandas_type': p, 'numpy_type': t, 'metadata': None}
               for n, p, t in (('task_index', 'int64', 'int64'), ('task', 'unicode', 'object'))]
    pandas = {'index_columns': ['task'], 'column_indexes': [], 'columns': columns,
              'pandas_version': '2.2.0'}
    return table.replace_schema_metadata({'pandas': json.dumps(pandas)})


def _stats(tables: list[dict[str, Any]]) -> dict[str, Any]:
    stats = {}
    for name in tables[0]:
        values = np.concatenate([t[name] for t in tables]).astype(np.float64)
        values = values.reshape(len(values), -1)
        stats[name] = {'min': values.min(0).tolist(), 'max': values.max(0).tolist(),
                       'mean': values.mean(0).tolist(), 'std': values.std(0).tolist(),
                       'count': [len(values)]}
    return stats


def _picture_stats(samples: dict[str, list[Pixels]]) -> dict[str, Any]:
    """Return statistics of 0 to 1 by channel, shaped (3, 1, 1), over the sampled pictures."""
    stats = {}
    for key, frames in samples.items():
        plain = np.stack(frames).reshape(-1, 3) / 255.0
        stats[key] = {'count': [len(frames)], **{
            name: getattr(plain, name)(0).reshape(3, 1, 1).tolist()
            for name in ('min', 'max', 'mean', 'std')}}
    return stats


def _info(tables: list[dict[str, Any]], shapes: dict[str, tuple[int, int]], space: str,
          tasks: int) -> dict[str, Any]:
    first, episodes = tables[0], len(tables)
    names = {'observation.state': [*JOINT_NUMBERS, 'gripper'],
             'action.joint_target': [*JOINT_NUMBERS, 'gripper'],
             'observation.cartesian_position': list(POSE_NUMBERS),
             'action': [*ActionSpace(space).row.names, 'gripper']}
    features: dict[str, Any] = {
        name: {'dtype': str(values.dtype), 'shape': [values.shape[1] if values.ndim > 1 else 1],
               'names': names.get(name), 'fps': FPS} for name, values in first.items()}
    for key, (height, width) in shapes.items():
        features[key] = {'dtype': 'video', 'shape': [height, width, 3],
                         'names': ['height', 'width', 'channels'], 'info': {
                             'video.height': height, 'video.width': width, 'video.fps': FPS,
                             'video.channels': 3, 'video.codec': 'h264',
                             'video.pix_fmt': 'yuv420p', 'video.is_depth_map': False,
                             'has_audio': False}}
    return {'codebase_version': 'v3.0', 'robot_type': 'panda_droid', 'total_episodes': episodes,
            'total_frames': sum(len(t['index']) for t in tables), 'total_tasks': tasks,
            'chunks_size': 1000, 'data_files_size_in_mb': 100, 'video_files_size_in_mb': 200,
            'fps': FPS, 'splits': {'train': f'0:{episodes}'}, 'data_path': DATA,
            'video_path': VIDEO, 'action_space': space, 'features': features}


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def _json(path: Path, data: dict[str, Any]) -> None:
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False) + '\n')
