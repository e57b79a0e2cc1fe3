"""
What became of the trials of a study: one record for each, and the journal that has them.

A study's folder has ``journal.jsonl``, written by ``session/protocol/journal.py``, with these
moves beside those of the program that runs the study:

- ``declared``: version, hash and content of the study, and why it was changed
- ``sealed``: the hash of the seed, before the first trial
- ``trial``: a :class:`TrialResult`; a later one of the same trial replaces it
- ``undone``: the number of a trial whose newest result does not count
- ``revealed``: the seed, after the last trial; else with a reason

A trial that was void was run again, and both are in the journal. While a study is blind a result
names the slot only; :func:`StudyRecord.with_arms` adds the arms from the revealed seed.

The seed decides the order of the policies. Its own file is named after its hash, is readable by
its owner alone, and lies where the study's folder is not: a folder that is copied, shown or sent
says nothing of the order.
"""

import dataclasses
import json
import math
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from arena_robot.blind.study import (
    Study,
    plain_study,
    schedule,
    seed_hash,
    study_hash,
)
from arena_robot.core.config import build
from arena_robot.core.episode import Preference, Slot
from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.files import write_text
from arena_robot.core.verdict import Asked, Verdict, asked_at, from_plain
from arena_robot.records.session_file import JOURNAL, Entry, read_journal

SEED_BYTES = 16    # nobody finds so many by trying
NAME_CHARS = 16    # of the hash, enough to be unique on one computer
OWNER_ONLY = 0o600


class StudyMove(str, Enum):
    """The entries of a study's journal that its results are made of."""

    DECLARED = 'declared'
    SEALED = 'sealed'
    TRIAL = 'trial'
    UNDONE = 'undone'
    REVEALED = 'revealed'


class StudyLog(Protocol):
    """The journal of a study, open for writing, such as `session.protocol.journal.Journal`."""

    entries: list[Entry]

    def append(self, move: str, data: Mapping[str, Any], sync: bool = True) -> Entry:
        """Write one entry; it is on the disk when this returns."""


@dataclass(frozen=True)
class TrialResult:
    """
    What happened in one trial, and what the evaluator says of it.

    ``trial``, ``block``, ``slot`` and ``condition`` are those of the schedule; ``version`` is the
    version of the study. ``success`` and ``progress`` (0 to 1) are None where nobody said;
    ``stage`` is the furthest stage that was reached. ``preference`` and ``reason`` are about the
    whole block and stand in the result of its last slot. ``seconds`` is how long the robot asked
    for actions. ``interventions`` is how often a person
    took over, ``intervention_s`` for how long. A trial with a reason in ``void`` does not count
    and is run again. ``human`` marks a reference trial that a person teleoperated, outside the
    schedule. ``clip`` is a video in the study's folder. Stamps are ns since the Unix epoch.
    """

    trial: int
    block: int
    slot: str
    condition: str
    version: int = 1
    evaluator: str = ''
    started_ns: int = 0
    ended_ns: int = 0
    seconds: float = 0.0
    success: bool | None = None
    stage: str = ''
    progress: float | None = None
    preference: Preference | None = None
    reason: str = ''
    failure_tags: tuple[str, ...] = ()
    time_to_success_s: float | None = None
    interventions: int = 0
    intervention_s: float = 0.0
    void: str = ''
    human: bool = False
    clip: str = ''
    arm: str = ''

    def __post_init__(self) -> None:
        shares = [x for x in (self.progress,) if x is not None]
        times = [x for x in (self.time_to_success_s, self.intervention_s, self.seconds)
                 if x is not None]
        if not all(0.0 <= x <= 1.0 for x in shares):
            raise ValueError(f'progress runs from 0 to 1, found {self.progress}')
        if not all(math.isfinite(x) and x >= 0.0 for x in times) or self.interventions < 0:
            raise ValueError('times and the number of interventions are finite and not negative; '
                             f'found {times} and {self.interventions}')
        if self.time_to_success_s is not None and not self.success:
            raise ValueError('a time to success needs success')

    @property
    def counts(self) -> bool:
        """Whether the trial counts: it is not void, and a policy ran it."""
        return not self.void and not self.human


# Of a verdict on a rollout, what a trial is asked for; notes and unsafe are for stations.
SAID = tuple(row.key for row in asked_at(Asked.SCORE, Slot.A)
             if row.required or row.optional)


def block_verdict(trials: Mapping[str, TrialResult]) -> Verdict:
    """Return what is said of the trials of a block in slots A and B, as a station says it."""
    words: dict[str, Any] = {f'{key}_{slot.lower()}': getattr(trial, key)
                             for slot, trial in trials.items() for key in SAID}
    words |= {name: None if value is None else 'yes' if value else 'no'
              for name, value in words.items() if name.startswith('success')}
    last = trials[max(trials)]
    return from_plain({**words, 'preference': last.preference, 'explanation': last.reason})


