"""A file that needs too much ends its process and nothing else; audits run in spare time."""

import io
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from arena_robot.core.bounded import AUTOGROUP, INTERRUPTED, BoundedWorker, started, use_spare_time
from arena_robot.core.errors import DataError
from arena_robot.core.jpeg import from_jpeg, to_jpeg
from arena_robot.core.process import Process, wait_until
from arena_robot.records.episode_file import read_arrays


@pytest.fixture(scope='module')
def worker():
    return BoundedWorker(call_s=5.0)


def test_what_is_returned_and_raised_comes_back(worker):
    content = io.BytesIO()
    np.savez(content, q=np.arange(3))
    assert list(worker.call(read_arrays, content.getvalue(), 'steps.npz')['q']) == [0, 1, 2]
    with pytest.raises(DataError, match='npz cannot be read'):
        worker.call(read_arrays, b'no zip', 'steps.npz')


def test_too_much_memory_and_time_are_refused_and_the_next_call_works(worker):
    for work, argument in ((np.zeros, 10**12), (time.sleep, 60.0)):
        with pytest.raises(DataError, match='more than 4096 MiB or 5 s'):
            worker.call(work, argument)
        assert worker.call(len, 'abc') == 3


def test_a_picture_that_says_more_than_it_may_is_not_decoded():
    with pytest.raises(DataError, match='has 60 by 50 pixels, at most 2999'):
        from_jpeg(to_jpeg(np.zeros((50, 60, 3), np.uint8)), 2999)


def test_an_interrupt_however_early_ends_it_without_words(capfd):
    for after_s in np.linspace(0.0, 0.12, 13):    # Python itself, its packages, the work
        process = started(subprocess.getoutput, 'sleep 60')
        time.sleep(after_s)
        process.interrupt()
        assert wait_until(lambda running=process: running.code is not None, 20.0)
        assert process.code in {-signal.SIGINT, INTERRUPTED}
    assert capfd.readouterr().err == ''


SHOWS = """
import os
from pathlib import Path
from arena_robot.core.bounded import use_spare_time
use_spare_time()
group = Path('/proc/self/autogroup')
print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0) == os.SCHED_IDLE,
      group.read_text().split()[-1] if group.exists() else 'none', flush=True)
"""


@pytest.mark.skipif(sys.platform != 'linux', reason='classes of processes are those of Linux')
def test_a_process_and_its_group_yield_to_all_others():
    shown = Process('spare', [sys.executable, '-c', SHOWS], pipes=True)
    shown.start()
    try:
        priority, idle, group = shown.stdout.readline().split()
    finally:
        shown.end()
    assert (priority, idle) == ('19', 'True')
    grouped = Path('/proc/sys/kernel/sched_autogroup_enabled')
    if grouped.exists() and AUTOGROUP.exists():
        assert group == '19'


def test_the_group_of_others_is_left_alone(monkeypatch, tmp_path):
    group = tmp_path / 'autogroup'
    monkeypatch.setattr('arena_robot.core.bounded.AUTOGROUP', group)
    monkeypatch.setattr('os.setpriority', lambda *args: None)
    monkeypatch.setattr('os.sched_setscheduler', lambda *args: None, raising=False)
    monkeypatch.setattr('os.getsid', lambda pid: 1)
    use_spare_time()
    assert not group.exists()
