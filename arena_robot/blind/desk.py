"""
The desk of a blind study: what its page may do, and which queries of a robot may pass.

Everything is in the journal before it takes effect. A query passes only while a trial runs, from
one robot at a time, and a reply only while the same trial still runs: the desk never makes up an
action. The name of the policy on turn leaves the desk in a :class:`QueryPass` and in nothing else.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from arena_robot.blind.clips import TrialClips, take_name
from arena_robot.blind.results import is_decided
from arena_robot.blind.study import ScheduledTrial, Study, schedule
from arena_robot.blind.trial_state import (
    UNDOABLE,
    TrialMove,
    TrialPhase,
    TrialState,
    ends_block,
    is_judged,
    reason_of,
    result_of,
    said_of_block,
    said_of_trial,
    state_of,
)
from arena_robot.blind.trials import StudyMove, declare, plain_result, replay, seal
from arena_robot.core.clock import Clock, JumpDetector
from arena_robot.core.errors import Conflict, PolicyRefused
from arena_robot.core.openable import Openable
from arena_robot.records.session_file import JOURNAL
from arena_robot.session.protocol.journal import Journal

# A robot that asks nothing for so long has ended: chunks are executed in a few seconds.
SILENT_S = 10.0
# The clocks of a sleeping computer differ by less than this when it did not sleep.
SLEPT_S = 1.0
# Entries that leave the page's buttons, and what may pass, as they are.
SILENT_MOVES = (TrialMove.ASKED.value, TrialMove.DRAFT.value, TrialMove.NOTICED.value)
RUN = (TrialPhase.RUNNING, TrialPhase.PAUSED)
NOT_NOW = {
    TrialPhase.READY: "no trial runs: press Start on the page, then start the robot's program",
    TrialPhase.PAUSED: 'a person has taken over; press Resume on the page to let it go on',
    TrialPhase.SCORING: 'the trial has ended; say on the page what happened',
    TrialPhase.JUDGING: 'the trial has ended; say on the page which was better',
    TrialPhase.BREAK: 'the study has a break; press Go on on the page',
    TrialPhase.DONE: 'all trials of the study were run',
    TrialPhase.REVEALED: 'the study has ended'}
BY_HAND = 'a person runs this trial by hand, without a policy; end it on the page first'
DROPPED = 'the trial was ended or paused while the policy answered; its reply was dropped'
OTHER_ROBOT = ('another robot, or another program of this one, runs this trial; stop one of them, '
               'then try again')


def slept_ns() -> int:
    """Return for how long this computer has slept since it was started, and some constant."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()


@dataclass(frozen=True)
class QueryPass:
    """
    Leave to send one query; ``arm`` is secret, ``turn`` tells whether the reply may pass.

    ``take`` names the attempt at a trial, for its clip.
    """

    arm: str = field(repr=False)
    turn: int
    take: str


