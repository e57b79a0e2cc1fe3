"""The recorder's background processing: held while recording, and never stuck."""

import importlib
import sys
import time
from pathlib import Path

import pytest
import waiting

from arena_robot.nodes.recorder import derive
from arena_robot.nodes.recorder.derive import Deriver

# A module for the other process: `work` notes its start; `deaf` it ignores SIGINT. The first call
# does not end by itself.
MODULE = """
import signal, time
from pathlib import Path

def work(folder, notes, hears):
    first = not Path(notes).exists()
    if hears == 'deaf' and first:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(notes, 'a') as file:
        file.write(folder + '\\n')
    time.sleep(60.0 if first else 0.0)
"""


@pytest.fixture(params=['hears', 'deaf'])
def deriver(request, tmp_path, monkeypatch):
    """A deriver, a way to add jobs of which the first does not end by itself, and the begun."""
    notes = tmp_path / 'notes'
    (tmp_path / 'noting_work.py').write_text(MODULE)
    monkeypatch.setenv('PYTHONPATH', str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    work = importlib.import_module('noting_work').work
    made = Deriver()
    yield (made, lambda folder: made.add(Path(folder), work, str(notes), request.param),
           lambda: notes.read_text().splitlines() if notes.exists() else [])
    made.close()
    del sys.modules['noting_work']


def until(deriver, condition):
    waiting.until(lambda: deriver.step() or condition(), 'what was added')


def test_what_recording_interrupted_is_done_afterwards(deriver, monkeypatch):
    made, add, begun = deriver
    monkeypatch.setattr(derive, 'CUT_S', 0.5)
    add('A')
    until(made, lambda: begun() == ['A'])
    add('B')
    made.hold()
    time.sleep(0.2)
    made.step()
    assert begun() == ['A'], 'nothing begins while recording'
    made.moved(Path('A'), Path('A_earlier'))
    made.release()
    until(made, lambda: begun() == ['A', 'A_earlier', 'B'])
