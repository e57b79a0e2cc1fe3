"""What is written to a terminal that was closed neither fails nor keeps a program from ending."""

import os
import pty
import subprocess
import sys

from arena_robot.demo.display import Display

PROGRAM = """
import contextlib, sys
from arena_robot.core.terminal import let_go_of_closed
sys.stdin.read()
with contextlib.suppress(OSError):
    print('nobody reads this')
let_go_of_closed()
print('nor this')
"""


def test_the_display_of_the_demonstration(monkeypatch):
    monkeypatch.setenv('TERM', 'xterm')
    terminal, side = pty.openpty()
    with open(side, 'w', closefd=False) as out:
        with Display(out, lambda: ['live']) as display:
            display.line('one')
            os.close(terminal)
            display.draw()
            display.line('two')
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, side)    # so that the file can be closed
    os.close(nowhere)
    os.close(side)


def test_a_program_that_ends():
    terminal, side = pty.openpty()
    with subprocess.Popen([sys.executable, '-c', PROGRAM], stdin=subprocess.PIPE, stdout=side,
                          stderr=subprocess.PIPE) as program:
        os.close(side)
        os.close(terminal)
        said = program.communicate(timeout=20.0)[1]
    assert (program.returncode, said) == (0, b'')
