"""
Export to LeRobotDataset v3.0: parquet tables and videos that episodes share, and ``meta/``.

``timestamp`` is the nominal time that the format requires (frame over the recorded rate); the
recorded time of each step is in ``true_timestamp``. Depth is a picture in the tables, a PNG of 16
bits in mm. ``action`` is the policy's request. A dataset
has one action space, robot and rate only: episodes of several kinds make a dataset each.

``meta/episodes`` has the verdict, the end and the origin of each episode. Where episodes were
audited, ``sarm_progress.parquet`` has the judge's progress at each frame, as LeRobot's RA-BC reads
it.
"""

import functools
import hashlib
import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from arena_robot import __version__
from arena_robot.core.action import ActionSpace
from arena_robot.core.episode import Slot
from arena_robot.core.errors import DataError
from arena_robot.core.files import write_text
from arena_robot.core.jpeg import to_png
from arena_robot.core.observation import Floats
from arena_robot.core.parallel import HERE, Workers
from arena_robot.recording.episode.frames import first_picture, read_video
from arena_robot.recording.formats.exporting import EpisodeExport, ExportSource, new_folder
from arena_robot.records.audit_file import audits_of, read_audit
from arena_robot.records.roboarena import said_of
from arena_robot.robots.action_spaces import POSE_NUMBERS, joint_numbers

# LeRobot's own limits: files of a folder, and MB of a table's and of a video's file.
CHUNK_FILES, TABLE_MB, VIDEO_MB = 1000, 100, 200
DATA = 'data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet'
VIDEO = 'videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4'
PROGRESS = 'sarm_progress.parquet'
QUANTILES = (0.01, 0.1, 0.5, 0.9, 0.99)
# Columns of meta/episodes that may be empty in every episode, which leaves no type to infer.
_OPTIONAL = {'partial_success': pa.float64(), 'success': pa.bool_(), 'preference': pa.string(),
             'time_to_success_s': pa.float64(), 'interventions': pa.float64(),
             'intervention_s': pa.float64()}

Numbers = NDArray[Any]
Stats = dict[str, Numbers]


def export_lerobot(sources: Sequence[ExportSource], output: Path,
                   at_work: Workers = HERE) -> list[Path]:
    """
    Write ``sources`` as one dataset in ``output``, or as one of each kind below it.

    A kind is an action space, a robot and a rate; a folder is named by those of them that differ.
    Returns the folders of the datasets. Raises DataError when episodes of a dataset differ in
    views or sizes, or ``output`` is not empty.
    """
    by_kind: dict[tuple[str, ...], list[ExportSource]] = {}
    keys: dict[tuple[str, ...], set[str]] = {}
    for source in sources:
        with EpisodeExport(source) as episode:
            kind = (episode.tracks.steps.space, episode.robot, f'{episode.rate_hz:g}hz')
            views = {_key(view) for view in (*episode.views(), *episode.depths())}
            _agree(source, views, keys.setdefault(kind, views))
            by_kind.setdefault(kind, []).append(source)
    if len(by_kind) < 2:
        return [_dataset(sources, output, at_work)]
    new_folder(output)
    differing = [column for column, words in enumerate(zip(*by_kind, strict=True))
                 if len(set(words)) > 1]
    return [_dataset(episodes, output / '_'.join(kind[column] for column in differing), at_work)
            for kind, episodes in by_kind.items()]


@dataclass(frozen=True)
class _EpisodePart:
    """
    What one episode adds to a dataset; ``videos`` by key are its own until they are joined.

    ``depths`` by key are tables with the column of that name.
    """

    prompt: str
    table: dict[str, Numbers]
    row: dict[str, Any]
    videos: dict[str, Path]
    pictures: dict[str, Stats]
    progress: dict[str, Floats]
    info: dict[str, Any]
    depths: dict[str, Path]


def _dataset(sources: Sequence[ExportSource], output: Path, at_work: Workers) -> Path:
    root = new_folder(output)
    with tempfile.TemporaryDirectory(dir=root, prefix='.unfinished-') as work:
        parts = at_work.map(functools.partial(_part, work=Path(work)), list(enumerate(sources)))
        for source, part in zip(sources, parts, strict=True):
            if part.info != parts[0].info:
                raise DataError(f'{source.folder} has arrays or pictures of another size than '
                                f'{sources[0].folder}; export it as a dataset of its own')
        tasks = list(dict.fromkeys(part.prompt for part in parts))
        _number(parts, tasks)
        _write_tables(root, parts)
        for key in parts[0].videos:
            _join_videos(root, key, parts)
    rows = pa.Table.from_pylist([{**part.row, **_flat(_part_stats(part))} for part in parts])
    for name, kind in _OPTIONAL.items():
        at = rows.column_names.index(name)
        rows = rows.set_column(at, name, rows[name].cast(kind))
    _write(root / 'meta/episodes/chunk-000/file-000.parquet', rows)
    _write(root / 'meta/tasks.parquet', _tasks(tasks))
    _write_progress(root, parts)
    whole = {name: _statistics(np.concatenate([part.table[name] for part in parts]))
             for name in parts[0].table}
    seen = {key: _merged([part.pictures[key] for part in parts]) for key in parts[0].pictures}
    _json(root / 'meta/stats.json', {
        name: {stat: value.tolist() for stat, value in stats.items()}
        for name, stats in {**whole, **seen}.items()})
    _json(root / 'meta/info.json', {
        **parts[0].info, 'total_episodes': len(parts), 'total_tasks': len(tasks),
        'total_frames': sum(part.row['length'] for part in parts),
        'splits': {'train': f'0:{len(parts)}'}})
    return root


