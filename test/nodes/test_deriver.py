"""The recorder's background processing: held while recording, and never stuck."""

import sys
import time
from pathlib import Path

import pytest

from arena_robot.nodes.recorder import derive
from arena_robot.nodes.recorder.derive import Deriver

# Notes its start; with the word `deaf` it ignores SIGINT and works for ever, but only once.
WORK = """
import signal, sys, time
from pathlib import Path
notes = Path(sys.argv[1])
first = not notes.exists()
if sys.argv[3] == 'deaf' and first:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
with notes.open('a') as file:
    file.write(sys.argv[2] + '\\n')
time.sleep(60.0 if first else 0.0)
"""


@pytest.fixture(params=['hears', 'deaf'])
def deriver(request, tmp_path):
    """A deriver whose first job does not end by itself, and a function of what was begun."""
    notes = tmp_path / 'notes'
    made = Deriver(lambda verb, folder: [sys.executable, '-c', WORK, str(notes),
                                         f'{verb} {folder}', request.param])
    yield made, lambda: notes.read_text().splitlines() if notes.exists() else []
    made.close()


def until(deriver, condition):
    end_s = time.monotonic() + 20.0
    while not condition():
        assert time.monotonic() < end_s, 'it is stuck'
        deriver.step()
        time.sleep(0.05)


def test_what_recording_interrupted_is_done_afterwards(deriver, monkeypatch):
    made, begun = deriver
    monkeypatch.setattr(derive, 'CUT_S', 0.5)
    made.add(Path('A'))
    until(made, lambda: begun() == ['derive A'])
    made.add(Path('B'), 'recover')
    made.hold()
    time.sleep(0.2)
    made.step()
    assert begun() == ['derive A'], 'nothing begins while recording'
    made.moved(Path('A'), Path('A_earlier'))
    made.release()
    until(made, lambda: begun() == ['derive A', 'derive A_earlier', 'recover B'])
