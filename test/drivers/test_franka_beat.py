"""The sign of life that the control process of a Franka reads."""

import subprocess
import sys
import time

from arena_robot.drivers.franka.board import FrankaBoard

BEATING = """
import itertools, sys
from pathlib import Path
from arena_robot.drivers.franka.board import FrankaBoard
board = FrankaBoard(Path(sys.argv[1]))
for now_ns in itertools.count(10**15):
    board.beat(now_ns)
"""


def test_the_sign_of_life_is_never_read_while_it_is_half_written(tmp_path):
    board = FrankaBoard(tmp_path / 'board')
    board.beat(10**15)
    with subprocess.Popen([sys.executable, '-c', BEATING, str(board.path)]) as other:
        try:
            seen, end_s = set(), time.monotonic() + 60.0
            while len(seen) < 1000 and time.monotonic() < end_s:
                seen |= {board.last_beat_ns for _ in range(10_000)}
        finally:
            other.kill()
            board.close()
    assert len(seen) >= 1000        # it was written meanwhile
    assert min(seen) >= 10**15
