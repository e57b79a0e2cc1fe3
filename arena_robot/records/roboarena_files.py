"""
RoboArena's evaluations as files: CSV tables, and data dumps without recorded steps and videos.

``sessions.csv`` has one row per A/B session, ``episodes.csv`` one per rollout. Version 2 of
``episodes.csv`` has a ``letter`` in every row of the pair. In version 1 it is missing or empty;
the reader gives those rows their letter by session and policy. A dump is a folder tree::

    global_metadata.yaml
    evaluation_sessions/<session>/metadata.yaml
    evaluation_sessions/<session>/A_<policy>/…      steps and videos; see recording/formats

Its files carry no version; unknown keys are kept. Evaluations are imported as session folders:
each holds the ``session.json`` that a station would have written; recorded steps are not copied.

A table of independent trials, as boards with one policy at a time publish them, is read as
sessions too: two trials of different policies at one task on one robot are paired by lot.
"""

import functools
import hashlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from arena_robot.core.clock import from_iso, to_iso
from arena_robot.core.config import read_yaml
from arena_robot.core.csv_tables import rows_of, write_csv
from arena_robot.core.episode import Preference
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import move, sync_folder, write_text
from arena_robot.core.pair import Reveal
from arena_robot.core.parallel import in_threads
from arena_robot.core.verdict import from_plain
from arena_robot.records.roboarena import (
    EXTRAS,
    SLOTS,
    RoboArenaData,
    RoboArenaRollout,
    RoboArenaSession,
    build_rollout,
    build_session,
    number,
    solved,
    usable,
    with_rollouts,
)
from arena_robot.records.session_file import (
    DONE,
    SessionFile,
    SessionSlot,
    Source,
    has_session,
    write_session,
)

SESSIONS_FILE, EPISODES_FILE = 'sessions.csv', 'episodes.csv'
SESSION_COLUMNS = ('session_uuid', 'evaluation_type', 'institution', 'evaluator', 'created',
                   'completed', 'valid', 'preference', 'policy_a', 'policy_b', 'feedback_text',
                   'origin', 'waited_a', 'waited_b', 'chosen', 'robot')
EPISODE_COLUMNS = ('session_uuid', 'policy', 'order', 'instruction', 'binary_success',
                   'partial_success', 'duration_steps', 'camera', 'letter', 'avg_latency_s',
                   *EXTRAS)
SESSIONS_NEED = ('session_uuid', 'valid', 'preference', 'policy_a', 'policy_b')
EPISODES_NEED = ('session_uuid', 'policy', 'partial_success')
TRIALS_NEED = ('task', 'model', 'robot', 'trials', 'successes')
MOST_TRIALS = 10_000    # of a row
SESSIONS_FOLDER = 'evaluation_sessions'
GLOBAL_FILE = 'global_metadata.yaml'
SESSION_GLOB = '*/metadata.yaml'
WRITERS = 4    # threads that wait for the disk


def read_tables(sessions: Path | str, episodes: Path | str | None = None) -> RoboArenaData:
    """
    Return the sessions of the tables, in their order, with the rollouts of ``episodes``.

    An invalid row is left out and listed in ``refused``. Raises DataError when a file or a column
    is missing, or when not a single session is left.
    """
    by_id: dict[str, RoboArenaSession] = {}
    lines: dict[str, int] = {}
    refused: list[str] = []
    skipped: set[str] = set()
    for line, row in rows_of(Path(sessions), SESSIONS_NEED):
        try:
            session = build_session(row)
            if session.session_id in by_id:
                raise DataError(f"session_uuid is '{session.session_id}' as in line "
                                f'{lines[session.session_id]}; expected each session once')
            by_id[session.session_id], lines[session.session_id] = session, line
        except DataError as error:
            refused.append(f'{sessions}:{line}: {error}')
            skipped.add(row['session_uuid'].strip())
    rollouts = {} if episodes is None else _rollouts(Path(episodes), by_id, skipped, refused)
    return usable((with_rollouts(s, rollouts.get(s.session_id, ())) for s in by_id.values()),
                  refused)


def read_folder(folder: Path) -> RoboArenaData:
    """Return the sessions of the tables in a folder; ``episodes.csv`` may be missing."""
    return read_tables(folder / SESSIONS_FILE, episodes_beside(folder / SESSIONS_FILE))


def episodes_beside(sessions: Path) -> Path | None:
    """Return the table of rollouts that lies beside one of sessions, None without."""
    path = sessions.with_name(EPISODES_FILE)
    return path if path.exists() else None


def table_paths(folder: Path) -> tuple[Path, Path]:
    """Return where the two tables of a folder are."""
    return folder / SESSIONS_FILE, folder / EPISODES_FILE


