"""Blind sessions over the station files as they are shipped: one command, each device emulated."""

import json
import os
import sys
import uuid

import pytest
import yaml
from session_rig import EXAMPLES
from station_programs import ROOT
from vendor_rig import SMALL, changed

from arena_robot.nodes.remote.desk import RemoteDesk
from arena_robot.session.evaluator.scripted import Script, Scripted
from arena_robot.session.protocol.states import State

TASK = 'put the yellow cube in the bowl'
HOST = '127.17.44.3'
MODULES = {'franka_rs': 'franka', 'libfranka': 'pylibfranka'}
LONG = pytest.mark.skipif('ARENA_TEST_WALKS' not in os.environ,
                          reason='takes minutes with the others: make walks')


def station(processes, folder, name, namespace):
    """Start the station of a shipped file, with addresses and files of the test's own."""
    text = (ROOT / 'config' / 'stations' / f'{name}.yaml').read_text(encoding='utf-8')
    path, pool = folder / 'station.yaml', folder / 'pool.yaml'
    path.write_text(changed(text.replace('127.0.0.1', HOST).replace('/tmp/', f'{folder}/'), SMALL))
    pool.write_text(yaml.safe_dump({'policies': [
        {'name': name, 'address': address} for name, address in EXAMPLES.items()]}))
    return processes(
        '-m', 'arena_robot.cli.main', 'station', '--config', str(path), '--emulate', '--session',
        '--policies', str(pool), '--data', str(folder / 'data'), '--max-steps', '30',
        '--namespace', namespace, ROS_LOG_DIR=str(folder / 'log'))


@LONG
@pytest.mark.parametrize(('name', 'backend'), [
    ('franka_rs', 'franka_rs'), ('libfranka_uvc', 'libfranka'), ('droid_nuc', 'droid_nuc')])
def test_a_session_over_a_shipped_station_file(processes, tmp_path, name, backend):
    if backend in MODULES:
        pytest.importorskip(MODULES[backend], reason=f'{backend} is not installed: make setup')
    namespace = f'lab_{uuid.uuid4().hex[:6]}'
    running = station(processes, tmp_path, name, namespace)
    try:
        with RemoteDesk(namespace=namespace, patience_s=120.0) as desk:
            end = Scripted(desk, Script('ada', TASK, lambda: 0.5)).run()
        assert (end.state, end.verified) == (State.DONE, True)
        assert [slot.end for slot in end.slots] == ['timeout', 'timeout']
        stored = [json.loads(path.read_text(encoding='utf-8'))
                  for path in (tmp_path / 'data').rglob('episode.json')]
        assert [(episode['backend'], episode['steps']) for episode in stored] == [
            (backend, 30)] * 2
    finally:
        running.end(timeout_s=40.0)
        sys.stdout.write(running.log[-20_000:])     # pytest shows it with a failure
