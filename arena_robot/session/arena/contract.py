"""
Contract tests for implementations of Arena.

Subclass :class:`ArenaContract` in a test module and give it ``arena()`` and ``folder()``; test
runners collect the ``test_`` methods. Uses plain asserts and needs no test library.
"""
# ruff: noqa: D102 - the names of tests say what they check

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

from arena_robot.core.episode import EndReason, Episode, Preference, Slot
from arena_robot.core.errors import ArenaError, Conflict, ServerError
from arena_robot.core.observation import ArmState, GripperState, Image, Observation
from arena_robot.core.verdict import Verdict
from arena_robot.session.base import Arena, Assignment, StationInfo

STATION = StationInfo('bench', 'panda')
PROMPT = 'put the red cube in the bowl'
VERDICT = Verdict(progress_a=0.75, progress_b=0.25, preference=Preference.A,
                  explanation='A finished, B dropped the cube')
INVALID = Verdict(valid=False, invalid_reason='a camera fell down')
_STEPS = 10


def observation() -> Observation:
    """Return a synthetic observation with all six views, for policies under test."""
    zeros = np.zeros(7)
    arm = ArmState(0, zeros, zeros, zeros, zeros, np.zeros(6), zeros)
    views = ('left_left', 'left_right', 'right_left', 'right_right', 'wrist_left', 'wrist_right')
    pixels = np.zeros((90, 160, 3), np.uint8)
    return Observation(0, arm, GripperState(0, 0.0, 0.085, 0.0), PROMPT, 0,
                       {name: Image(pixels, 0) for name in views})


def refused(kind: type[ArenaError], call: Callable[[], object]) -> ArenaError:
    """Return the error that ``call`` raises; fail when it raises none, or of another kind."""
    raised: ArenaError | None = None
    try:
        call()
    except ArenaError as error:
        raised = error
    assert isinstance(raised, kind), f'expected {kind.__name__}, got {raised!r}'
    return raised


