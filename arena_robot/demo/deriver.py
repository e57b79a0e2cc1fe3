"""
Worker process: derives and checks the episodes named on standard input, one folder per line.

It prints a line of JSON for each: the ``folder``, a list of what is ``wrong`` with it, and whether
it is ``lossy``.
"""

import json
import os
import signal
import sys
from pathlib import Path

from arena_robot.core.errors import ArenaError
from arena_robot.recording.episode.check import FindingLevel, check
from arena_robot.recording.episode.derive import derive
from arena_robot.records.episode_file import has_episode

NICE = 5
# Findings that a busy machine can cause; the bag can still be read.
LOSSES = ('losses', 'arm rate')
FOLLOW = ('arm stamps', 'pictures', 'chunks', 'episode info', 'journal')


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
    found = [f'{f.what}: {f.text}' for f in failures if f.what not in LOSSES
             and not (lossy and f.what.startswith(FOLLOW))]
    if not list(folder.glob('*.mp4')):
        found.append('there is no video')
    return found, lossy


if __name__ == '__main__':
    main()
