"""The whole demonstration as a program: interrupted at random, gone on with, checked."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Slot
from arena_robot.demo.audits import JUDGES
from arena_robot.demo.videos import wrong_with
from arena_robot.records.audit_file import audits_of
from arena_robot.reports.tournament_records import read_record
from arena_robot.server.store.database import Database
from arena_robot.server.store.ledger import Ledger
from arena_robot.server.store.sessions import Sessions
from arena_robot.session.protocol.store import SessionStore

pytest.importorskip('rclpy', reason='ROS 2 is not installed')
pytest.importorskip('arena_msgs', reason='arena_msgs is not built')

SESSIONS, STEPS, INTERRUPTIONS = 3, 12, 5
SEED = 20261121
END_S = 12.0    # a few seconds, and more on a machine that is busy


def demo(folder, *more):
    command = [sys.executable, '-m', 'arena_robot.cli.main', 'demo', '--data', folder, '--pool',
               'still', '--tasks', 'press_button,lift_cube', '--sessions', str(SESSIONS),
               '--max-steps', str(STEPS), '--speed', '3', '--no-console',
               '--robots', 'panda,fr3', *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env={**os.environ, 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST'})


def left_running(folder):
    """Command lines of processes that know the demonstration's folder."""
    remaining = []
    for path in Path('/proc').glob('[0-9]*/cmdline'):
        try:
            words = path.read_bytes().decode('utf-8', 'replace').replace('\0', ' ')
        except OSError:
            continue
        if str(folder) in words and 'pytest' not in words:
            remaining.append(words)
    return remaining


def interrupted(folder, after_s):
    """Start, interrupt, and return (exit code, output)."""
    process = demo(folder)
    try:
        output = process.communicate(timeout=after_s)[0]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        output = process.communicate(timeout=60.0)[0]
        assert time.monotonic() - begun < END_S, output
    assert left_running(folder) == [], output
    assert 'Traceback' not in output, output
    return process.returncode, output


@pytest.mark.skipif('ARENA_TEST_DEMO' not in os.environ,
                    reason='takes minutes and two idle cores: make test-demo')
def test_interrupted_five_times_and_complete_in_the_end(tmp_path):
    folder, chance = tmp_path / 'demo', random.Random(SEED)
    for _ in range(INTERRUPTIONS):
        code, output = interrupted(folder, chance.uniform(1.0, 16.0))
        assert code in (0, 130), output
    process = demo(folder)
    output = process.communicate(timeout=200.0)[0]
    assert process.returncode == 0, output
    assert left_running(folder) == []
    assert re.search(r'rank +policy', output), output
    plan = json.loads((folder / 'demo.json').read_text())
    ids = [job['session_id'] for job in plan['jobs'] if job['done']]
    assert len(set(ids)) == SESSIONS
    check_sessions(folder, ids)
    check_server(folder, ids)
    page = (folder / 'report' / 'index.html').read_text()
    assert all(session_id in page for session_id in ids)
    check_audits(folder, ids, page)
    # Once more: everything is there already, and nothing is done twice.
    second = demo(folder)
    output = second.communicate(timeout=100.0)[0]
    assert second.returncode == 0, output
    assert json.loads((folder / 'demo.json').read_text())['jobs'] == plan['jobs']


def check_sessions(folder, ids):
    """Every session is whole on the station's disk, and none was left half way."""
    assert SessionStore(folder / 'sessions', SystemClock()).unfinished() == []
    for session_id in ids:
        record = read_record(folder / 'sessions' / session_id)
        assert record.verified
        assert record.session.robot == ('fr3' if session_id == ids[-1] else 'panda')
        assert [r.steps for r in record.rollouts] == [STEPS, STEPS]
        for slot in Slot:
            assert wrong_with(record.folder / slot.value)[0] == []


def check_audits(folder, ids, page):
    """Every rollout has the audits of both judges; the report has their tables and curves."""
    for session_id in ids:
        for slot in Slot:
            slot_folder = folder / 'sessions' / session_id / slot.value
            assert {path.stem for path in audits_of(slot_folder)} \
                == set(JUDGES)
    audits = page.split('id="audit"')[1]
    assert all(judge in audits for judge in JUDGES)
    assert 'OPD' in audits
    assert re.search('agree in|No session is decisive', audits)
    assert audits.count('judge oracle</title>') == 2 * len(ids), 'a curve of each rollout'


def check_server(folder, ids):
    """The server has each session once, with every file, and its books add up."""
    with Database(f'sqlite:///{folder}/server/data/arena.db') as database:
        sessions = Sessions(database, SystemClock())
        for session_id in ids:
            record = sessions.get(session_id)
            assert (record.state.value, record.verdict.valid) == ('done', True)
            assert record.verdict.preference == 'TIE'
        ledger = Ledger(database, SystemClock())
        ledger.check()
        # A session that was interrupted in a rollout is given up, which costs a credit.
        with database.read() as connection:
            paid = connection.execute(sa.text(
                "SELECT count(*) FROM entries WHERE holder = 'account:ada' "
                "AND transfer LIKE 'redraw:%'")).scalar_one()
        assert ledger.balance('account:ada') == SESSIONS - paid
        assert paid <= INTERRUPTIONS
    for session_id in ids:
        for slot in ('A', 'B'):
            local = folder / 'sessions' / session_id / slot
            remote = folder / 'server' / 'data' / 'blobs' / session_id / slot
            for path in filter(Path.is_file, local.rglob('*')):
                copy = remote / path.relative_to(local)
                assert copy.read_bytes() == path.read_bytes(), path
