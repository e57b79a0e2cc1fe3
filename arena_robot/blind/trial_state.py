"""
Where a study stands: its phase, the trial that is next, what can be taken back.

All of it follows from the journal of the study's folder, so a program that was killed goes on with
the step it was at. The moves here are in the journal beside those of
:mod:`arena_robot.blind.trials`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from arena_robot.blind.study import ScheduledTrial, Study
from arena_robot.blind.trials import StudyMove, TrialResult
from arena_robot.core.episode import Preference, Slot
from arena_robot.core.errors import DataError
from arena_robot.core.verdict import BETWEEN, MAX_TEXT_CHARS, Asked, asked_at, from_plain
from arena_robot.records.session_file import Entry


class TrialPhase(str, Enum):
    """What the study waits for."""

    READY = 'ready'          # for the start of the next trial
    RUNNING = 'running'      # queries pass
    PAUSED = 'paused'        # a person has taken over; nothing passes
    SCORING = 'scoring'      # for what happened in the trial
    JUDGING = 'judging'      # for the preference between both slots
    BREAK = 'break'          # for the people to come back
    DONE = 'done'            # all trials were run, and the study is still blind
    REVEALED = 'revealed'    # nothing; the seed is in the journal


class TrialMove(str, Enum):
    """The entries of the journal that move a study from phase to phase."""

    STARTED = 'started'
    ASKED = 'asked'          # the robot's first query of the trial
    PAUSED = 'paused'
    RESUMED = 'resumed'
    FAILED = 'failed'        # the policy or this program; the trial is void
    ENDED = 'ended'
    SCORED = 'scored'        # the last slot's score, before the preference
    REST = 'rest'
    BACK = 'back'
    UNDO = 'undo'            # the newest of the others is taken back
    DRAFT = 'draft'          # what was typed so far
    NOTICED = 'noticed'      # what the page and the terminal said


AFTER = {
    TrialMove.STARTED.value: TrialPhase.RUNNING, TrialMove.ASKED.value: TrialPhase.RUNNING,
    TrialMove.PAUSED.value: TrialPhase.PAUSED, TrialMove.RESUMED.value: TrialPhase.RUNNING,
    TrialMove.FAILED.value: TrialPhase.READY, TrialMove.ENDED.value: TrialPhase.SCORING,
    TrialMove.SCORED.value: TrialPhase.JUDGING, TrialMove.REST.value: TrialPhase.BREAK,
    TrialMove.BACK.value: TrialPhase.READY, StudyMove.TRIAL.value: TrialPhase.READY,
    StudyMove.REVEALED.value: TrialPhase.REVEALED}
BACKWARD = (TrialMove.UNDO.value, StudyMove.UNDONE.value)
# What a person can take back, and how the button says so.
UNDOABLE = {TrialMove.STARTED.value: 'the start', TrialMove.ENDED.value: 'the end of the trial',
            TrialMove.SCORED.value: 'the score', StudyMove.TRIAL.value: 'what was said',
            TrialMove.REST.value: 'the break'}


@dataclass(frozen=True)
class TrialState:
    """
    Where the study stands. ``done`` trials count; ``attempt`` is that of the next one.

    ``moves`` are the journal's entries that hold, the newest last; ``draft`` is what was typed
    for the trial and is not final.
    """

    phase: TrialPhase = TrialPhase.READY
    done: int = 0
    attempt: int = 1
    moves: tuple[Entry, ...] = ()
    draft: Mapping[str, Any] = field(default_factory=dict)

    def last(self, move: TrialMove) -> Entry | None:
        """Return the newest entry of one kind since the trial's start, None without one."""
        for entry in reversed(self.moves):
            if entry.move == move.value:
                return entry
            if entry.move in (TrialMove.STARTED.value, StudyMove.TRIAL.value):
                return None
        return None

    def count(self, move: TrialMove) -> int:
        """Return how many entries of one kind the trial has since its start."""
        begun = max((k for k, entry in enumerate(self.moves)
                     if entry.move == TrialMove.STARTED.value), default=0)
        return sum(entry.move == move.value for entry in self.moves[begun:])

    @property
    def by_hand(self) -> bool:
        """Whether a person runs the trial that is under way, in place of a policy."""
        started = self.last(TrialMove.STARTED)
        return started is not None and bool(started.data.get('human'))

    @property
    def passes(self) -> bool:
        """Whether queries pass."""
        return self.phase is TrialPhase.RUNNING and not self.by_hand

    def undoable(self) -> Entry | None:
        """Return the entry that can be taken back, None when there is none."""
        if not self.moves or self.moves[-1].move not in UNDOABLE:
            return None
        failed = self.moves[-1].move == StudyMove.TRIAL and len(self.moves) > 1 \
            and self.moves[-2].move == TrialMove.FAILED
        return None if failed else self.moves[-1]