class ArenaContract:
    """Tests of the interface :class:`arena_robot.session.base.Arena`."""

    def arena(self) -> Arena:
        """Return a fresh arena with at least three policies, one evaluator ``'ada'``."""
        raise NotImplementedError

    def folder(self, slot: Slot, session_id: str = '') -> Path:
        """Return a folder that looks like a recorded episode of ten steps."""
        raise NotImplementedError

    def names(self) -> tuple[str, ...]:
        """Return the names of the pool, which must not be visible before the reveal."""
        raise NotImplementedError

    def _assign(self, arena: Arena) -> Assignment:
        return arena.assign(STATION, 'ada', PROMPT)

    def _judged(self, arena: Arena) -> Assignment:
        pair = self._assign(arena)
        for slot in Slot:
            self._roll(arena, pair, slot)
        arena.feedback(pair.session_id, VERDICT)
        return pair

    def _roll(self, arena: Arena, pair: Assignment, slot: Slot) -> None:
        policy, token = arena.policy(pair.session_id, slot), f'{pair.session_id}-{slot.value}'
        for step in range(_STEPS):
            policy.infer(dataclasses.replace(observation(), step=step), token)
        arena.upload(pair.session_id, _episode(pair, slot), self.folder(slot, pair.session_id))

    def test_the_reveal_fits_the_commitment(self) -> None:
        arena = self.arena()
        pair = self._judged(arena)
        reveal = arena.reveal(pair.session_id)
        assert reveal.fits(pair.commitment)
        assert len(reveal.nonce) >= 32, 'a short nonce can be guessed'
        assert reveal.policy_a != reveal.policy_b
        assert {reveal.policy_a, reveal.policy_b} <= set(self.names())

    def test_an_assignment_tells_no_name(self) -> None:
        pair = self._assign(self.arena())
        for name in self.names():
            assert name not in f'{pair!r}'
        assert len(bytes.fromhex(pair.commitment)) == 32

    def test_two_sessions_share_nothing(self) -> None:
        arena = self.arena()
        first, second = self._assign(arena), self._assign(arena)
        assert first.session_id != second.session_id
        assert first.commitment != second.commitment

    def test_no_reveal_before_the_verdict(self) -> None:
        arena = self.arena()
        pair = self._assign(arena)
        error = refused(Conflict, lambda: arena.reveal(pair.session_id))
        assert not any(name in str(error) for name in self.names())

    def test_the_reveal_can_be_asked_for_again(self) -> None:
        arena = self.arena()
        pair = self._judged(arena)
        assert arena.reveal(pair.session_id) == arena.reveal(pair.session_id)

    def test_the_policies_answer(self) -> None:
        arena = self.arena()
        pair = self._assign(arena)
        for slot in Slot:
            policy = arena.policy(pair.session_id, slot)
            chunk = policy.infer(observation(), f'{pair.session_id}-{slot.value}')
            assert chunk.actions.shape[1] == chunk.space.size(7)
            assert not any(name in repr(policy) for name in self.names())
            policy.reset(f'{pair.session_id}-{slot.value}')

    def test_a_slot_may_be_run_again(self) -> None:
        arena = self.arena()
        pair = self._assign(arena)
        policy, token = arena.policy(pair.session_id, Slot.A), f'{pair.session_id}-A'
        for _ in range(3):
            assert policy.infer(observation(), token).actions.size
            policy.reset(token)
        episode = dataclasses.replace(_episode(pair, Slot.A), detail='run again 2 times: fault')
        for _ in range(2):
            arena.upload(pair.session_id, episode, self.folder(Slot.A))

    def test_the_same_verdict_again_is_accepted(self) -> None:
        arena = self.arena()
        pair = self._judged(arena)
        arena.feedback(pair.session_id, VERDICT)

    def test_another_verdict_is_a_conflict(self) -> None:
        arena = self.arena()
        pair = self._judged(arena)
        other = dataclasses.replace(VERDICT, preference=Preference.B)
        refused(Conflict, lambda: arena.feedback(pair.session_id, other))

    def test_an_invalid_session_needs_no_preference(self) -> None:
        arena = self.arena()
        pair = self._assign(arena)
        self._roll(arena, pair, Slot.A)
        arena.feedback(pair.session_id, INVALID)

    def test_a_session_without_any_rollout_is_revealed_to_nobody(self) -> None:
        arena = self.arena()
        pair = self._assign(arena)
        arena.feedback(pair.session_id, INVALID)
        refused(Conflict, lambda: arena.reveal(pair.session_id))

    def test_an_upload_may_be_repeated(self) -> None:
        arena = self.arena()
        pair = self._assign(arena)
        for _ in range(2):
            arena.upload(pair.session_id, _episode(pair, Slot.A), self.folder(Slot.A))

    def test_an_aborted_session_is_over(self) -> None:
        arena = self.arena()
        pair = self._assign(arena)
        arena.abort(pair.session_id, 'the robot broke')
        arena.abort(pair.session_id, 'the robot broke')
        refused(Conflict, lambda: arena.heartbeat(pair.session_id, 'assigned'))
        refused(Conflict, lambda: arena.feedback(pair.session_id, VERDICT))
        refused(Conflict, lambda: arena.reveal(pair.session_id))

    def test_a_living_session_may_say_so(self) -> None:
        arena = self.arena()
        pair = self._assign(arena)
        arena.heartbeat(pair.session_id, 'running_a')

    def test_an_unknown_session_is_refused(self) -> None:
        nobody = '00000000-0000-4000-8000-000000000000'
        refused(ServerError, lambda: self.arena().reveal(nobody))


def _episode(pair: Assignment, slot: Slot) -> Episode:
    return Episode(pair.session_id, slot, PROMPT, _STEPS, EndReason.DONE, 1_000, 2_000)