def write_tables(folder: Path, sessions: Iterable[RoboArenaSession]) -> tuple[Path, Path]:
    """Write both tables into a folder, each atomically, and return their paths."""
    rows = list(sessions)
    paths = table_paths(folder)
    write_csv(paths[0], SESSION_COLUMNS, map(_session_row, rows))
    write_csv(paths[1], EPISODE_COLUMNS, (_rollout_row(s, r) for s in rows for r in s.rollouts))
    return paths


def _rollouts(path: Path, sessions: Mapping[str, RoboArenaSession], skipped: set[str],
              refused: list[str]) -> dict[str, list[RoboArenaRollout]]:
    rollouts: dict[str, list[RoboArenaRollout]] = {}
    for line, row in rows_of(path, EPISODES_NEED):
        name = row['session_uuid'].strip()
        try:
            if name in sessions:
                rollouts.setdefault(name, []).append(build_rollout(row, sessions[name]))
            elif name not in skipped:
                raise DataError(f"session_uuid is '{name}'; expected one of {SESSIONS_FILE}")
        except DataError as error:
            refused.append(f'{path}:{line}: {error}')
    return rollouts


def _session_row(s: RoboArenaSession) -> tuple[Any, ...]:
    return (s.session_id, s.evaluation_type, s.institution, s.evaluator, s.created, s.completed,
            int(s.valid), s.preference.value if s.preference else '', s.policy_a, s.policy_b,
            s.explanation, s.origin, s.waited_a, s.waited_b,
            None if s.chosen is None else int(s.chosen), s.robot)


def _rollout_row(s: RoboArenaSession, r: RoboArenaRollout) -> tuple[Any, ...]:
    success = solved(r.progress) if r.success is None else r.success
    return (s.session_id, r.policy, r.order, r.prompt, None if success is None else int(success),
            r.progress, r.steps, r.camera, r.letter, r.latency_s,
            *(getattr(r, key) for key in EXTRAS))


def is_dump(folder: Path) -> bool:
    """Return whether a folder is a data dump."""
    return (folder / SESSIONS_FOLDER).is_dir()


def read_dump(folder: Path) -> RoboArenaData:
    """
    Return the sessions of a data dump, by name.

    An invalid session is left out and listed in ``refused``. Raises DataError when none is left.
    Recorded steps are pickled objects, which are never loaded from foreign files.
    """
    sessions, refused = [], []
    for path in sorted((folder / SESSIONS_FOLDER).glob(SESSION_GLOB)):
        try:
            sessions.append(_session(path))
        except (ConfigError, DataError) as error:
            refused.append(str(error) if str(path) in str(error) else f'{path}: {error}')
    return usable(sessions, refused)


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
            'binary_success': None if success is None else int(success),
            **{key: value for key in EXTRAS
               if (value := getattr(rollout, key)) not in ('', None)}}


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
        'camera': p.get('third_person_camera'), **{key: p.get(key) for key in EXTRAS},
    }, session) for letter, p in sorted(policies.items(), key=lambda item: str(item[0]))
        if _ran(p)])


def _ran(policy: object) -> bool:
    """Tell whether a policy's mapping says more than its name."""
    return isinstance(policy, dict) and bool(set(policy) - {'policy_name'})


def _count(dump: Path, spaces: Mapping[str, str]) -> None:
    """Bring ``global_metadata.yaml`` up to date with what is in the dump now."""
    path = dump / GLOBAL_FILE
    policies = read_yaml(path).get('policy_index', {}) if path.exists() else {}
    index = {**policies, **{name: {'action_space': space} for name, space in spaces.items()}}
    sessions = sorted((dump / SESSIONS_FOLDER).glob(SESSION_GLOB))
    rollouts = sum(_ran(policy) for p in sessions
                   for policy in (read_yaml(p).get('policies') or {}).values())
    write_text(path, _yaml({
        'total_sessions': len(sessions), 'total_policy_episodes': rollouts,
        'policy_index': dict(sorted(index.items()))}))


def _yaml(data: dict[str, Any]) -> str:
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def read_evaluations(source: Path) -> RoboArenaData:
    """Return the sessions of a dump, of a folder with tables, or of a table. Raises DataError."""
    if is_dump(source):
        return read_dump(source)
    table = source if source.suffix == '.csv' else source / SESSIONS_FILE
    if table.is_file():
        trials = any(set(TRIALS_NEED) <= set(row) for _, row in rows_of(table)[:1])
        return read_trial_counts(table) if trials else read_tables(table, episodes_beside(table))
    raise DataError(f'{source} is neither a RoboArena data dump (a folder with '
                    f'{SESSIONS_FOLDER}/) nor tables ({SESSIONS_FILE}, and the episodes beside '
                    f"it) nor a .csv of trials ({', '.join(TRIALS_NEED)})")


