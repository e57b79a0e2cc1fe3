"""
A station's parts fail during rollouts: real nodes in processes of their own, and the real page.

Camera, arm, gripper and recorder are killed while a policy runs. Each time the page's main way is
to run the same slot again; the pair stays blind, and the record has every repeated rollout.
"""

import os
import socket
import sys
import time
import uuid
from pathlib import Path

import pytest
import yaml

pytest.importorskip('arena_msgs', reason='arena_msgs is not built: make setup')
sys.path.insert(0, str(Path(__file__).parents[1] / 'nodes'))

from evaluator_rig import AGAIN_S, TASK, WHY, Arm, begun
from evaluator_rig import Page as Evaluator
from station_programs import Process

from arena_robot.core.config import read_yaml
from arena_robot.nodes.remote.desk import RemoteDesk
from arena_robot.nodes.station.files import nodes_in
from arena_robot.nodes.station.processes import (
    NodeProcess,
    SessionOptions,
    namespace_words,
    session_processes,
)
from arena_robot.records.session_file import read_session
from arena_robot.web.console.app import ConsoleServer

pytestmark = pytest.mark.skipif('ARENA_TEST_WALKS' not in os.environ,
                                reason='takes minutes: make walks')

LAB = Path(__file__).parents[2] / 'config' / 'stations' / 'example_lab.yaml'
SMALL = {'width': 128, 'height': 72}
NAMES = ('walker', 'sleeper')
OLD = """
const done = arguments[0], figure = document.querySelector('[data-view^=wrist]');
const look = () => (figure.classList.contains('old') ? done(Date.now()) : setTimeout(look, 5));
look();"""


class LabStation:
    """One process per part, recorder, session node and two policy servers."""

    def __init__(self, folder):
        self.data, self.running = folder / 'data', {}
        self.namespace = f'test_{uuid.uuid4().hex[:6]}'
        self.environment = {'ROS_LOG_DIR': str(folder / 'log'), 'MUJOCO_GL': 'egl'}
        self.commands = {**self.policies(folder), **self.nodes(folder)}
        for name in self.commands:
            self.start(name)

    def policies(self, folder):
        commands, entries = {}, []
        for name, example in zip(NAMES, ('random_walk', 'frozen'), strict=True):
            with socket.create_server(('127.0.0.1', 0)) as free:
                port = free.getsockname()[1]
            commands[name] = ('-m', 'arena_robot.cli.main', 'policy', 'serve', example,
                              '--port', str(port))
            entries.append({'name': name, 'address': f'grpc://127.0.0.1:{port}'})
        self.pool = folder / 'pool.yaml'
        self.pool.write_text(yaml.safe_dump({'policies': entries}))
        return commands

    def nodes(self, folder):
        whole = read_yaml(LAB)
        for key, values in whole.items():
            if key.endswith('_camera'):
                values['ros__parameters'] |= SMALL
        file = folder / 'lab.yaml'
        file.write_text(yaml.safe_dump(whole))
        words = ('--log-level', 'info', *namespace_words(self.namespace))
        fake = ('-p', 'use_fake_hardware:=true')
        parts = [NodeProcess(executable, name, ('--params-file', str(file), *words, *fake))
                 for executable, name in nodes_in(file, namespace=self.namespace)]
        options = SessionOptions(self.pool, self.data, 4000)
        busy = ('-p', 'max_image_age:=2.0', '-p', 'min_free_gb:=0.1')
        more = session_processes(folder, [file], options, words, False, self.namespace)
        commands = {node.name: tuple(node.command()[1:]) for node in (*parts, *more)}
        commands['session_node'] += busy
        commands['recorder_node'] += ('-p', 'min_free_disk:=0.1')
        return commands

    def start(self, name):
        self.running[name] = Process(*self.commands[name], **self.environment)

    def kill(self, *names):
        for name in names:
            self.running[name].kill()

    def again(self, *names):
        for name in names:
            self.start(name)

    def close(self):
        for process in self.running.values():
            process.popen.terminate()
        logs = ''.join(f'--- {name}\n{process.log[-1500:]}\n'
                       for name, process in self.running.items())
        for process in self.running.values():
            process.close()
        return logs


@pytest.fixture(scope='module')
def station(tmp_path_factory):
    os.environ.setdefault('MUJOCO_GL', 'egl')
    station = LabStation(tmp_path_factory.mktemp('lab'))
    yield station
    sys.stdout.write(station.close())    # pytest shows it with a failure


@pytest.fixture(scope='module')
def desk(station):
    with RemoteDesk(namespace=station.namespace, patience_s=60.0) as desk:
        desk.watch_views()
        yield desk


@pytest.fixture
def page(browser, station, desk):
    with ConsoleServer(desk, port=0) as server:
        page = Page(browser, server.url)
        page.desk, page.arm = desk, Arm(desk)
        browser.execute_script('sessionStorage.clear(); localStorage.clear()')
        yield page
        page.leave()