def plain_result(result: TrialResult) -> dict[str, Any]:
    """Return a result as JSON values, without the fields that still have their default."""
    plain = {f.name: getattr(result, f.name) for f in dataclasses.fields(result)
             if f.default is dataclasses.MISSING or getattr(result, f.name) != f.default}
    return {name: value.value if isinstance(value, Enum) else
            list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def result_from(values: Mapping[str, Any], where: str = 'trial') -> TrialResult:
    """Return the result that :func:`plain_result` wrote. Raises DataError, naming ``where``."""
    try:
        return build(TrialResult, values, where)
    except ConfigError as error:
        raise DataError(str(error)) from error


def write_results(path: Path, results: Iterable[TrialResult]) -> None:
    """Write a line of JSON for each result; the file is replaced as a whole."""
    write_text(path, ''.join(json.dumps(plain_result(result), ensure_ascii=False, allow_nan=False)
                             + '\n' for result in results))


def read_results(path: Path) -> tuple[TrialResult, ...]:
    """Return the results in a file of JSON lines. Raises DataError, naming the line."""
    results = []
    try:
        for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), 1):
            values = json.loads(line)
            if not isinstance(values, dict):
                raise DataError(f'{path} line {number} is no JSON object')
            results.append(result_from(values, f'{path} line {number}'))
    except (OSError, ValueError) as error:
        raise DataError(f'{path} is not a file of trials: {error}') from error
    return tuple(results)


def declare(log: StudyLog, study: Study, reason: str = '') -> int:
    """
    Write the study into its journal unless it is the newest version there; return the version.

    Raises ConfigError for a change without a reason.
    """
    declared = [entry.data for entry in log.entries if entry.move == StudyMove.DECLARED]
    if declared and declared[-1]['sha256'] == study_hash(study):
        return len(declared)
    if declared and not reason.strip():
        raise ConfigError(f'the study was changed: its journal has version {len(declared)} with '
                          f"the hash {declared[-1]['sha256'][:12]}, the file has "
                          f'{study_hash(study)[:12]}; say why it was changed, or take the change '
                          'back')
    log.append(StudyMove.DECLARED.value, {
        'version': len(declared) + 1, 'sha256': study_hash(study), 'reason': reason.strip(),
        'study': plain_study(study)})
    return len(declared) + 1


def seal(log: StudyLog, seed: str) -> None:
    """Write the hash of the seed into the journal, once. Raises DataError for another seed."""
    sealed = [entry.data['sha256'] for entry in log.entries if entry.move == StudyMove.SEALED]
    if sealed and sealed[0] != seed_hash(seed):
        raise DataError('the seed is not the one whose hash is in the journal; the study cannot '
                        'be continued without its own seed')
    if not sealed:
        log.append(StudyMove.SEALED.value, {'sha256': seed_hash(seed)})


@dataclass(frozen=True)
class StudyVersion:
    """A version of a study, declared at ``declared_ns`` after ``trials`` results, with why."""

    study: Study
    sha256: str
    reason: str
    declared_ns: int
    trials: int


@dataclass(frozen=True)
class StudyRecord:
    """
    All that a study's journal says of its results.

    ``results`` are the newest of each trial and those that are void or of a person, in their
    order; ``undone`` those that were taken back. ``seed`` is '' before the reveal.
    ``sealed_first`` tells whether study and seed were fixed before the first trial, and
    ``after_reveal`` how many results were entered after the reveal. ``ended_early`` is why the
    reveal came before the last trial.
    """

    versions: tuple[StudyVersion, ...]
    results: tuple[TrialResult, ...]
    undone: tuple[TrialResult, ...] = ()
    seed_sha256: str = ''
    seed: str = ''
    sealed_first: bool = False
    after_reveal: int = 0
    ended_early: str = ''

    @property
    def study(self) -> Study:
        """The newest version of the study."""
        return self.versions[-1].study

    def fits(self) -> bool | None:
        """Return whether the seed is the one that was promised; None before the reveal."""
        return seed_hash(self.seed) == self.seed_sha256 if self.seed else None

    def with_arms(self) -> tuple[TrialResult, ...]:
        """Return the results with the arm of each; DataError before the reveal."""
        if not self.seed:
            raise DataError('the study is still blind: its journal has no seed yet; end it where '
                            'it is run, then ask again')
        arms = {(number, trial.number): trial.arm
                for number, version in enumerate(self.versions, 1)
                for trial in schedule(version.study, self.seed)}
        try:
            return tuple(result if result.human else dataclasses.replace(
                result, arm=arms[result.version, result.trial]) for result in self.results)
        except KeyError as error:
            raise DataError(f'version {error.args[0][0]} of the study has no trial '
                            f'{error.args[0][1]}') from error


