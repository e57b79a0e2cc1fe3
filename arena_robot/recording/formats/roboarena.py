"""
Episodes in the tree of RoboArena's data dumps; the metadata beside them are in `records`.

A policy's folder ``A_<policy>`` holds ``…_npz_file.npz`` and ``…_video_{left,right,wrist}.mp4``.
The npz has one dictionary per step (``cartesian_position``, ``joint_position``,
``gripper_position``, ``action``) in the array ``data``; videos have one frame per step, 512 by
288.
"""

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from arena_robot.core.action import ActionSpace
from arena_robot.core.episode import Slot
from arena_robot.core.errors import DataError
from arena_robot.recording.formats.exporting import EpisodeExport, ExportSource
from arena_robot.records.roboarena import RoboArenaRollout, RoboArenaSession, said_of
from arena_robot.records.roboarena_files import session_folder

SIZE = (512, 288)


@contextlib.contextmanager
def unfinished(output: Path) -> Iterator[Path]:
    """Yield a folder in ``output`` for sessions that are not whole; it is removed at the end."""
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output, prefix='.unfinished-') as folder:
        yield Path(folder)


def write_rollouts(sources: list[ExportSource], output: Path, work: Path
                   ) -> tuple[RoboArenaSession, dict[str, str], Path]:
    """
    Write the files of a session's rollouts below ``work``; return what ``add_session`` takes.

    Sessions may be written at the same time, but added to the dump one after the other only.
    Raises DataError when the dump in ``output`` has the session.
    """
    session = sources[0].session
    home = session_folder(output, session.session_id)
    if home.exists():
        raise DataError(f'{home} exists already; exports do not overwrite')
    folder = work / session.session_id
    folder.mkdir()
    rollouts, spaces = [], {}
    for source in sources:
        with EpisodeExport(source) as episode:
            name = _file_name(session.policy(source.slot))
            _write_episode(episode, folder / f'{source.slot}_{name}', name)
            rollouts.append(RoboArenaRollout(
                name, source.slot, session.progress(source.slot),
                len(episode.tracks.steps.index), episode.prompt, camera=session.third_person,
                **said_of(session.verdict, Slot(source.slot))))
            spaces[name] = episode.tracks.steps.space
    return RoboArenaSession(
        session.session_id, _file_name(session.policy('A')), _file_name(session.policy('B')),
        session.verdict.valid, session.verdict.preference, session.station, session.evaluator,
        session.created, session.updated, session.verdict.explanation,
        rollouts=tuple(rollouts)), spaces, folder


def _write_episode(episode: EpisodeExport, folder: Path, name: str) -> None:
    folder.mkdir()
    stem = f'{name}_{episode.source.session.session_id}'
    steps = _step_records(episode)
    np.savez_compressed(folder / f'{stem}_npz_file.npz', data=np.array(steps, dtype=object))
    for view in episode.views():
        role = view.removesuffix('_left')
        episode.write_step_video(view, folder / f'{stem}_video_{role}.mp4', SIZE)


def _step_records(episode: EpisodeExport) -> list[dict[str, Any]]:
    """Return the steps; actions are kept as RoboArena's client sends them on."""
    seen, steps = episode.observed(), episode.tracks.steps
    actions = steps.requested.copy()
    actions[:, -1] = actions[:, -1] > 0.5
    if steps.space == ActionSpace.JOINT_VELOCITY:
        actions = actions.clip(-1.0, 1.0)
    return [{'cartesian_position': pose.tolist(), 'joint_position': joints.tolist(),
             'gripper_position': [float(gripper)], 'action': action.tolist()}
            for pose, joints, gripper, action in zip(
                seen['cartesian_position'], seen['joint_position'], seen['gripper_position'],
                actions, strict=True)]


def _file_name(name: str) -> str:
    return re.sub(r'[^A-Za-z0-9._-]', '_', name)