def _part(numbered: tuple[int, ExportSource], work: Path) -> _EpisodePart:
    """Write the videos of an episode into ``work``; return the rest, its frames counted from 0."""
    number, source = numbered
    with EpisodeExport(source) as episode:
        videos = {_key(view): work / f'{number}_{view}.mp4' for view in episode.views()}
        for view in episode.views():
            episode.write_step_video(view, videos[_key(view)])
        table = _table(episode, number)
        every = max(1, round(episode.rate_hz))    # a picture a second is enough for its colours
        pictures = {key: _statistics(np.stack(
            [frame[::4, ::4] for frame in itertools.islice(read_video(path), 0, None, every)]
            ) / 255.0) for key, path in videos.items()}
        info = _info(episode, table, videos)
        depths = {_key(name): work / f'{number}_{name}.parquet' for name in episode.depths()}
        for name, (key, path) in zip(episode.depths(), depths.items(), strict=True):
            pictures[key], info['features'][key] = _write_depths(episode, name, path, every)
        return _EpisodePart(
            episode.prompt, table, _episode(episode, number, source), videos, pictures,
            _progress(episode, source.folder), info, depths)


def _write_depths(episode: EpisodeExport, name: str, path: Path, every: int
                  ) -> tuple[Stats, dict[str, Any]]:
    """Write the depth of each step as a column; return its statistics and feature."""
    some: list[Numbers] = []

    def files() -> Iterator[dict[str, Any]]:
        for row, depth in enumerate(episode.step_depths(name)):
            if row % every == 0:
                some.append(depth[::4, ::4, None])
                shape[:] = *depth.shape, 1
            yield {'bytes': to_png(depth), 'path': None}

    shape: list[int] = []
    column = pa.array(files(), pa.struct({'bytes': pa.binary(), 'path': pa.string()}))
    if len(column) != len(episode.tracks.steps.index):
        raise DataError(f'{episode.source.folder}: the depths of {name} do not follow the steps')
    _write(path, pa.table({_key(name): column}))
    return _statistics(np.stack(some)), {
        'dtype': 'image', 'shape': shape, 'names': ['height', 'width', 'channels'],
        'info': {'is_depth_map': True, 'depth_unit': 'mm'}}


def _agree(source: ExportSource, keys: set[str], before: set[str]) -> None:
    if keys != before:
        raise DataError(f"all episodes of a dataset show the same views; {source.folder} "
                        f"has {', '.join(sorted(keys)) or 'none'}, the ones before "
                        f"{', '.join(sorted(before)) or 'none'}")


def _key(view: str) -> str:
    return f"observation.images.{view.removesuffix('_left')}"


def _number(parts: Sequence[_EpisodePart], tasks: list[str]) -> None:
    """Number the frames of all episodes, and their tasks."""
    total = 0
    for part in parts:
        part.table['index'] += total
        part.table['task_index'][:] = tasks.index(part.prompt)
        part.row['dataset_from_index'] = total
        total += part.row['length']
        part.row['dataset_to_index'] = total


def _table(episode: EpisodeExport, number: int) -> dict[str, Numbers]:
    seen, steps = episode.observed(), episode.tracks.steps
    count = len(steps.index)
    frames = np.arange(count)
    state = np.column_stack([seen['joint_position'], seen['gripper_position']])
    return {'observation.state': state.astype(np.float32),
            'observation.cartesian_position': seen['cartesian_position'].astype(np.float32),
            'action': steps.requested.astype(np.float32),
            'action.joint_target': np.column_stack([steps.q_sent, steps.gripper_sent]
                                                   ).astype(np.float32),
            'timestamp': (frames / episode.rate_hz).astype(np.float32),
            'true_timestamp': (steps.stamps - steps.stamps[0]) * 1e-9,
            'frame_index': frames, 'episode_index': np.full(count, number),
            'index': frames.copy(), 'task_index': np.zeros_like(frames)}


