"""
RoboArena's data dumps: folder tree and metadata, without recorded steps and videos.

::

    global_metadata.yaml
    evaluation_sessions/<session>/metadata.yaml
    evaluation_sessions/<session>/A_<policy>/…      steps and videos; see recording/formats

The files carry no version; unknown keys are kept.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from arena_robot.core.config import read_yaml
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import move, write_text
from arena_robot.records.roboarena import (
    SLOTS,
    RoboArenaData,
    RoboArenaRollout,
    RoboArenaSession,
    build_rollout,
    build_session,
    solved,
    usable,
    with_rollouts,
)

SESSIONS_FOLDER = 'evaluation_sessions'
GLOBAL_FILE = 'global_metadata.yaml'
SESSION_GLOB = '*/metadata.yaml'


def is_dump(folder: Path) -> bool:
    """Return whether a folder is a data dump."""
    return (folder / SESSIONS_FOLDER).is_dir()


def read_dump(folder: Path) -> RoboArenaData:
    """
    Return the sessions of a data dump, by name.

    An invalid session is left out and listed in ``refused``. Raises DataError when none is left.
    Recorded steps are pickled objects, which are never loaded from foreign files.
    """
    found, refused = [], []
    for path in sorted((folder / SESSIONS_FOLDER).glob(SESSION_GLOB)):
        try:
            found.append(_session(path))
        except (ConfigError, DataError) as error:
            refused.append(str(error) if str(path) in str(error) else f'{path}: {error}')
    return usable(found, refused)


def dump_totals(folder: Path) -> dict[str, int]:
    """Return how many sessions and rollouts a dump says that it holds; empty without a file."""
    path = folder / GLOBAL_FILE
    data = read_yaml(path) if path.exists() else {}
    return {k: int(data[k]) for k in ('total_sessions', 'total_policy_episodes') if k in data}


def session_folder(dump: Path, session_id: str) -> Path:
    """Return where a session of a dump is."""
    return dump / SESSIONS_FOLDER / session_id


def add_session(dump: Path, session: RoboArenaSession, spaces: Mapping[str, str],
                files: Path) -> Path:
    """
    Move a session's folder ``files`` into the dump, with its metadata, and return where it is.

    ``spaces`` are action spaces by policy. Raises DataError when the dump has the session.
    """
    folder = session_folder(dump, session.session_id)
    if folder.exists():
        raise DataError(f'{folder} exists already; exports do not overwrite')
    write_text(files / SESSION_GLOB.removeprefix('*/'), _yaml({
        'session_id': session.session_id, 'evaluation_type': session.evaluation_type,
        'valid': session.valid, 'language_instruction': session.prompt,
        'preference': session.preference.value if session.preference else None,
        'longform_feedback': session.explanation or None, 'evaluator_name': session.evaluator,
        'evaluation_location': session.institution,
        'session_creation_timestamp': session.created,
        'session_completion_timestamp': session.completed,
        'policies': {slot: {'policy_name': name} for slot, name in session.policies().items()}
        | {r.letter: _policy(r) for r in session.rollouts}}))
    folder.parent.mkdir(parents=True, exist_ok=True)
    move(files, folder)
    _count(dump, spaces)
    return folder


def _policy(rollout: RoboArenaRollout) -> dict[str, Any]:
    success = solved(rollout.progress) if rollout.success is None else rollout.success
    return {'policy_name': rollout.policy, 'duration': rollout.steps,
            **({'third_person_camera': rollout.camera} if rollout.camera else {}),
            'partial_success': rollout.progress,
            'binary_success': None if success is None else int(success)}


def _session(path: Path) -> RoboArenaSession:
    data = read_yaml(path)
    policies = data.get('policies') or {}
    if not isinstance(policies, dict) or not all(isinstance(p, dict) for p in policies.values()):
        raise DataError(f"policies is '{policies!r:.60}'; expected one mapping per letter")
    names = {str(letter): p.get('policy_name') for letter, p in policies.items()}
    session = build_session({
        'session_uuid': path.parent.name, 'evaluation_type': data.get('evaluation_type'),
        'institution': data.get('evaluation_location'), 'evaluator': data.get('evaluator_name'),
        'created': data.get('session_creation_timestamp'),
        'completed': data.get('session_completion_timestamp'), 'valid': data.get('valid', True),
        'preference': data.get('preference'), 'feedback_text': data.get('longform_feedback'),
        **{f'policy_{slot.lower()}': names.get(slot) for slot in SLOTS}})
    return with_rollouts(session, [build_rollout({
        'policy': p.get('policy_name'), 'letter': letter,
        'instruction': data.get('language_instruction'), 'duration_steps': p.get('duration'),
        'partial_success': p.get('partial_success'), 'binary_success': p.get('binary_success'),
        'camera': p.get('third_person_camera'),
    }, session) for letter, p in sorted(policies.items(), key=lambda item: str(item[0]))
        if _ran(p)])


def _ran(policy: object) -> bool:
    """Tell whether a policy's mapping says more than its name."""
    return isinstance(policy, dict) and bool(set(policy) - {'policy_name'})


def _count(dump: Path, spaces: Mapping[str, str]) -> None:
    """Bring ``global_metadata.yaml`` up to date with what is in the dump now."""
    path = dump / GLOBAL_FILE
    known = read_yaml(path).get('policy_index', {}) if path.exists() else {}
    index = {**known, **{name: {'action_space': space} for name, space in spaces.items()}}
    sessions = sorted((dump / SESSIONS_FOLDER).glob(SESSION_GLOB))
    rollouts = sum(_ran(policy) for p in sessions
                   for policy in (read_yaml(p).get('policies') or {}).values())
    write_text(path, _yaml({
        'total_sessions': len(sessions), 'total_policy_episodes': rollouts,
        'policy_index': dict(sorted(index.items()))}))


def _yaml(data: dict[str, Any]) -> str:
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
