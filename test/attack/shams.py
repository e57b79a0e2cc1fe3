"""
An evaluator and a station of one lab, and an owner of another, who agree on who is to win.

No verdict of theirs counts unless its rollouts passed the relay, took their time, and are in
recordings that fit; reports that a rival was unsafe keep it from their own station alone.
"""

import dataclasses
import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tally import Tally

sys.path.append(str(Path(__file__).resolve().parent.parent))
sys.path.append(str(Path(__file__).resolve().parent.parent / 'server'))

from arena_setting import NAMES, SENT, STATION, Setting, episode, recorded

from arena_robot.core.episode import Slot
from arena_robot.core.observation import Image
from arena_robot.policy.examples.simple import Echo
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.records.episode_file import EpisodeFile, write_episode
from arena_robot.server.base import PolicyState, Role, Station
from arena_robot.session.arena.contract import INVALID, PROMPT, VERDICT, observation

LENGTH, STEPS = 8, 16
OF_ONE_PERSON = 25    # after 30 sessions that wait for their files nobody gets another pair
Sham = Callable[[Any, str, Path], None]


def _query(arena: Any, session_id: str, slot: Slot, steps: int = STEPS,
           pause_s: float = 0.0, images: Mapping[str, Image] | None = None) -> None:
    policy, seen = arena.policy(session_id, slot), observation()
    for step in range(0, steps, LENGTH):
        policy.infer(dataclasses.replace(seen, step=step, images=images or seen.images),
                     session_id)
        time.sleep(pause_s)


def _send(arena: Any, session_id: str, slot: Slot, home: Path, steps: int = STEPS) -> None:
    arena.upload(session_id, dataclasses.replace(episode(session_id, slot), steps=steps), home)


def nothing_ran(arena: Any, session_id: str, folder: Path) -> None:
    """Send recordings without a query."""
    for slot in Slot:
        _send(arena, session_id, slot, recorded(folder / slot.value, session_id, slot, STEPS))


def sixteen_bytes(arena: Any, session_id: str, folder: Path) -> None:
    """Send one query a slot, one step, and sixteen bytes that are called a recording."""
    for slot in Slot:
        _query(arena, session_id, slot, 1)
        home = folder / slot.value
        home.mkdir(parents=True)
        (home / 'A_0.mcap').write_bytes(f'sixteen bytes {slot.value}!'.encode())
        (home / 'metadata.yaml').write_text('version: 9\n')
        write_episode(home, EpisodeFile(session_id, slot.value, PROMPT, steps=1))
        _send(arena, session_id, slot, home, 1)


def hurried(arena: Any, session_id: str, folder: Path) -> None:
    """Send all queries at once, and a recording whose stamps say that they took their time."""
    now_ns = time.time_ns()
    for slot in Slot:
        _query(arena, session_id, slot, 160)
        _send(arena, session_id, slot,
              recorded(folder / slot.value, session_id, slot, 160, now_ns), 160)


def another_recording(arena: Any, session_id: str, folder: Path) -> None:
    """Send a recording of another session."""
    for slot in Slot:
        _query(arena, session_id, slot, STEPS, 0.6)
        home = recorded(folder / slot.value, 'another session', slot, STEPS)
        write_episode(home, EpisodeFile(session_id, slot.value, PROMPT, steps=STEPS))
        _send(arena, session_id, slot, home)


def old_recording(arena: Any, session_id: str, folder: Path) -> None:
    """Send a recording that was made an hour ago, for queries of now."""
    for slot in Slot:
        _query(arena, session_id, slot, STEPS, 0.6)
        _send(arena, session_id, slot, recorded(
            folder / slot.value, session_id, slot, STEPS, time.time_ns() - 3600 * 10**9))