def _columns(part: _EpisodePart) -> pa.Table:
    return pa.table({
        **{name: pa.array(values) if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(
            pa.array(values.ravel()), values.shape[1]) for name, values in part.table.items()},
        **{key: pq.read_table(path)[key] for key, path in part.depths.items()}})


def _files(sizes: Sequence[int], limit_mb: int) -> Iterator[tuple[tuple[int, int], list[int]]]:
    """Yield chunk and file, and the episodes that share it, in order, up to the limit."""
    file, held, bytes_held = 0, [0], sizes[0]
    for number, size in enumerate(sizes[1:], 1):
        if bytes_held + size > limit_mb * 2**20:
            yield divmod(file, CHUNK_FILES), held
            file, held, bytes_held = file + 1, [], 0
        held.append(number)
        bytes_held += size
    yield divmod(file, CHUNK_FILES), held


def _write_tables(root: Path, parts: Sequence[_EpisodePart]) -> None:
    sizes = [sum(values.nbytes for values in part.table.values()) + sum(
        path.stat().st_size for path in part.depths.values()) for part in parts]
    for (chunk, file), held in _files(sizes, TABLE_MB):
        _write(root / DATA.format(chunk_index=chunk, file_index=file),
               pa.concat_tables([_columns(parts[number]) for number in held]))
        for number in held:
            parts[number].row.update({'data/chunk_index': chunk, 'data/file_index': file})


def _join_videos(root: Path, key: str, parts: Sequence[_EpisodePart]) -> None:
    """Join the videos of a view to files, without encoding them again."""
    sizes = [part.videos[key].stat().st_size for part in parts]
    for (chunk, file), held in _files(sizes, VIDEO_MB):
        path = root / VIDEO.format(video_key=key, chunk_index=chunk, file_index=file)
        path.parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(path), 'w', options={'movflags': '+faststart'}) as out:
            stream, begin_s = None, 0.0
            for number in held:
                row, info = parts[number].row, parts[number].info
                with av.open(str(parts[number].videos[key])) as video:
                    source = video.streams.video[0]
                    stream = stream or out.add_stream_from_template(source)
                    stream.time_base = source.time_base
                    for packet in video.demux(source):
                        if packet.pts is not None:
                            packet.pts += round(begin_s / source.time_base)
                            packet.dts, packet.stream = packet.pts, stream
                            out.mux(packet)
                ends_s = begin_s + row['length'] / info['fps']
                row.update({
                    f'videos/{key}/chunk_index': chunk, f'videos/{key}/file_index': file,
                    f'videos/{key}/from_timestamp': begin_s, f'videos/{key}/to_timestamp': ends_s})
                begin_s = ends_s


def _episode(episode: EpisodeExport, number: int, source: ExportSource) -> dict[str, Any]:
    """Return the episode's row: length and task, verdict and end, origin."""
    session, slot = source.session, source.slot
    preference = session.verdict.preference
    total = hashlib.sha256()
    for file in episode.bag.metadata.files:
        total.update((source.folder / file.path).read_bytes())
    return {
        'episode_index': number, 'tasks': [episode.prompt],
        'length': len(episode.tracks.steps.index),
        'meta/episodes/chunk_index': 0, 'meta/episodes/file_index': 0,
        'partial_success': session.progress(slot),
        **said_of(session.verdict, Slot(slot)), 'success': source.success,
        'preference': preference.value if preference else None,
        'valid': session.verdict.valid, 'unsafe': session.verdict.of_slot('unsafe', slot),
        'notes': session.verdict.of_slot('notes', slot),
        'explanation': session.verdict.explanation,
        'end_reason': str(episode.tracks.info.get('end_reason', '')),
        'session_id': session.session_id, 'slot': slot, 'policy': session.policy(slot),
        'station': session.station, 'bag_sha256': total.hexdigest()}


def _progress(episode: EpisodeExport, folder: Path) -> dict[str, Floats]:
    """Return the progress at each step by judge; a judge's times begin with the first step."""
    steps = episode.tracks.steps.stamps
    return {audit.judge: np.interp((steps - steps[0]) * 1e-9, audit.times_s, audit.phi)
            for audit in map(read_audit, audits_of(folder)) if audit.valid}


def _write_progress(root: Path, parts: Sequence[_EpisodePart]) -> None:
    """Write the progress by the judge who audited the most episodes; of the others none."""
    judges = Counter(judge for part in parts for judge in sorted(part.progress))
    if not judges:
        return
    judge = judges.most_common(1)[0][0]
    audited = [part for part in parts if judge in part.progress]
    phi = np.concatenate([part.progress[judge] for part in audited]).astype(np.float32)
    table = pa.table({
        **{name: np.concatenate([part.table[name] for part in audited])
           for name in ('index', 'episode_index', 'frame_index')},
        'progress_sparse': phi, 'progress_dense': phi})
    _write(root / PROGRESS, table.replace_schema_metadata({'reward_model_path': judge}))


