"""A process that runs only in processor time that nobody else wants."""

import sys
from pathlib import Path

import pytest

from arena_robot.core.process import Process
from arena_robot.core.spare_time import AUTOGROUP, use_spare_time

SHOWS = """
import os
from pathlib import Path
from arena_robot.core.spare_time import use_spare_time
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
    monkeypatch.setattr('arena_robot.core.spare_time.AUTOGROUP', group)
    monkeypatch.setattr('os.setpriority', lambda *args: None)
    monkeypatch.setattr('os.sched_setscheduler', lambda *args: None, raising=False)
    monkeypatch.setattr('os.getsid', lambda pid: 1)
    use_spare_time()
    assert not group.exists()