def replayed_pictures(arena: Any, session_id: str, folder: Path) -> None:
    """Show the policy other pictures than the station records."""
    white = {name: Image(np.full((90, 160, 3), 255, np.uint8), 0) for name in observation().images}
    for slot in Slot:
        begun_ns = time.time_ns()
        _query(arena, session_id, slot, STEPS, 0.7, white)
        _send(arena, session_id, slot,
              recorded(folder / slot.value, session_id, slot, STEPS, begun_ns))


def other_observations(arena: Any, session_id: str, folder: Path) -> None:
    """Send a recording of other observations than those that passed the relay."""
    for slot in Slot:
        begun_ns = time.time_ns()
        _query(arena, session_id, slot, STEPS, 0.7)
        SENT[session_id, slot.value, 0] = 'f' * 64
        _send(arena, session_id, slot,
              recorded(folder / slot.value, session_id, slot, STEPS, begun_ns))


def honest(arena: Any, session_id: str, folder: Path) -> None:
    """Run both slots as a station does."""
    for slot in Slot:
        begun_ns = time.time_ns()
        _query(arena, session_id, slot, STEPS, 0.7)
        _send(arena, session_id, slot,
              recorded(folder / slot.value, session_id, slot, STEPS, begun_ns))


SHAMS: tuple[Sham, ...] = (nothing_ran, sixteen_bytes, hurried, another_recording, old_recording,
                           replayed_pictures, other_observations)


def shams(folder: Path, count: int, seed: int = 1) -> Tally:
    """Return what became of so many verdicts that were made up, and of one honest one."""
    tally, rng = Tally('shams of a colluding lab'), random.Random(seed)
    with GrpcPolicyServer(Echo()) as first, GrpcPolicyServer(Echo()) as second:
        setting = Setting(folder / 'server', '', dict(zip(
            NAMES[:2], (first.address, second.address), strict=True)), max_pace=1.25)
        try:
            begin_s = time.monotonic()
            for number in range(count):
                if number % OF_ONE_PERSON == 0:
                    arena = _colluding(setting, f'eve{number}')
                sham = SHAMS[number % len(SHAMS)]
                tally.tried += 1
                if _counts(arena, sham, folder / str(number), rng):
                    tally.note('wrong', sham.__name__)
            tally.remarks.append(f'{count} shams in {time.monotonic() - begin_s:.0f} s')
            _report_rivals(setting, _colluding(setting, 'mallory'), tally)
            tally.tried += 1
            if not _counts(setting.arena(), honest, folder / 'honest', rng):
                tally.note('losses', 'an honest session does not count')
        finally:
            setting.close()
    return tally


def _colluding(setting: Setting, person: str) -> Any:
    """Return the arena as a new person of the colluding lab sees it, at a station of her own."""
    accounts, station = setting.server.accounts, f'station of {person}'
    setting.tokens[person] = accounts.issue(accounts.add_account(
        person, 'colluders', [Role.EVALUATOR]))
    setting.tokens[station] = accounts.issue(accounts.add_station(
        Station(0, station, 'colluders', 'fr3')))
    return setting.arena(station, person)


def _counts(arena: Any, run: Sham, folder: Path, rng: random.Random) -> bool:
    who = next(iter(arena._people))
    session_id = arena.assign(STATION, who, f'{PROMPT} {rng.randrange(10**9)}').session_id
    run(arena, session_id, folder)
    arena.feedback(session_id, VERDICT)
    return bool(arena.standing(session_id)[0])


def _report_rivals(setting: Setting, arena: Any, tally: Tally) -> None:
    """Call both policies unsafe after a rollout; nobody else may lose them."""
    session_id = arena.assign(STATION, next(iter(arena._people)), PROMPT).session_id
    for slot in Slot:
        _query(arena, session_id, slot, 1)
    arena.feedback(session_id, dataclasses.replace(INVALID, unsafe_a=True, unsafe_b=True))
    tally.tried += 1
    if any(policy.state is not PolicyState.POOL for policy in setting.server.policies.list()):
        tally.note('wrong', 'one person suspended a policy')