def read_trial_counts(path: Path) -> RoboArenaData:
    """
    Return independent trials as sessions, each trial in one of them at most.

    A row counts the ``trials`` of a ``model`` at a ``task`` on a ``robot``, and ``successes`` of
    them; ``score`` (0 to 1, may be missing) is the progress in a row of one trial. Who succeeds
    where the other fails is preferred; two successes or two failures have no preference. So the
    log-odds between two policies are those of their successes, however hard the task is. Pairs
    are drawn by lot, the same from the same table. Invalid rows are listed in ``refused``; raises
    DataError when a column is missing, or no row is left.
    """
    runs: dict[tuple[str, str], dict[str, list[RoboArenaRollout]]] = {}
    refused: list[str] = []
    for line, row in rows_of(path, TRIALS_NEED):
        try:
            task, model, robot = (_name(row, name) for name in TRIALS_NEED[:3])
            runs.setdefault((robot, task), {}).setdefault(model, []).extend(
                _counted(row, model, task))
        except DataError as error:
            refused.append(f'{path}:{line}: {error}')
    lot, table = random.Random(0), hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    pairs = [(robot, *pair) for (robot, _), of_models in sorted(runs.items())
             for pair in _pairs([of_models[name] for name in sorted(of_models)], lot)]
    return usable((_met(f'{table}-{number}', a, b, robot, path.stem)
                   for number, (robot, a, b) in enumerate(pairs)), refused)


def _pairs(of_models: Sequence[list[RoboArenaRollout]], lot: random.Random,
           ) -> Iterator[tuple[RoboArenaRollout, RoboArenaRollout]]:
    """Yield pairs of trials by lot; the models of which most are left meet first."""
    for trials in of_models:
        lot.shuffle(trials)
    while len(left := [trials for trials in of_models if trials]) > 1:
        left.sort(key=lambda trials: (-len(trials), lot.random()))
        a, b = lot.sample([trials.pop() for trials in left[:2]], 2)
        yield a, b


def _name(row: Mapping[str, str], name: str) -> str:
    if not row[name].strip():
        raise DataError(f"{name} is ''; expected a name")
    return row[name].strip()


def _counted(row: Mapping[str, str], model: str, task: str) -> list[RoboArenaRollout]:
    counts = [number(row, name, MOST_TRIALS) for name in TRIALS_NEED[3:]]
    trials, won = (-1 if count is None or count % 1 else int(count) for count in counts)
    if not 0 <= won <= trials:
        raise DataError(f"trials is '{row['trials']}' and successes '{row['successes']}'; "
                        'expected whole numbers, successes not above trials')
    score = number(row, 'score', 1.0) if trials == 1 else None
    return [RoboArenaRollout(model, progress=score, prompt=task.replace('_', ' '),
                             success=k < won) for k in range(trials)]


def _met(name: str, a: RoboArenaRollout, b: RoboArenaRollout, robot: str,
         source: str) -> RoboArenaSession:
    preference = None if a.success == b.success else Preference.A if a.success else Preference.B
    return RoboArenaSession(
        name, a.policy, b.policy, preference=preference, institution=source, robot=robot,
        evaluation_type='independent trials',
        rollouts=(replace(a, letter='A'), replace(b, letter='B')))


def write_evaluations(sessions: Sequence[RoboArenaSession], output: Path, origin: str) -> None:
    """
    Write ``<output>/<session>/session.json`` for each session, and both tables.

    Raises DataError when a session is there already.
    """
    for session in sessions:
        if has_session(output / session.session_id):
            raise DataError(f'{output / session.session_id} holds a session already; imports do '
                            'not overwrite, name another --output')
    # Most of the time is spent waiting for the disk; parallel writes share the waits. An import
    # that is cut off is repeated, so names are brought to the disk together, at the end.
    folders = in_threads(functools.partial(_write, output=output, origin=origin), sessions,
                         WRITERS)
    in_threads(sync_folder, folders, WRITERS)
    write_tables(output, sessions)


def _write(session: RoboArenaSession, output: Path, origin: str) -> Path:
    folder = output / session.session_id
    folder.mkdir(parents=True, exist_ok=True)
    write_session(folder, session_file(session, origin), sync_name=False)
    return folder


def session_file(session: RoboArenaSession, origin: str) -> SessionFile:
    """Return a session as the ``session.json`` that a station would have written of it."""
    played = session.slots()
    return SessionFile(
        session.session_id, Source.IMPORT, DONE, session.institution, session.evaluator,
        session.prompt, _time(session.created), _time(session.completed),
        reveal=Reveal('', session.policy_a, session.policy_b, chosen=session.chosen),
        slots={slot: SessionSlot(steps=played[slot].steps if slot in played else 0)
               for slot in SLOTS},
        verdict=from_plain({
            **{name: value for slot, r in played.items() for name, value in r.said(slot).items()},
            'preference': session.preference, 'explanation': session.explanation,
            'valid': session.valid,
            'invalid_reason': '' if session.valid else 'not marked as valid in the source'}),
        origin=origin, other_rollouts=session.others(), robot=session.robot)


def _time(text: str) -> str:
    return to_iso(from_iso(text)) if text else ''
