"""
The tree of RoboArena's data dumps.

::

    global_metadata.yaml
    evaluation_sessions/<session>/metadata.yaml
    evaluation_sessions/<session>/A_<policy>/…_npz_file.npz  …_video_{left,right,wrist}.mp4

The npz holds one dictionary a step (``cartesian_position``, ``joint_position``,
``gripper_position``, ``action``) in the array ``data``; videos have one frame a step, 512 by 288.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from arena_robot.core.action import ActionSpace
from arena_robot.core.config import read_yaml
from arena_robot.core.errors import DataError
from arena_robot.core.files import write_text
from arena_robot.recording.formats.exporting import EpisodeExport, ExportRows
from arena_robot.recording.formats.session_words import ExportSource

SESSIONS = 'evaluation_sessions'
GLOBAL = 'global_metadata.yaml'
SIZE = (512, 288)


def export_roboarena(sources: list[ExportSource], output: Path) -> Path:
    """
    Add one session to the dump in ``output``, which is made if missing; return its folder.

    Raises DataError when the session is in the dump already.
    """
    words = sources[0].words
    folder = output / SESSIONS / words.session_id
    if folder.exists():
        raise DataError(f'{folder} exists already; exports do not overwrite')
    folder.mkdir(parents=True)
    policies, spaces = {}, {}
    for source in sources:
        with EpisodeExport(source) as episode:
            name = _file_name(words.policy(source.slot))
            _write_episode(episode, folder / f'{source.slot}_{name}', name)
            score = words.progress.get(source.slot)
            policies[source.slot] = {
                'policy_name': name, 'duration': len(episode.tracks.steps.index),
                'partial_success': score,
                'binary_success': None if score is None else int(score == 1.0)}
            spaces[name] = episode.rows().space
            prompt = episode.prompt
    write_text(folder / 'metadata.yaml', _yaml({
        'session_id': words.session_id, 'evaluation_type': 'A/B', 'valid': words.valid,
        'language_instruction': prompt, 'preference': words.preference or None,
        'longform_feedback': words.explanation or None, 'evaluator_name': words.evaluator,
        'evaluation_location': words.station, 'session_creation_timestamp': words.created,
        'session_completion_timestamp': words.updated, 'policies': policies}))
    _count(output, spaces)
    return folder


def _write_episode(episode: EpisodeExport, folder: Path, name: str) -> None:
    folder.mkdir()
    stem = f'{name}_{episode.source.words.session_id}'
    steps = _step_records(episode.rows())
    np.savez_compressed(folder / f'{stem}_npz_file.npz', data=np.array(steps, dtype=object))
    for view in episode.views():
        role = view.removesuffix('_left')
        episode.write_step_video(view, folder / f'{stem}_video_{role}.mp4', SIZE)


def _step_records(rows: ExportRows) -> list[dict[str, Any]]:
    """Return the steps; actions are kept as RoboArena's client sends them on."""
    actions = rows.requested.copy()
    actions[:, -1] = actions[:, -1] > 0.5
    if rows.space == ActionSpace.JOINT_VELOCITY:
        actions = actions.clip(-1.0, 1.0)
    return [{'cartesian_position': pose.tolist(), 'joint_position': joints.tolist(),
             'gripper_position': [float(gripper)], 'action': action.tolist()}
            for pose, joints, gripper, action in zip(
                rows.pose, rows.joints, rows.gripper, actions, strict=True)]


def _count(output: Path, spaces: dict[str, str]) -> None:
    """Bring ``global_metadata.yaml`` up to date with what is in the dump now."""
    path = output / GLOBAL
    known = read_yaml(path).get('policy_index', {}) if path.exists() else {}
    index = {**known, **{n: {'action_space': s} for n, s in spaces.items()}}
    sessions = sorted((output / SESSIONS).glob('*/metadata.yaml'))
    episodes = sum(len(read_yaml(p).get('policies') or {}) for p in sessions)
    write_text(path, _yaml({
        'total_sessions': len(sessions), 'total_policy_episodes': episodes,
        'policy_index': dict(sorted(index.items()))}))


def _file_name(name: str) -> str:
    return re.sub(r'[^A-Za-z0-9._-]', '_', name)


def _yaml(data: dict[str, Any]) -> str:
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
