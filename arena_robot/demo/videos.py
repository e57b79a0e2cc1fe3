"""
Derives the files of each slot in a separate process while sessions run.

The process (:func:`main`) reads folders of episodes from standard input, one a line, and prints
a line of JSON for each: the ``folder``, a list of what is ``wrong`` with it, whether it is
``lossy``.
"""

import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from arena_robot.core.episode import Slot
from arena_robot.core.errors import ArenaError
from arena_robot.core.process import Process
from arena_robot.recording.episode.check import FindingLevel, check
from arena_robot.recording.episode.derive import derive
from arena_robot.records.episode_file import has_episode
from arena_robot.session.evaluator.desk import DeskState
from arena_robot.session.protocol.states import State

log = logging.getLogger(__name__)

WAIT_S = 300.0    # after it a session is sent without its videos
# In these states a slot's recording is finished.
AFTER = {State.SCORING_A: (Slot.A,), State.RESET: (Slot.A,), State.RUNNING_B: (Slot.A,),
         State.SCORING_B: tuple(Slot), State.PREFERENCE: tuple(Slot), State.REVIEW: tuple(Slot)}
NICE = 5    # below the station's nodes, above the audits
# Findings that a busy machine can cause; the bag can still be read.
LOSSES = ('losses', 'arm rate')
FOLLOW = ('arm stamps', 'pictures', 'chunks', 'episode info', 'journal')


class Videos:
    """
    Derives and checks the files of each slot as soon as its bag is complete.

    Call it with every state of a session; in REVIEW it returns when the files of both slots are
    derived, so that they are uploaded with the bags.
    """

    def __init__(self, sessions: Path, log_file: Path) -> None:
        self._sessions = sessions
        self._process = Process('video deriver',
                                [sys.executable, '-m', 'arena_robot.demo.videos'], log_file,
                                pipes=True)
        self._asked: set[Path] = set()
        self._wrong: dict[Path, list[str]] = {}
        self._news = threading.Condition()
        self.lossy: set[Path] = set()

    def __enter__(self) -> 'Videos':
        self._process.start()
        threading.Thread(target=self._listen, name='videos', daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # Files are written atomically, and can be derived again.
        self._process.kill()

    def __call__(self, state: DeskState) -> None:
        """Start the derivation of finished slots; in REVIEW wait for its end."""
        slots = AFTER.get(state.state, ())
        for slot in slots:
            folder = self._sessions / state.session_id / slot.value
            if (folder / 'metadata.yaml').exists():
                self._ask(folder)
        if state.state is State.REVIEW:
            self._wait(self._sessions / state.session_id)

    def wrong_with(self, session: Path) -> list[str]:
        """Return the problems of the two episodes of a session."""
        for slot in Slot:
            self._ask(session / slot.value)
        self._wait(session)
        return [f'{slot.value}: {text}' for slot in Slot
                for text in self._wrong.get(session / slot.value, ['it was not checked'])]

    def _ask(self, folder: Path) -> None:
        if folder in self._asked:
            return
        self._asked.add(folder)
        try:
            self._process.stdin.write(f'{folder}\n')
        except OSError as error:
            log.error('no videos of %s: %s', folder, error)
            self._wrong[folder] = [str(error)]

    def _wait(self, session: Path) -> None:
        wanted = [session / slot.value for slot in Slot if session / slot.value in self._asked]
        with self._news:
            self._news.wait_for(lambda: all(f in self._wrong for f in wanted), WAIT_S)

    def _listen(self) -> None:
        for line in self._process.stdout:
            report = json.loads(line)
            for text in report['wrong']:
                log.warning('%s: %s', report['folder'], text)
            if report['lossy']:
                self.lossy.add(Path(report['folder']))
            with self._news:
                self._wrong[Path(report['folder'])] = list(report['wrong'])
                self._news.notify_all()


def main() -> None:
    """Process episodes until standard input is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICE)
    for line in sys.stdin:
        folder = Path(line.rstrip('\n'))
        try:
            if not has_episode(folder):
                derive(folder)
            wrong, lossy = wrong_with(folder)
        except (ArenaError, OSError) as error:
            wrong, lossy = [f'{type(error).__name__}: {error}'], False
        print(json.dumps({'folder': str(folder), 'wrong': wrong, 'lossy': lossy}), flush=True)


def wrong_with(folder: Path) -> tuple[list[str], bool]:
    """Return what is missing or damaged, and whether messages were lost while recording."""
    failures = [f for f in check(folder).findings if f.level is FindingLevel.FAILURE]
    lossy = any(f.what in LOSSES for f in failures)
    problems = [f'{f.what}: {f.text}' for f in failures if f.what not in LOSSES
                and not (lossy and f.what.startswith(FOLLOW))]
    if not list(folder.glob('*.mp4')):
        problems.append('there is no video')
    return problems, lossy


if __name__ == '__main__':
    main()