def _tasks(tasks: list[str]) -> pa.Table:
    """Return the table of tasks, with the index that pandas readers of the format look up."""
    table = pa.table({'task_index': pa.array(range(len(tasks)), pa.int64()), 'task': tasks})
    columns = [{'name': n, 'field_name': n, 'pandas_type': p, 'numpy_type': t, 'metadata': None}
               for n, p, t in (('task_index', 'int64', 'int64'), ('task', 'unicode', 'object'))]
    pandas = {'index_columns': ['task'], 'column_indexes': [], 'columns': columns,
              'pandas_version': '2.2.0'}
    return table.replace_schema_metadata({'pandas': json.dumps(pandas)})


def _statistics(values: Numbers) -> Stats:
    """Return statistics (D,) of (N, D) or (N,), or (C, 1, 1) of pictures (N, H, W, C)."""
    count, pictures = len(values), values.ndim == 4
    plain = values.reshape(-1, values.shape[-1] if pictures else values[0].size).astype(np.float64)
    levels = np.quantile(plain, QUANTILES, axis=0, method='inverted_cdf')    # as LeRobot's
    stats = {'min': plain.min(0), 'max': plain.max(0), 'mean': plain.mean(0),
             'std': plain.std(0), **{f'q{round(100 * q):02d}': level
                                     for q, level in zip(QUANTILES, levels, strict=True)}}
    if pictures:
        stats = {name: value.reshape(-1, 1, 1) for name, value in stats.items()}
    return {**stats, 'count': np.array([count])}


def _merged(parts: Sequence[Stats]) -> Stats:
    """Return the statistics of all pictures; quantiles, as LeRobot's, are means of the parts'."""
    counts = [int(part['count'][0]) for part in parts]
    mean = np.average([part['mean'] for part in parts], 0, counts)
    spread = np.average([part['std'] ** 2 + (part['mean'] - mean) ** 2 for part in parts],
                        0, counts)
    return {name: np.average([part[name] for part in parts], 0, counts) for name in parts[0]} | {
        'min': np.min([part['min'] for part in parts], 0),
        'max': np.max([part['max'] for part in parts], 0),
        'mean': mean, 'std': np.sqrt(spread), 'count': np.array([sum(counts)])}


def _part_stats(part: _EpisodePart) -> dict[str, Stats]:
    return {**{name: _statistics(values) for name, values in part.table.items()}, **part.pictures}


def _flat(stats: Mapping[str, Stats]) -> dict[str, Any]:
    return {f'stats/{name}/{stat}': value.tolist()
            for name, values in stats.items() for stat, value in values.items()}


def _info(episode: EpisodeExport, table: Mapping[str, Numbers], videos: Mapping[str, Path]
          ) -> dict[str, Any]:
    """Return what ``meta/info.json`` says of each episode of a dataset alike."""
    space, rate = episode.tracks.steps.space, episode.rate_hz
    fps = int(rate) if rate.is_integer() else rate
    joints = joint_numbers(episode.tracks.steps.q_sent.shape[1])
    names = {'observation.state': [*joints, 'gripper'],
             'action.joint_target': [*joints, 'gripper'],
             'observation.cartesian_position': list(POSE_NUMBERS),
             'action': [*ActionSpace(space).row.sized(('rad',) * len(joints)).names, 'gripper']}
    features: dict[str, Any] = {
        name: {'dtype': str(values.dtype), 'shape': [values.shape[1] if values.ndim > 1 else 1],
               'names': names.get(name), 'fps': fps} for name, values in table.items()}
    for key, path in videos.items():
        height, width = first_picture(path).shape[:2]
        features[key] = {'dtype': 'video', 'shape': [height, width, 3],
                         'names': ['height', 'width', 'channels'], 'info': {
                             'video.height': height, 'video.width': width, 'video.fps': fps,
                             'video.channels': 3, 'video.codec': 'h264',
                             'video.pix_fmt': 'yuv420p', 'video.is_depth_map': False,
                             'has_audio': False}}
    return {'codebase_version': 'v3.0', 'robot_type': episode.robot,
            'chunks_size': CHUNK_FILES, 'data_files_size_in_mb': TABLE_MB,
            'video_files_size_in_mb': VIDEO_MB, 'fps': fps, 'data_path': DATA,
            'video_path': VIDEO, 'action_space': space,
            'exported_by': f'arena_robot {__version__}', 'features': features}


def _write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def _json(path: Path, data: dict[str, Any]) -> None:
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False) + '\n')
