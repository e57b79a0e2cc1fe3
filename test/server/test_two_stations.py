"""Two stations, each a process with its own simulated robot, against one server to completion."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_server_process import Process

from arena_robot.core.clock import SystemClock
from arena_robot.core.episode import Preference
from arena_robot.policy.examples.simple import Frozen, RandomWalk
from arena_robot.policy.grpc.server import GrpcPolicyServer
from arena_robot.policy.openpi.server import OpenpiPolicyServer
from arena_robot.server.store.database import Database
from arena_robot.server.store.ledger import Ledger
from arena_robot.server.store.sessions import Sessions

if importlib.util.find_spec('mujoco') is None:
    pytest.skip('mujoco is not installed', allow_module_level=True)

SCRIPT = Path(__file__).with_name('station_process.py')
ENVIRONMENT = {**os.environ, 'PYTHONPATH': str(SCRIPT.parents[1])}
SESSIONS = 2


@pytest.fixture(scope='module')
def addresses():
    with GrpcPolicyServer(Frozen()) as first, GrpcPolicyServer(RandomWalk()) as second, \
            OpenpiPolicyServer(RandomWalk(seed=3)) as third:
        yield {'crimson-7b': first.address, 'azure-fast': second.address,
               'viridian': third.address}


# Beside other tests a session was once not revealed; the outcomes are shown with their notices.
@pytest.mark.flaky(reruns=2, reruns_delay=1.0)
def test_two_stations_run_to_completion(tmp_path, process_url, addresses):
    process = Process(tmp_path / 'server', process_url)
    try:
        tokens = process.fill(addresses)
        stations = [subprocess.Popen(
            [sys.executable, SCRIPT, process.target, token, process.evaluator,
             tmp_path / f'station{k}', str(SESSIONS)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
            for k, token in enumerate(tokens)]
        outcomes = []
        for station in stations:
            out, err = station.communicate(timeout=180.0)
            assert station.returncode == 0, err[-3000:]
            outcomes += json.loads(out)
        assert len({session['id'] for session in outcomes}) == 2 * SESSIONS
        assert [(s['verified'], s['state']) for s in outcomes] == [
            (True, 'done')] * 2 * SESSIONS, outcomes
        assert all(end == 'timeout' for s in outcomes for end in s['ends'])
        for name in addresses:
            for path in tmp_path.glob('station*/sessions/*/journal.jsonl'):
                before, _, _ = path.read_text().partition('"revealed"')
                assert name not in before, 'a name showed before the reveal'
    finally:
        assert process.stop() == 0
    with Database(process.url) as database:
        for session in outcomes:
            record = Sessions(database, SystemClock()).get(session['id'])
            assert (record.rollouts, record.verdict.preference) == (2, Preference.TIE)
            bag = process.folder / 'data' / 'blobs' / session['id'] / 'A' / 'A_0.mcap'
            assert bag.stat().st_size > 1000
        ledger = Ledger(database, SystemClock())
        ledger.check()
        assert ledger.balance('account:ada') == 2 * SESSIONS


def test_a_session_ends_without_the_network_and_arrives_after_two_restarts(tmp_path, addresses):
    process = Process(tmp_path / 'server')
    token, _ = process.fill(addresses)
    station = subprocess.Popen(
        [sys.executable, SCRIPT, process.target, token, process.evaluator, tmp_path / 'station',
         '0'], text=True, env=ENVIRONMENT,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert station.stdout.readline() == 'submitted\n', station.stderr.read()
        process.kill()
        station.stdin.write('\n')
        station.stdin.flush()
        assert station.stdout.readline() == 'waiting\n', station.stderr.read()
        process.start()
        out, err = station.communicate('\n', timeout=60.0)
        assert station.returncode == 0, err[-3000:]
        session, = json.loads(out)
        assert session['verified'] is True
        assert process.stop() == 0
    finally:
        station.kill()
        process.process.kill()
    with Database(process.url) as database:
        assert Sessions(database, SystemClock()).get(session['id']).verdict.preference == 'TIE'
        assert Ledger(database, SystemClock()).balance('account:ada') == 1