class StudyDesk(Openable):
    """
    A study that is being run; safe to use from several threads.

    ``tell`` gets the sentences for the terminal. ``prepare`` is called with the arm before a
    trial starts, and raises a PolicyError when the policy cannot be reached. Without ``clips`` no
    videos are kept.
    """

    def __init__(self, folder: Path, study: Study, seed: str, clock: Clock,
                 tell: Callable[[str], None], prepare: Callable[[str], None],
                 slept: Callable[[], int] = slept_ns, reason: str = '',
                 clips: TrialClips | None = None) -> None:
        self.study, self.folder = study, folder
        self.trials = schedule(study, seed)
        self._seed, self._reason = seed, reason
        self._clock, self._slept, self._tell, self._prepare = clock, slept, tell, prepare
        self._clips = clips
        self._journal = Journal(folder / JOURNAL, clock)
        self._lock = threading.RLock()
        self._state = TrialState()
        self._jumps = JumpDetector(clock)
        self._slept_ns = slept()
        self._version = 0
        self._turn = 0
        self._decided = False
        self.notice = ''
        self._clear()

    def open(self) -> None:
        """Continue the study of the folder, or begin one; a trial that was cut off is void."""
        self._journal.open()
        try:
            seal(self._journal, self._seed)
            self._version = declare(self._journal, self.study, self._reason)
        except BaseException:
            self._journal.close()
            raise
        self._look()
        self._decide()
        if self._state.phase in RUN or self._state.last(TrialMove.FAILED):
            self._fail('this program ended in the middle of the trial')

    def close(self) -> None:
        """Close the journal; can be called twice."""
        self._journal.close()

    @property
    def state(self) -> TrialState:
        """Where the study stands."""
        return self._state

    @property
    def trial(self) -> ScheduledTrial | None:
        """The trial that is next or under way, None when all are done."""
        done = self._state.done
        return self.trials[done] if done < len(self.trials) else None

    def shown(self) -> dict[str, Any]:
        """Return what the page shows; nothing of it depends on which policy is on turn."""
        with self._lock:
            self._check_clock()
            self._count_time()
            state, trial = self._state, self.trial
            undo = state.undoable()
            words: dict[str, Any] = {
                'version': self._turn, 'phase': state.phase.value,
                'study': self.study.name, 'done': state.done, 'total': len(self.trials),
                'attempt': state.attempt, 'draft': dict(state.draft), 'notice': self.notice,
                'undo': UNDOABLE[undo.move] if undo is not None else '',
                'decided': self._decided, 'asked': self._caller is not None,
                'human': state.by_hand,
                'seconds': self._seconds, 'by_hand_s': self._by_hand_s}
            if trial is not None:
                condition = self.study.condition(trial.condition)
                words |= {'trial': trial.number, 'block': trial.block, 'slot': trial.slot,
                          'instruction': condition.instruction, 'start': condition.start,
                          'condition': condition.name, 'clips': self._ready_clips(trial)}
            return words

    def move(self, name: str, words: Mapping[str, Any]) -> None:
        """Do what a button of the page says. Raises Conflict where it is not possible now."""
        if name == 'start':
            with self._lock:
                trial, _ = self.trial, self._possible(name, words)
            # Without the lock: queries of robots are refused meanwhile, and must not wait.
            self._prepare(trial.arm if trial is not None else '')
        with self._lock:
            work = self._possible(name, words)
            self._check_clock()
            self._count_time()
            work(self, words)

    def draft(self, words: Mapping[str, Any]) -> None:
        """Keep what was typed so far."""
        with self._lock:
            if self._state.phase in (TrialPhase.SCORING, TrialPhase.JUDGING):
                self._append(TrialMove.DRAFT, dict(words))

    def admit(self, caller: str) -> QueryPass:
        """Return leave to ask the policy on turn; PolicyRefused when there is none to give."""
        with self._lock:
            trial = self.trial
            if not self._state.passes or trial is None:
                self._note(f'the robot asked for an action and got an error: {self._where()}')
                raise PolicyRefused(self._where())
            self._bind(caller)
            self._asked_ns = self._clock.steady_ns()
            return QueryPass(trial.arm, self._turn, self._take())

    def on_turn(self, caller: str) -> str | None:
        """Return the arm that a robot's reset is for, None while it runs no trial."""
        with self._lock:
            trial, runs = self.trial, self._state.passes
            mine = self._caller in (None, caller)
            return trial.arm if trial is not None and runs and mine else None

    def check(self, query: QueryPass) -> None:
        """Let a reply pass; PolicyRefused when its trial does not run any more."""
        with self._lock:
            if query.turn != self._turn:
                raise PolicyRefused(DROPPED)
            self._queries += 1

    def failed(self, query: QueryPass, why: str) -> None:
        """Make the trial void because its policy failed, unless it was over before."""
        with self._lock:
            if query.turn == self._turn:
                self._count_time()
                self._fail(why)

    def left(self, caller: str) -> None:
        """Note that a robot's connection ended."""
        with self._lock:
            self._gone.add(caller)

    def stray(self, what: str) -> None:
        """Show what a caller of another protocol should do."""
        with self._lock:
            self._note(what)

    # What the buttons do. The lock is held, and the phase was checked.

    def _start(self, words: Mapping[str, Any]) -> None:
        self._clear()
        self._append(TrialMove.STARTED, {'trial': self._state.done + 1})

    def _start_by_hand(self, words: Mapping[str, Any]) -> None:
        self._clear()
        self._append(TrialMove.STARTED, {'trial': 0, 'human': True})

    def _end(self, words: Mapping[str, Any]) -> None:
        self._append(TrialMove.ENDED, {
            'seconds': round(self._seconds, 3), 'by_hand_s': round(self._by_hand_s, 3),
            'queries': self._queries})
        if self._clips is not None:
            self._clips.end(self._take())

    def _score(self, words: Mapping[str, Any]) -> None:
        said = said_of_trial(words, self.study)
        if is_judged(self.trials, self._state.done) and not self._state.by_hand:
            self._append(TrialMove.SCORED, said)
        else:
            self._finish_trial(said)

    def _judge(self, words: Mapping[str, Any]) -> None:
        scored = self._state.last(TrialMove.SCORED)
        assert scored is not None    # the phase JUDGING follows it
        self._finish_trial({**scored.data, **said_of_block(words)})

    def _void(self, words: Mapping[str, Any]) -> None:
        reason = reason_of(words, 'the trial does not count')
        if self._state.phase in RUN:
            self._end(words)
        self._finish_trial({'void': reason, 'evaluator': str(words.get('evaluator') or '')})

    def _undo(self, words: Mapping[str, Any]) -> None:
        entry = self._state.undoable()
        if entry is None:
            raise Conflict('nothing can be taken back now: the robot has moved since')
        if entry.move == StudyMove.TRIAL:
            self._append(StudyMove.UNDONE, {
                name: entry.data[name] for name in ('trial', 'human') if name in entry.data})
        else:
            self._append(TrialMove.UNDO, {})
        if entry.move == TrialMove.ENDED:
            self._seconds = float(entry.data['seconds'])
            self._by_hand_s = float(entry.data['by_hand_s'])

    def _reveal(self, words: Mapping[str, Any]) -> None:
        planned = self._decided or self._state.phase is TrialPhase.DONE
        reason = '' if planned else reason_of(words, 'the study ends before its last trial')
        self._append(StudyMove.REVEALED, {'seed': self._seed, 'reason': reason})

    # What the others are made of.

    def _possible(self, name: str, words: Mapping[str, Any]) -> 'Work':
        """Return what does a move; Conflict where it is not possible, or its page is behind."""
        if name not in MOVES:
            raise Conflict(f"there is no move '{name}'; known: {', '.join(MOVES)}")
        phases, work = MOVES[name]
        if self._state.phase not in phases:
            raise Conflict(f"'{name}' is not possible now: {self._where()}")
        if words.get('version', self._turn) != self._turn:
            raise Conflict('somebody else pressed a button meanwhile, and this page was behind; '
                           'look again')
        return work

    def _append(self, move: TrialMove | StudyMove, data: Mapping[str, Any],
                sync: bool = True) -> None:
        """Write an entry, and go to where it leads."""
        self._journal.append(move.value, data, sync)
        self._look()
        if move in (StudyMove.TRIAL, StudyMove.UNDONE):
            self._decide()
        if move.value not in SILENT_MOVES:
            self.notice = ''

    def _look(self) -> None:
        entries = self._journal.entries
        self._state = state_of(entries, len(self.trials))
        self._turn = sum(entry.move not in SILENT_MOVES for entry in entries)

    def _decide(self) -> None:
        """Ask the test that the study has chosen whether it may end; not who is better."""
        done = self._state.done
        self._decided = done > 0 and ends_block(self.trials, done - 1) and is_decided(
            replay(self._journal.entries, str(self._journal.path)), self._seed)

    def _clear(self) -> None:
        """Forget what was counted of the trial before."""
        self._caller: str | None = None
        self._gone: set[str] = set()
        self._queries = 0
        self._seconds = self._by_hand_s = 0.0
        self._since_ns = self._asked_ns = self._clock.steady_ns()

    def _count_time(self) -> None:
        """Add the time since the last look to what the trial took; it begins with a query."""
        now_ns = self._clock.steady_ns()
        spent_s = 1e-9 * (now_ns - self._since_ns)
        self._since_ns = now_ns
        begun = self._caller is not None or self._state.by_hand
        if begun and self._state.phase in RUN:
            self._seconds += spent_s
        if self._state.phase is TrialPhase.PAUSED:
            self._by_hand_s += spent_s

    def _bind(self, caller: str) -> None:
        """Let one robot run the trial. The lock is held. Raises PolicyRefused for another one."""
        if caller == self._caller:
            return
        if self._caller is None:
            self._count_time()
            self._caller = caller
            self._append(TrialMove.ASKED, {}, sync=False)
            return
        silent_s = 1e-9 * (self._clock.steady_ns() - self._asked_ns)
        if self._caller not in self._gone and silent_s < SILENT_S:
            self._note(f'a second robot asked for an action and got an error: {OTHER_ROBOT}')
            raise PolicyRefused(OTHER_ROBOT)
        self._caller = caller
        self._note("the robot's program connected again in this trial; if it began the task "
                   'anew, press Does not count')

    def _finish_trial(self, said: Mapping[str, Any]) -> None:
        trial, clips, take = self.trial, self._clips, self._take()
        assert trial is not None
        clip = ''
        if clips is not None and not self._state.by_hand:
            clips.end(take)
            clip = clips.clip(take)
        self._append(StudyMove.TRIAL, plain_result(result_of(
            trial, self._version, self._state, {**said, 'clip': clip})))

    def _take(self) -> str:
        return take_name(self._version, self._state.done + 1, self._state.attempt)

    def _ready_clips(self, trial: ScheduledTrial) -> dict[str, str]:
        """Return the written clips of the block that waits for a verdict, by slot."""
        if self._clips is None or self._state.phase not in (P.SCORING, P.JUDGING):
            return {}
        found = {str(entry.data['slot']): str(entry.data.get('clip', ''))
                 for entry in self._state.moves if entry.move == StudyMove.TRIAL
                 and not entry.data.get('void') and entry.data['block'] == trial.block}
        found[trial.slot] = self._clips.clip(self._take())
        return {slot: clip for slot, clip in found.items() if self._clips.ready(clip)}

    def _fail(self, why: str) -> None:
        """Make the trial void; it is run again."""
        if not self._state.last(TrialMove.FAILED):
            self._append(TrialMove.FAILED, {'why': why})
        self._finish_trial({'void': why})
        self._note(f'this trial is void, and nothing of it counts: {why}. Put the scene back and '
                   'start it again')

    def _note(self, text: str) -> None:
        """Show a sentence on the page and the terminal until the next button."""
        if text != self.notice:
            self.notice = text
            self._journal.append(TrialMove.NOTICED.value, {'text': text}, sync=False)
            self._tell(text)

    def _where(self) -> str:
        if self._state.by_hand and self._state.phase in RUN:
            return BY_HAND
        return NOT_NOW.get(self._state.phase, 'a trial runs')

    def _check_clock(self) -> None:
        """Note when the clock was set, and when the computer slept; a trial is void then."""
        slept_s = 1e-9 * (self._slept() - self._slept_ns)
        jump_s = self._jumps.jump_s() - (slept_s if slept_s > SLEPT_S else 0.0)
        if slept_s > SLEPT_S:
            self._slept_ns = self._slept()
            if self._state.phase in RUN:
                self._fail(f'this computer slept for {slept_s:.0f} s in the middle of it')
            else:
                self._note(f'this computer slept for {slept_s:.0f} s; nothing is lost')
        if abs(jump_s) > SLEPT_S:
            self._note(f'the clock of this computer was set by {jump_s:+.0f} s; how long trials '
                       'take is measured without it, and the times of day in the journal jump')


Work = Callable[[StudyDesk, Mapping[str, Any]], None]
P = TrialPhase


def _writes(move: TrialMove) -> Work:
    """Return what does a move that has nothing more to say."""
    return lambda desk, words: desk._append(move, {})


MOVES: dict[str, tuple[tuple[TrialPhase, ...], Work]] = {
    'start': ((P.READY,), StudyDesk._start),
    'human': ((P.READY,), StudyDesk._start_by_hand),
    'pause': ((P.RUNNING,), _writes(TrialMove.PAUSED)),
    'resume': ((P.PAUSED,), _writes(TrialMove.RESUMED)),
    'end': (RUN, StudyDesk._end),
    'score': ((P.SCORING,), StudyDesk._score),
    'judge': ((P.JUDGING,), StudyDesk._judge),
    'void': ((*RUN, P.SCORING, P.JUDGING), StudyDesk._void),
    'undo': (tuple(P), StudyDesk._undo),
    'rest': ((P.READY,), _writes(TrialMove.REST)),
    'back': ((P.BREAK,), _writes(TrialMove.BACK)),
    'reveal': ((P.READY, P.DONE), StudyDesk._reveal)}