def read_study(folder: Path) -> StudyRecord:
    """Return what the journal of a study's folder says. Raises DataError."""
    path = folder / JOURNAL
    if not path.is_file():
        raise DataError(f'{folder} is no study: it has no {JOURNAL}')
    record = replay(list(read_journal(path)), str(path))
    if not record.versions:
        raise DataError(f'{path} is the journal of no study: nothing was declared in it')
    return record


def replay(entries: Sequence[Entry], where: str) -> StudyRecord:
    """Return what the entries of a journal say; those of other moves are left out."""
    versions: list[StudyVersion] = []
    results: list[TrialResult] = []
    undone: list[TrialResult] = []
    hashes = {StudyMove.SEALED.value: '', StudyMove.REVEALED.value: ''}
    ended_early = ''
    moves = [entry.move for entry in entries]
    before = moves[:_index(moves, StudyMove.TRIAL)]
    after = moves[_index(moves, StudyMove.REVEALED):]
    for entry in entries:
        if entry.move == StudyMove.DECLARED:
            versions.append(_version(entry, len(results), where))
        elif entry.move in hashes:
            hashes[entry.move] = str(entry.data.get('sha256', entry.data.get('seed', '')))
            ended_early = str(entry.data.get('reason', ''))
        elif entry.move in (StudyMove.TRIAL, StudyMove.UNDONE):
            values = {'version': len(versions), **entry.data}
            if entry.move == StudyMove.TRIAL:
                result = result_from(values, f'{where}, entry {entry.n}')
                _take_back(results, undone, values, replaced=True)
                results.append(result)
            else:
                _take_back(results, undone, values, replaced=False)
    return StudyRecord(tuple(versions), tuple(results), tuple(undone),
                       hashes[StudyMove.SEALED.value], hashes[StudyMove.REVEALED.value],
                       {StudyMove.DECLARED, StudyMove.SEALED} <= set(before),
                       after.count(StudyMove.TRIAL), ended_early)


def _index(moves: Sequence[str], move: StudyMove) -> int:
    return moves.index(move) if move in moves else len(moves)


def _take_back(results: list[TrialResult], undone: list[TrialResult], values: Mapping[str, Any],
               replaced: bool) -> None:
    """Move the newest result of a trial to ``undone``; a new one replaces only what counted."""
    if replaced and (values.get('human') or values.get('void')):
        return
    for k in range(len(results) - 1, -1, -1):
        same = (results[k].version, results[k].trial) == (values['version'], values.get('trial'))
        if same and results[k].human == bool(values.get('human')) and not (
                replaced and results[k].void):
            undone.append(results.pop(k))
            return


def _version(entry: Entry, trials: int, where: str) -> StudyVersion:
    try:
        study = build(Study, entry.data['study'], f'{where}, entry {entry.n}')
    except (KeyError, ConfigError) as error:
        raise DataError(f'{where}, entry {entry.n} declares no study: {error}') from error
    if study_hash(study) != entry.data.get('sha256'):
        raise DataError(f'{where}, entry {entry.n}: the study has the hash {study_hash(study)}, '
                        f"the journal says {entry.data.get('sha256')}")
    return StudyVersion(study, study_hash(study), str(entry.data.get('reason', '')),
                        entry.stamp_ns, trials)


def seed_home() -> Path:
    """Return the folder of all seeds: ``~/.local/share/arena/blind``, or in $XDG_DATA_HOME."""
    data = os.environ.get('XDG_DATA_HOME') or Path.home() / '.local' / 'share'
    return Path(data) / 'arena' / 'blind'


def study_seed(folder: Path, home: Path) -> str:
    """
    Return the seed of the study in ``folder``: its own one, or a new one for a new study.

    Raises ConfigError when the file of the study's seed is gone, or would lie in the study.
    """
    if home.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f'the seeds in {home} would lie in the study {folder}; choose another '
                          'folder for the study')
    path = folder / JOURNAL
    sealed = [str(entry.data['sha256']) for entry in read_journal(path)
              if entry.move == StudyMove.SEALED] if path.is_file() else []
    return _read(home / f'{sealed[0][:NAME_CHARS]}.seed', sealed[0]) if sealed else _new(home)


def _new(home: Path) -> str:
    seed = secrets.token_hex(SEED_BYTES)
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = home / f'{seed_hash(seed)[:NAME_CHARS]}.seed'
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY)
    with os.fdopen(file, 'w', encoding='ascii') as out:
        out.write(f'{seed}\n')
    return seed


def _read(path: Path, sha256: str) -> str:
    try:
        seed = path.read_text(encoding='ascii').strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f'the seed of this study is not in {path}: go on with it on the '
                          'computer and as the user that began it, or copy that file here'
                          ) from error
    if seed_hash(seed) != sha256:
        raise ConfigError(f"{path} does not have the seed of this study: its hash is not the "
                          "one in the study's journal")
    return seed