class Page(Evaluator):
    """The page, with what an evaluator does around a fault."""

    def begin(self):
        self.until(lambda: self.find('#seat').text.startswith('take'), 'no page')
        self.press('#seat')
        self.press()
        self.until(self.ready, 'the checks fail')
        self.type('#evaluator', 'Ada')
        self.type('#instruction', TASK)
        self.press()
        if self.until(lambda: self.find('#state').text == 'PAIR' or self.find(
                '#ask').is_displayed(), 'no pair') and self.find('#ask').is_displayed():
            self.press('#yes')
        self.state('pair')
        self.press()
        self.state('start photo')
        self.until(lambda: begun(self, 'A'), 'A does not run', AGAIN_S)

    def ready(self):
        """Press "Check again" until every part answers."""
        if self.browser.find_elements('css selector', '#instruction'):
            return True
        button = self.find('#primary')
        if button.is_enabled() and 'Check' in button.text:
            button.click()
        return False

    def runs(self, slot):
        self.state(f'{slot} runs')
        self.until(lambda: self.find('#numbers').text.startswith('step')
                   and self.desk.running() and self.desk.running().steps > 8, 'no steps')

    def failed(self, slot, words):
        """See that the main way is to run the slot again, and that nobody is named."""
        self.state(f'score {slot}')
        self.until(lambda: self.find('#primary').text.startswith(f'Run {slot} again'),
                   f'{words}: not to be run again')
        assert words in self.find('#panel').text
        assert 'node running' not in self.find('body').text, 'words for an engineer'
        assert not self.browser.find_elements('css selector', '#progress'), 'scored as well'
        text = self.find('body').text
        assert not [name for name in NAMES if name in text], text

    def again(self, slot):
        """Run it again: the arm moves to its reset pose, the scene is matched, the slot runs."""
        self.press()
        self.state('reset')
        self.until(lambda: not self.desk.state().doing, 'still at work')
        self.until(lambda: self.find('#match').text.startswith('The scene is ') and '%' in
                   self.find('#match').text, 'the scene is not matched')
        self.until(lambda: self.find('#primary').text.endswith(f'start {slot}'), slot)
        self.until(lambda: begun(self, slot), 'does not run', AGAIN_S)
        self.runs(slot)

    def alarm(self):
        return self.find('#alarm').is_displayed()


def test_each_fault_is_run_again_and_the_pair_stays_blind(page, station, desk, browser):
    page.begin()
    page.runs('A')
    killed_ms = kill_camera(page, station, browser)
    assert killed_ms < 900.0, 'the frozen picture was not marked'
    page.failed('A', 'wrist')
    station.again('wrist_camera')
    page.again('A')
    assert page.stop('mouse') < 5.0
    page.state('score A')
    page.press('[data-mark="50"]')
    page.press()
    page.state('reset')
    page.until(lambda: begun(page, 'B'), 'B does not run', AGAIN_S)
    page.runs('B')
    the_arm_is_lost(page, station)
    page.again('B')
    station.kill('gripper_node')
    page.failed('B', 'gripper')
    station.again('gripper_node')
    page.again('B')
    page.stop('touch')
    the_verdict(page, desk, station)


def kill_camera(page, station, browser):
    """Kill the camera; return after how long the page marks its picture as old."""
    page.until(lambda: 'old' not in page.find('[data-view^=wrist]').get_attribute('class'), 'old')
    begin_ms = time.time() * 1e3
    station.kill('wrist_camera')
    return browser.execute_async_script(OLD) - begin_ms


def the_arm_is_lost(page, station):
    """STOP while the arm node is dead is shouted, and confirmed once it is there again."""
    station.kill('arm_node')
    page.find('#stop').click()
    page.until(page.alarm, 'nobody is warned')
    assert 'Use the hardware stop' in page.find('#alarm').text
    page.failed('B', 'arm')
    assert page.alarm(), 'another message took it away'
    station.again('arm_node')
    page.until(lambda: not page.alarm(), 'the arm is there again')
    assert 'at rest: confirmed' in page.find('#stopped').text


def the_verdict(page, desk, station):
    page.state('score B')
    page.press('[data-mark="25"]')
    page.press()
    page.state('preference')
    page.press('[data-value=A]')
    page.type('#explanation', WHY)
    folder = station.data / 'sessions' / desk.state().session_id
    record = read_session(folder)
    assert [(rerun.slot, rerun.cause, rerun.folder) for rerun in record.reruns] == [
        ('A', 'fault', 'A_earlier'), ('B', 'fault', 'B_earlier'), ('B', 'fault', 'B_earlier_2')]
    journal = (folder / 'journal.jsonl').read_text(encoding='utf-8')
    assert not [name for name in NAMES if name in journal], 'the pair is named'
    page.press()
    page.state('done', AGAIN_S)
    page.until(lambda: 'matches the reveal' in page.find('#reveal').text, 'no reveal')
    assert {page.desk.state().policy_a, page.desk.state().policy_b} == set(NAMES)


def test_a_rollout_that_nobody_records_is_run_again(page, station, desk):
    if desk.state().state.value == 'done':
        page.until(lambda: page.find('#state').text == 'DONE', 'not done')
    page.begin()
    page.runs('A')
    station.kill('recorder_node')
    page.failed('A', 'recorder')
    station.again('recorder_node')
    page.press('#score-anyway')
    assert 'The station failed, not the policy' in page.find('#question').text
    page.press('#no')
    page.again('A')
    page.stop('key')
    page.state('score A')
    page.press('#abort')
    page.type('#answer', 'the end of the test')
    page.press('#yes')
    page.state('aborted')
    record = read_session(station.data / 'sessions' / desk.state().session_id)
    assert [(rerun.slot, rerun.cause, rerun.folder) for rerun in record.reruns] == [
        ('A', 'fault', 'A_earlier')]