def state_of(entries: Sequence[Entry], total: int) -> TrialState:
    """Return where a study of ``total`` trials stands after the entries of its journal."""
    moves: list[Entry] = []
    draft: Mapping[str, Any] = {}
    for entry in entries:
        if entry.move == StudyMove.DECLARED:
            moves, draft = [], {}    # another version has trials of its own
        elif entry.move == TrialMove.DRAFT:
            draft = entry.data
        elif entry.move in BACKWARD and moves:
            draft = typed(moves.pop())
        elif entry.move in AFTER:
            moves.append(entry)
            draft = draft if entry.move in (TrialMove.PAUSED, TrialMove.RESUMED) else {}
    phase, done, attempt = TrialPhase.READY, 0, 1
    for entry in moves:
        phase = AFTER[entry.move]
        if entry.move == StudyMove.TRIAL and not entry.data.get('human'):
            attempt = attempt + 1 if entry.data.get('void') else 1
            done += not entry.data.get('void')
    if phase is TrialPhase.READY and done >= total:
        phase = TrialPhase.DONE
    return TrialState(phase, done, attempt, tuple(moves), draft)


def typed(entry: Entry) -> dict[str, Any]:
    """Return what a person had typed for an entry that is taken back."""
    words = dict(entry.data)
    if isinstance(words.get('progress'), float):
        words['progress'] = round(100.0 * words['progress'])
    return words if entry.move in (TrialMove.SCORED, StudyMove.TRIAL) else {}


def ends_block(trials: Sequence[ScheduledTrial], index: int) -> bool:
    """Tell whether a trial is the last one of its block."""
    return index + 1 == len(trials) or trials[index + 1].block != trials[index].block


def is_judged(trials: Sequence[ScheduledTrial], index: int) -> bool:
    """Tell whether a preference is asked for after a trial: after the second of two slots."""
    slots = [trial.slot for trial in trials if trial.block == trials[index].block]
    return len(slots) == 2 and ends_block(trials, index)


def said_of_trial(words: Mapping[str, Any], study: Study) -> dict[str, Any]:
    """Return the fields of a result that the page sent after a trial. Raises DataError."""
    if not isinstance(words.get('success'), bool):
        raise DataError('say whether the trial succeeded: yes or no')
    said = from_plain({f'{key}_a': words.get(key)
                       for key in ('stage', 'failure_tags', 'progress')})
    progress = None if said.progress_a is None else said.progress_a / 100.0
    said = replace(said, progress_a=progress)
    study.extras().completed(said, Slot.A, 0.0)
    for row in asked_at(Asked.SCORE, Slot.A):
        row.check(getattr(said, row.name))
    return {'success': words['success'], 'stage': said.stage_a, 'progress': progress,
            'failure_tags': said.failure_tags_a.split(BETWEEN) if said.failure_tags_a else [],
            'evaluator': _text(words, 'evaluator')}


def said_of_block(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the preference and its reason that the page sent after a block."""
    try:
        preference = Preference(words.get('preference'))
    except ValueError as error:
        raise DataError('say which was better: A, B, or no difference') from error
    return {'preference': preference.value, 'reason': _text(words, 'reason')}


def reason_of(words: Mapping[str, Any], what: str) -> str:
    """Return the reason that a person typed; DataError without one."""
    reason = _text(words, 'reason')
    if not reason:
        raise DataError(f'say why {what}')
    return reason


def result_of(trial: ScheduledTrial, version: int, state: TrialState,
              said: Mapping[str, Any]) -> TrialResult:
    """
    Return the result of a trial from the times of its entries and what was said.

    A trial that a person ran is outside of the schedule, at the start condition of ``trial``.
    """
    started, ended = state.last(TrialMove.STARTED), state.last(TrialMove.ENDED)
    times = ended.data if ended is not None else {}
    place = (0, 0, '') if state.by_hand else (trial.number, trial.block, trial.slot)
    values = {**said, 'preference': Preference(said['preference'])
              if said.get('preference') else None,
              'failure_tags': tuple(said.get('failure_tags', ()))}
    return TrialResult(
        *place, trial.condition, version=version, human=state.by_hand,
        started_ns=started.stamp_ns if started is not None else 0,
        ended_ns=ended.stamp_ns if ended is not None else 0,
        seconds=float(times.get('seconds', 0.0)), interventions=state.count(TrialMove.PAUSED),
        intervention_s=float(times.get('by_hand_s', 0.0)),
        time_to_success_s=float(times.get('seconds', 0.0)) if said.get('success') else None,
        **values)


def _text(words: Mapping[str, Any], key: str) -> str:
    text = str(words.get(key) or '').strip()
    if len(text) > MAX_TEXT_CHARS or '\x00' in text:
        raise DataError(f'{key}: a text has at most {MAX_TEXT_CHARS} characters and no NUL')
    return text
