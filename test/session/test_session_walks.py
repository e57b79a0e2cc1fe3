"""
Any buttons in any order, with kills and a cut line: what docs/invariants.md promises of a session.

A rule presses a button in whatever state the session is in. A refused press changes nothing; an
accepted one is kept, also over a kill, which restarts the station on what was on the disk then.
"""

import dataclasses
import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

import hypothesis.strategies as st
from conducted_station import NAMES, Station
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from arena_robot.core.episode import EndReason, Preference, Slot
from arena_robot.core.errors import ArenaError
from arena_robot.core.verdict import Verdict, scored
from arena_robot.records.session_file import read_journal
from arena_robot.session.protocol.record import replay
from arena_robot.session.protocol.states import TRANSITIONS, Move, State

SLOTS = st.sampled_from(list(Slot))
WORDS = st.sampled_from(('', 'the cable was in the way', 'A closed its gripper on the cube'))
STEPS = 6


class WalkStation(Station):
    """A station whose policies fail at their second answer in a rollout while ``fails``."""

    fails = False

    def _connect(self, entry):
        policy = super()._connect(entry)
        self.tell(policy)
        return policy

    def tell(self, policy):
        policy.fail_at = len(policy.asked) + 2 if self.fails else None


class SessionWalk(RuleBasedStateMachine):
    """
    ``said`` are the words that were accepted in the present session, by field.

    ``reached`` are the states and ends of rollouts of all walks, which the test looks at.
    """

    reached: ClassVar[set] = set()

    def __init__(self):
        super().__init__()
        self.home = Path(tempfile.mkdtemp(prefix='walk-'))
        self.folder, self.kills, self.said = self.home / '0', 0, {}
        self.station, self.promise, self.moved = None, '', 0

    def teardown(self):
        if self.station:
            self.station.conductor.close()
        shutil.rmtree(self.home)

    @initialize()
    def begin(self):
        self.started()
        self.press(self.conductor.check)

    @property
    def conductor(self):
        return self.station.conductor

    def started(self):
        self.station = WalkStation(self.folder, steps=STEPS)
        assert ('stop', None) in self.station.arm.log, 'a station that starts stops its arm'
        self.moved = self.commands()

    def commands(self):
        return sum(kind == 'q' for kind, _ in self.station.arm.log)

    def press(self, button, *given, **said):
        """Press; return whether it was accepted, and keep the words that were said with it."""
        before, refused = self.conductor.record, None
        try:
            button(*given)
        except ArenaError as error:
            refused = str(error)
        if refused is not None:
            after = self.conductor.record
            assert refused, 'an error says what to do'
            # A task is kept where the arena does not answer.
            kept = (after.state is State.TASK_ENTERED
                    and before.state in (State.PREFLIGHT, State.TASK_ENTERED))
            assert kept or after == before, f'a refused press changed the session: {refused}'
            return False
        if self.conductor.record.session_id != before.session_id:
            self.said = {}
        self.said |= said
        self.reached.add(self.conductor.record.state)
        return True

    def ahead(self):
        """Press what a good session needs next, but do not start a rollout."""
        state = self.conductor.record.state
        slots = {State.SCORING_A: Slot.A, State.SCORING_B: Slot.B}
        if state in slots:
            self.score(slots[state], 0.25, 'quick')
        elif state in (State.PREFLIGHT, State.TASK_ENTERED):
            self.enter_task('put the cube in the bowl', True)
        elif state is State.PREFERENCE:
            self.judge(Preference.B, 'B closed its gripper on the cube')
        else:
            {State.ASSIGNED: self.photograph, State.REVIEW: self.submit, State.RESET: self.reset,
             State.SUBMITTING: self.deliver}.get(state, self.check)()

    def due(self, slot):
        """Go where a rollout can begin, in most cases; return the slot that is due there."""
        for _ in range(6):
            if self.conductor.record.state in (State.START_PHOTOGRAPHED, State.RESET):
                break
            self.ahead()
        if self.conductor.record.state is State.RESET:
            self.reset()
            return Slot.B if self.conductor.record.slots[Slot.A].end else Slot.A
        return Slot.A if self.conductor.record.state is State.START_PHOTOGRAPHED else slot

    @rule(times=st.integers(1, 8))
    def go_on(self, times):
        for _ in range(times):
            if self.conductor.record.state in (State.START_PHOTOGRAPHED, State.RESET):
                self.run(self.due(Slot.A), None, False, False)
            else:
                self.ahead()

    @rule()
    def check(self):
        self.press(self.conductor.check)
        if self.conductor.record.state is State.PREFLIGHT:
            self.said, self.promise = {}, ''

    @rule(task=st.sampled_from(('put the cube in the bowl', 'open the drawer', '  ')),
          repeat=st.booleans())
    def enter_task(self, task, repeat):
        self.press(self.conductor.enter_task, 'ada', task, repeat)
        self.promise = self.promise or self.conductor.record.commitment

    @rule()
    def photograph(self):
        self.press(self.conductor.photograph)

    @rule(step=st.integers(0, STEPS - 1))
    def stopped_in_a_rollout(self, step):
        self.run(Slot.A, step, False, True)

    @rule()
    def failed_in_a_rollout(self):
        self.run(Slot.A, None, True, True)

    @rule(slot=SLOTS, stop=st.one_of(st.none(), st.integers(0, STEPS - 1)), fails=st.booleans(),
          due=st.booleans())
    def run(self, slot, stop, fails, due):
        """Run a slot to its end, to a STOP at a step, or to the policy's failure."""
        slot = self.due(slot) if due else slot
        self.station.hall.at = {} if stop is None else {stop: self.conductor.stop}
        self.station.fails = fails
        for policy in self.station.policies:
            self.station.tell(policy)
        before = self.conductor.record.state
        if self.press(self.conductor.run, slot):
            assert before in (State.START_PHOTOGRAPHED, State.RESET)
            record = self.conductor.record
            assert record.state is (State.SCORING_A if slot is Slot.A else State.SCORING_B)
            self.reached.add(record.slots[slot].end)
            if stop is not None and record.slots[slot].end is EndReason.STOPPED:
                assert record.slots[slot].steps <= stop + 1
                last = [kind for kind, _ in self.station.arm.log][-1]
                assert last == 'stop', 'nothing moves the arm after STOP'
        self.moved = self.commands()

    @rule(slot=SLOTS, step=st.integers(0, STEPS - 1))
    def killed_in_a_rollout(self, slot, step):
        """Let the machine lose its power at a step: only what was on the disk then is left."""
        slot = self.due(slot)
        copy = self.home / f'copy{self.kills}'
        self.station.hall.at = {step: lambda: shutil.copytree(self.folder, copy)}
        self.press(self.conductor.run, slot)
        if copy.exists():
            self.restart(copy)
            record = self.conductor.record
            assert record.state is (State.SCORING_A if slot is Slot.A else State.SCORING_B)
            assert record.slots[slot].end is EndReason.INTERRUPTED
            assert 'interrupted' in record.notice
            self.reached.add(EndReason.INTERRUPTED)
        self.moved = self.commands()

    @rule()
    def killed(self):
        record = self.conductor.record
        copy = self.home / f'copy{self.kills}'
        shutil.copytree(self.folder, copy)
        self.restart(copy)
        again = self.conductor.record
        if record.state.is_final or record.state in (State.IDLE, State.SUBMITTING):
            return
        assert again.state is record.state
        assert (again.session_id, again.commitment) == (record.session_id, record.commitment)

    def restart(self, copy):
        cut, self.kills = self.station.arena.cut, self.kills + 1
        self.conductor.close()
        self.folder = self.home / f'{self.kills}'
        copy.rename(self.folder)
        self.started()
        self.station.arena.cut = cut

    @rule(slot=SLOTS, progress=st.sampled_from((0.0, 0.25, 1.0, 1.5)), notes=WORDS)
    def score(self, slot, progress, notes):
        name = slot.value.lower()
        self.press(self.conductor.score, slot, scored(slot, progress, notes),
                   **{f'progress_{name}': progress, f'notes_{name}': notes})

    @rule(reason=WORDS)
    def rerun(self, reason):
        slot = {State.SCORING_A: 'a', State.SCORING_B: 'b'}.get(self.conductor.record.state)
        if self.press(self.conductor.rerun, reason):
            for word in ('progress', 'notes'):
                self.said.pop(f'{word}_{slot}', None)

    @rule()
    def reset(self):
        if self.press(self.conductor.prepare_reset):
            self.press(self.conductor.confirm_reset)

    @rule(preference=st.sampled_from(list(Preference)), why=WORDS)
    def judge(self, preference, why):
        self.press(self.conductor.judge, Verdict(preference=preference, explanation=why),
                   preference=preference, explanation=why)

    @rule(reason=WORDS)
    def invalidate(self, reason):
        self.press(self.conductor.invalidate, reason)

    @rule()
    def revalidate(self):
        self.press(self.conductor.revalidate)

    @rule()
    def submit(self):
        self.press(self.conductor.submit)

    @rule()
    def deliver(self):
        self.conductor.deliver()
        self.reached.add(self.conductor.record.state)

    @rule()
    def stop(self):
        before = self.conductor.record
        self.conductor.stop()
        assert self.conductor.record == before, 'STOP outside a rollout ends nothing'

    @rule()
    def line(self):
        self.station.arena.cut = not self.station.arena.cut

    @rule(reason=WORDS)
    def abort(self, reason):
        self.press(self.conductor.abort, reason)

    @invariant()
    def nothing_moves_the_arm_but_a_rollout(self):
        if self.station:
            assert self.commands() == self.moved

    @invariant()
    def no_word_is_lost(self):
        if self.station and self.conductor.record.state not in (State.IDLE, State.PREFLIGHT):
            verdict = self.conductor.record.verdict
            kept = {name: getattr(verdict, name) for name in self.said}
            assert kept == self.said

    @invariant()
    def the_journal_alone_gives_the_session_back(self):
        record = self.conductor.record if self.station else None
        if record is None or not record.session_id:
            return
        entries = list(read_journal(self.folder / 'sessions' / record.session_id
                                    / 'journal.jsonl'))
        assert replay(entries) == record
        state = State.IDLE
        for entry in entries:
            state = TRANSITIONS[state, Move(entry.move)]
        assert state is record.state

    @invariant()
    def nobody_reads_a_name_before_the_reveal(self):
        record = self.conductor.record if self.station else None
        if record is None or record.state is State.DONE or not record.session_id:
            return
        assert not any(name in str(dataclasses.asdict(record)) for name in NAMES)
        for path in (self.folder / 'sessions' / record.session_id).rglob('*'):
            if path.is_file():
                content = path.read_bytes()
                assert not any(name.encode() in content for name in NAMES), path.name

    @invariant()
    def the_pair_stays_the_one_that_was_promised(self):
        if self.station and (record := self.conductor.record).commitment:
            assert record.commitment == (self.promise or record.commitment)
            self.promise = record.commitment
            if record.state is State.DONE and record.reveal:
                assert record.verified is True
                assert {record.reveal.policy_a, record.reveal.policy_b} == set(NAMES)


def test_any_buttons_in_any_order_break_no_promise():
    wanted = {State.DONE, State.ABORTED, State.PREFERENCE, EndReason.STOPPED, EndReason.TIMEOUT,
              EndReason.POLICY_ERROR, EndReason.INTERRUPTED}
    for _ in range(5):      # twenty random walks reach all of it nearly always
        run_state_machine_as_test(SessionWalk, settings=settings(
            max_examples=20, stateful_step_count=25, deadline=None,
            suppress_health_check=[HealthCheck.too_slow]))
        if wanted <= SessionWalk.reached:
            break
    assert wanted <= SessionWalk.reached
