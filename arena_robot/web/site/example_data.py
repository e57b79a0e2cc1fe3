"""
Made-up sessions that fill every page of a site, for people who want to see one first.

A server with example data says so on every page, and its policies are called example-…; who fills
one gives its folder up for anything real.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

import numpy as np

from arena_robot.core.clock import DAY_NS, Clock, to_iso
from arena_robot.core.episode import CONTROL_RATE_HZ, Preference, Slot
from arena_robot.core.errors import Conflict
from arena_robot.recording.episode.frames import rgb_frame, write_video
from arena_robot.records.roboarena import RoboArenaRollout, RoboArenaSession
from arena_robot.server.app import ArenaServer
from arena_robot.server.base import PolicyState, Role
from arena_robot.server.files import FileId, ManifestEntry, checked_manifest
from arena_robot.server.sessions.acceptance import enter_imported
from arena_robot.server.store.evaluations import insert_evaluations
from arena_robot.server.store.files import store_manifest
from arena_robot.server.store.policies import NewPolicy
from arena_robot.web.site.server_jobs import save_reports

OWNER = 'example data'    # the account of the policies; a server that has it has example data
# By policy its strength in log odds, and what its reports say went wrong.
POLICIES = {'example-swift': (1.1, 'it was quick and sure'),
            'example-steady': (0.6, 'it was slow, and got there'),
            'example-eager': (0.0, 'it grasped before it was above the object'),
            'example-shy': (-0.4, 'it waited beside the object'),
            'example-lost': (-1.3, 'it went for another object')}
TASKS = ('put the cup into the bowl', 'open the top drawer', 'stack the blocks', 'close the box',
         'wipe the table', 'put the pen into the mug', 'fold the towel', 'knock over the bottle')
LABS = {'Example University': ('ada', 'ben'), 'Example Institute': ('chen', 'dora'),
        'Example Robotics': ('emil', 'fay')}
SESSIONS, DAYS, TIES, SEED = 180, 90, 0.15, 7    # enough for intervals that tell some apart
FILMED, FILM_STEPS, WIDTH, HEIGHT = 3, 60, 320, 180    # newest with a film of 4 s


def is_example(arena: ArenaServer) -> bool:
    """Tell whether a server has example data."""
    return OWNER in arena.accounts.names()


def fill(arena: ArenaServer, clock: Clock) -> None:
    """Fill a server that is open and empty; Conflict when its database holds anything."""
    if arena.accounts.names() or arena.policies.list():
        raise Conflict('example data is for a new server: this database holds accounts or '
                       'policies; name an empty folder with --data')
    owner = arena.accounts.add_account(OWNER, 'Example Robotics', [Role.OWNER])
    for name, (strength, _) in POLICIES.items():
        arena.policies.add(NewPolicy(
            name, 'grpc://example.invalid:8000', 'Example data: there is no such policy.',
            open_source=strength > 0.0), owner.id, PolicyState.RETIRED)
    given = list(_sessions(np.random.default_rng(SEED), clock.now_ns()))
    insert_evaluations(arena.database, clock, given)
    with TemporaryDirectory(prefix='arena-example-') as folder:
        for session in given[-FILMED:]:
            for slot, rollout in session.slots().items():
                _store_film(arena, clock, session.session_id, slot, _film(
                    Path(folder) / f'{session.session_id}{slot}.mp4', rollout.progress or 0.0))
    enter_imported(arena.database, arena.log)
    for _ in save_reports(arena.database, arena.blobs, clock):
        continue
    arena.results.forget()


def _sessions(rng: np.random.Generator, now_ns: int) -> Iterator[RoboArenaSession]:
    """Yield sessions, oldest first; verdicts follow the strengths, ties as often as ``TIES``."""
    names, labs = list(POLICIES), list(LABS)
    for number in range(SESSIONS):
        a, b = (names[k] for k in rng.choice(len(names), 2, replace=False))
        win = 1.0 / (1.0 + np.exp(POLICIES[b][0] - POLICIES[a][0]))
        chances = [win * (1.0 - TIES), (1.0 - win) * (1.0 - TIES), TIES]
        preference = list(Preference)[rng.choice(3, p=chances)]
        began_ns = now_ns - (SESSIONS - number) * DAYS * DAY_NS // SESSIONS
        lab = labs[rng.integers(len(labs))]
        loser = b if preference is Preference.A else a
        why = 'both came as far' if preference is Preference.TIE else f'of {loser}: ' + \
            POLICIES[loser][1]
        task = TASKS[rng.integers(len(TASKS))]
        yield RoboArenaSession(
            str(UUID(bytes=rng.bytes(16), version=4)), a, b, True, preference, lab,
            f'example-{LABS[lab][rng.integers(2)]}', to_iso(began_ns),
            to_iso(began_ns + 480 * 10**9), f'{why} (made up)', rollouts=tuple(
                _rollout(rng, name, slot, task, preference)
                for slot, name in zip('AB', (a, b), strict=True)))


def _rollout(rng: np.random.Generator, name: str, slot: str, task: str,
             preference: Preference) -> RoboArenaRollout:
    better = preference.value == slot or preference is Preference.TIE
    progress = round(float(rng.beta(5, 2) if better else rng.beta(2, 4)), 2)
    return RoboArenaRollout(name, slot, progress, int(rng.integers(100, 400)), task)


def _film(path: Path, progress: float) -> Path:
    """Write a drawn block that gets as far towards its goal as the rollout did."""
    frames = []
    for step in range(FILM_STEPS):
        picture = np.full((HEIGHT, WIDTH, 3), 235, np.uint8)
        picture[60:130, 250:300] = (190, 215, 190)
        x = 20 + round(230 * progress * step / FILM_STEPS)
        picture[80:110, x:x + 30] = (70, 100, 190)
        frames.append((round(step * 1e9 / CONTROL_RATE_HZ), rgb_frame(picture)))
    write_video(path, frames)
    return path


def _store_film(arena: ArenaServer, clock: Clock, session_id: str, slot: str, film: Path) -> None:
    data, file = film.read_bytes(), FileId(session_id, Slot(slot).value, 'left.mp4')
    sha256 = hashlib.sha256(data).hexdigest()
    arena.uploads.begin(file, len(data), sha256)
    arena.uploads.append(file, 0, data)
    arena.uploads.finish(file)
    with arena.database.write() as connection:
        store_manifest(connection, session_id, slot, checked_manifest(
            [ManifestEntry(file.path, len(data), sha256)]), clock.now_ns())
