"""The third lab of docs/in_your_stack.md: DROID's NUC and ZED wrappers, up to a session."""

import json
import os
import sys
import time
import uuid
from pathlib import Path

import pytest
import yaml
from session_rig import EXAMPLES
from station_programs import ROOT
from test_station_vendor import PatientDesk
from vendor_rig import LAB, SMALL, changed

from arena_robot.session.evaluator.scripted import Script, Scripted
from arena_robot.session.protocol.states import State

ARENA, HOST = ('-m', 'arena_robot.cli.main'), '127.17.44.5'
CAMERAS = ('cameras', 'roles', 'eyes', 'topic_style', 'image_transport')
PAGE = (ROOT / 'docs' / 'in_your_stack.md').read_text(encoding='utf-8')
PART = PAGE.split('\n## DROID\n')[1].split('\n## ')[0]


def test_the_page_names_the_lines_that_are_copied():
    said = ' '.join(PART.split()).split(' and copy ')[1].split(' of `session_node`')[0]
    assert tuple(said.replace(' and', ',').replace(',,', ',').replace('`', '').split(', ')) == (
        CAMERAS)


def adopted(processes, folder, namespace):
    """Return what `arena station --adopt` wrote and said, once it has found all cameras."""
    for attempt in range(6):    # a busy machine finds nodes late
        path = folder / f'found_{attempt}.yaml'
        ran = processes(*ARENA, 'station', '--adopt', str(path), '--namespace', namespace)
        ran.popen.wait(60.0)
        assert ran.popen.returncode == 1, ran.log
        section = yaml.safe_load(path.read_text())['/**/session_node']['ros__parameters']
        if len(section.get('cameras', ())) == 3:
            return section, ran.log
        time.sleep(1.0)
    raise AssertionError(ran.log)


def lab_file(folder, section):
    """Write the station file as the page says, with a NUC and folders of the test's own."""
    shipped = (ROOT / 'config' / 'stations' / 'droid_nuc.yaml').read_text(encoding='utf-8')
    assert shipped.count('robot_ip: 127.0.0.1') == 2
    content = yaml.safe_load(changed(shipped.replace('127.0.0.1', HOST), SMALL))
    content = {key: part for key, part in content.items() if '_camera' not in key}
    content['/**/session_node']['ros__parameters'] |= {key: section[key] for key in CAMERAS}
    path, pool = folder / 'my_lab.yaml', folder / 'pool.yaml'
    path.write_text(yaml.safe_dump(content))
    pool.write_text(yaml.safe_dump({'policies': [
        {'name': name, 'address': address} for name, address in EXAMPLES.items()]}))
    return path, pool


@pytest.mark.skipif('ARENA_TEST_WALKS' not in os.environ,
                    reason='takes a minute with the others: make walks')
def test_from_the_running_graph_to_a_session(processes, tmp_path):
    namespace = f'lab_{uuid.uuid4().hex[:6]}'
    processes(*ARENA, 'emulate', 'droid-nuc', '--host', HOST)
    processes(LAB, '--namespace', namespace, '--controller', '', '--gripper', '')
    section, said = adopted(processes, tmp_path, namespace)
    missing = [line for line in said.splitlines() if line.startswith('MISSING')]
    assert 'config/stations/droid_nuc.yaml' in missing[0]
    assert any('gripper' in line or 'knuckle' in line for line in missing), said
    path, pool = lab_file(tmp_path, section)
    running = processes(
        *ARENA, 'station', '--config', str(path), '--session', '--policies', str(pool), '--data',
        str(tmp_path / 'data'), '--max-steps', '30', '--namespace', namespace,
        ROS_LOG_DIR=str(tmp_path / 'log'))
    try:
        with PatientDesk(namespace=namespace, patience_s=120.0) as desk:
            end = Scripted(desk, Script('ada', 'put the yellow cube in the bowl',
                                        lambda: 0.5)).run()
    finally:
        running.end(timeout_s=40.0)
        sys.stdout.write(running.log[-20_000:])     # pytest shows it with a failure
    assert (end.state, end.verified) == (State.DONE, True)
    assert [slot.end for slot in end.slots] == ['timeout', 'timeout']
    files = [json.loads(file.read_text(encoding='utf-8'))
             for file in Path(tmp_path / 'data').rglob('episode.json')]
    assert [(file['backend'], file['steps']) for file in files] == [('droid_nuc', 30)] * 2
    views = {name: view['topic'] for name, view in files[0]['views'].items()}
    assert views['wrist_left'].startswith(f'/{namespace}/zed_wrist/zed_node/left/')
