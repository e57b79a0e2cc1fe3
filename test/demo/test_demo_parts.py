"""The pieces of the demonstration: plan, processes, display, words, memory, audits."""

import argparse
import dataclasses
import io
import json
import os
import pty
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
import yaml
from sample_episodes import SampleEpisode, SampleMaker

from arena_robot.cli.main import main
from arena_robot.cli.sim import demo_arguments
from arena_robot.core.episode import Preference, Slot
from arena_robot.core.errors import ConfigError, DataError, ProcessFailed
from arena_robot.core.pair import Reveal
from arena_robot.core.process import Process, birth
from arena_robot.core.verdict import Verdict
from arena_robot.demo import display as shown
from arena_robot.demo import outcome, plan, tournament
from arena_robot.demo.arena import DemoStation, stations
from arena_robot.demo.audits import JUDGES, LAST_S, BackgroundAudits, audit_sessions
from arena_robot.demo.display import Display, LiveStatus, ProgressText
from arena_robot.demo.plan import (
    DemoOptions,
    Plan,
    Ports,
    SessionPlan,
    grown,
    new_plan,
    read_plan,
    write_plan,
)
from arena_robot.demo.processes import FILE, Processes, ResourceUsage, cpu_seconds
from arena_robot.demo.run import Demo
from arena_robot.policy.connect import SERVERS, load_policy, parse_kwargs
from arena_robot.ranking.base import Comparisons
from arena_robot.ranking.counts import LEAST_COMPARISONS
from arena_robot.ranking.differences import across_robots
from arena_robot.ranking.loading import load
from arena_robot.records.audit_file import audits_of
from arena_robot.records.session_file import SessionFile, write_session
from arena_robot.session.evaluator.desk import DeskState, RunView, SlotView
from arena_robot.session.protocol.states import State

TASKS = ('press_button', 'lift_cube')


# -- plan ----------------------------------------------------------------------------------------
PROGRAM = """
import contextlib, sys
from arena_robot.core.terminal import let_go_of_closed
sys.stdin.read()
with contextlib.suppress(OSError):
    print('nobody reads this')
let_go_of_closed()
print('nor this')
"""


def test_a_plan_goes_through_the_tasks_and_never_repeats_a_scene():
    plan = new_plan(TASKS, 5, 7, 'still')
    assert [job.task for job in plan.jobs] == ['press_button', 'lift_cube'] * 2 + ['press_button']
    assert [job.seed for job in plan.jobs] == [7, 8, 9, 10, 11]
    assert plan.open == [0, 1, 2, 3, 4]


def test_a_plan_of_two_robots_has_all_tasks_on_each(tmp_path):
    plan = new_plan(TASKS, 7, 1, 'still', ('panda', 'fr3'))
    assert [(job.robot, job.task) for job in plan.jobs[:4]] == [
        (robot, task) for robot in ('panda', 'fr3') for task in TASKS]
    plan.named(4, 'abc', done=True)
    assert plan.by_station == [('panda', [0, 1]), ('fr3', [2, 3]), ('panda', [5]), ('fr3', [6])]
    with pytest.raises(ConfigError, match=r'is press_button with seed 5, asked for is '
                       r'press_button on fr3 with seed 5; .* --robots'):
        grown(plan, TASKS, 7, 1, ('fr3', 'panda'))


def test_a_robots_station_has_its_arm_and_its_own_name(tmp_path):
    assert stations(['panda', 'so101', 'panda']) == {'panda': 'sim-1', 'so101': 'sim-2'}
    station = DemoStation(tmp_path, tmp_path, 3.0, 10, robot='so101', name='sim-2')
    station.simulator('lift_cube', 1)
    station.session('127.0.0.1:1', tmp_path / 'sim-2.token')
    for name, key, value in (('sim_station', 'robot_type', 'so101'),
                             ('session_node', 'station', 'sim-2')):
        nodes = yaml.safe_load((tmp_path / f'{name}.yaml').read_text())
        assert nodes[f'/**/{name}']['ros__parameters'][key] == value


def test_a_pool_that_does_not_drive_a_robot_is_refused(monkeypatch):
    monkeypatch.setattr(plan, 'ROBOTS', {})    # as if a panda were an embodiment
    options = DemoOptions(12, TASKS, 3.0, os.curdir, 1, 150, 'walkers')
    options.check()
    with pytest.raises(ConfigError, match="1 of the policies of the pool 'four' drive a panda"):
        dataclasses.replace(options, pool='four').check()


def test_a_plan_survives_the_disk(tmp_path):
    plan = new_plan(TASKS, 3, 1, 'still', ('panda', 'so101'))
    plan.ports = Ports(1, 2, 3, (4, 5))
    plan.begin(1)
    plan.named(1, 'abc')
    plan.begin(1)
    plan.named(1, 'def', done=True)
    write_plan(tmp_path, plan)
    stored = read_plan(tmp_path)
    assert stored == plan
    assert (stored.current, stored.lost, stored.open) == (1, ['abc'], [0, 2])
    assert read_plan(tmp_path / 'nowhere') is None


@pytest.mark.parametrize('text', ['', '{}', '[1]', '{"version": 99}', '{"version": 1, "jobs": 3}'])
def test_a_damaged_plan_is_told(tmp_path, text):
    (tmp_path / 'demo.json').write_text(text)
    with pytest.raises(DataError, match='take another --data'):
        read_plan(tmp_path)


def test_a_plan_grows_and_keeps_what_is_done():
    plan = new_plan(TASKS, 2, 1, 'still')
    plan.named(0, 'abc', done=True)
    more = grown(plan, TASKS, 4, 1)
    assert [job.done for job in more.jobs] == [True, False, False, False]
    assert len(grown(more, TASKS, 1, 1).jobs) == 1
    with pytest.raises(ConfigError, match='session 1 in this folder is press_button'):
        grown(plan, ('stack_blocks',), 2, 1)
    plan = grown(Plan([SessionPlan('stack_blocks', 9)], 'still'), TASKS, 1, 1)
    assert plan.jobs[0].task == TASKS[0]


# -- processes -----------------------------------------------------------------------------------

def script(tmp_path, text, name='child'):
    return Process(name, [sys.executable, '-c', text], tmp_path / f'{name}.log')


STUBBORN = ("import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); "
            "print('ready', flush=True); time.sleep(60)")


def test_processes_end_with_their_block_even_stubborn_ones(tmp_path):
    meek = script(tmp_path, "print('ready', flush=True); import time; time.sleep(60)", 'meek')
    stubborn = script(tmp_path, STUBBORN, 'stubborn')
    with Processes(tmp_path) as processes:
        processes.start(meek, stubborn)
        for process in (meek, stubborn):
            assert process.wait_for('ready') == 'ready'
        processes.end(meek)
        assert meek.code is not None
        processes.require()
        begun = time.monotonic()
        processes.close(timeout_s=0.5)
    assert stubborn.code == -15
    assert time.monotonic() - begun < 5.0
    assert not (tmp_path / FILE).exists()


def test_a_process_that_ends_by_itself_is_told_with_its_last_words(tmp_path):
    with Processes(tmp_path) as processes:
        child = script(tmp_path, "raise SystemExit('no such camera')")
        processes.start(child)
        with pytest.raises(ProcessFailed, match=r'ended with 1.*child.log(.|\n)*no such camera'):
            child.wait_for('ready', 20.0)
        with pytest.raises(ProcessFailed):
            processes.require()
        late = script(tmp_path, 'import time; time.sleep(60)', 'late')
        processes.start(late)
        with pytest.raises(ProcessFailed, match='did not come up'):
            late.wait_for('ready', 0.2)


def test_what_a_killed_run_left_is_ended_and_nothing_else(tmp_path):
    left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],
                            start_new_session=True)
    stranger = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],
                                start_new_session=True)
    try:
        born = birth(left.pid)
        assert born
        (tmp_path / FILE).write_text(json.dumps({left.pid: born, stranger.pid: 'earlier'}))
        with Processes(tmp_path):
            assert left.wait(5.0) is not None
            assert stranger.poll() is None
    finally:
        for process in (left, stranger):
            process.kill()
            process.wait(5.0)
    assert birth(left.pid) == ''


def test_memory_and_processor_time_are_seen(tmp_path):
    busy = "print('ready', flush=True); x = bytearray(50_000_000); \nwhile True: pass"
    child = script(tmp_path, busy)
    with Processes(tmp_path) as processes, \
            ResourceUsage(lambda: [(p.name, p.pid) for p in processes.running]) as usage:
        processes.start(child)
        child.wait_for('ready')
        end_s = time.monotonic() + 20.0
        while (cpu_seconds(child.pid) or 0.0) < 0.3 and time.monotonic() < end_s:
            time.sleep(0.05)
        usage.look()
    assert usage.peak_bytes > 50_000_000
    assert usage.cpu_s['child'] >= 0.3
    assert cpu_seconds(2**22 + 1) is None


# -- display -------------------------------------------------------------------------------------

class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_plain_lines_where_there_is_no_terminal():
    out = io.StringIO()
    with shown.Display(out, lambda: ['live']) as display:
        display.line(display.colour(shown.GREEN, 'one'))
    assert out.getvalue() == 'one\n'


def test_the_block_is_redrawn_below_the_lines_and_goes_away():
    out = Terminal()
    display = shown.Display(out, lambda: ['a', 'b'])
    display.draw()
    display.line('kept')
    display.draw()
    assert out.getvalue() == 'a\nb\n\033[2F\033[Jkept\na\nb\n'
    with display:
        pass
    assert out.getvalue().endswith(f'\033[2F\033[J{shown.SHOW}')


def test_lines_are_cut_to_the_width_without_counting_colours():
    text = f'{shown.BOLD}abcdef{shown.PLAIN}'
    assert shown.cut(text, 3).replace(shown.BOLD, '').replace(shown.PLAIN, '') == 'abc'
    assert shown.cut('abc', 10) == 'abc'
    assert (shown.bar(0.5, 4), shown.minutes(61.2)) == ('━━──', '1:01')


def state(where, **more):
    return DeskState(state=where, instruction='press the red button', session_id='s', **more)


def test_the_story_tells_what_the_arm_does_and_never_a_name_too_early():
    out = io.StringIO()
    progress = ProgressText(out, 4, ('logs: here',))
    progress.step('arena server')
    assert 'arena server' in ' '.join(progress.block())
    progress.step_done('site')
    progress.begins(2, 1)
    running = state(State.RUNNING_A, policy_a='', doing='A is running')
    run = RunView(Slot.A, 30, 150, elapsed_s=2.0)
    with progress.watching(lambda: LiveStatus(running, run, 0.4)):
        text = '\n'.join(progress.block())
    for words in ('session 2 of 4', 'press the red button', 'A runs', 'step  30 of 150',
                  'progress  40 %', 'logs: here'):
        assert words in text
    with progress.watching(lambda: LiveStatus(state(State.RESET), None, 0.0)):
        assert 'the scene is put back' in '\n'.join(progress.block())
    assert 'the scene is put back' not in '\n'.join(progress.block())
    slots = (SlotView(Slot.A), SlotView(Slot.B))
    end = state(State.DONE, slots=slots, policy_a='vision', policy_b='frozen',
                verified=True, verdict=Verdict(progress_a=0.9, progress_b=0.2,
                                               preference=Preference.A))
    progress.ended(end)
    assert 'A  90  B  20  A  ✓ reveal verified  vision against frozen' in out.getvalue()
    progress.ended(dataclasses.replace(end, verified=False))
    assert '✗' in out.getvalue()


def test_every_open_state_has_words():
    progress = ProgressText(io.StringIO(), 1)
    progress.begins(1, 0)
    for where in State:
        live = LiveStatus(state(where), None, 0.0)
        with progress.watching(lambda live=live: live):
            assert len(progress.block()) > 3


# -- wishes --------------------------------------------------------------------------------------

@pytest.mark.parametrize(('words', 'text'), [
    (['--tasks', 'press_botton'], "Did you mean 'press_button'"),
    (['--sessions', '0'], '--sessions is 1 to 1000'),
    (['--speed', '99'], '--speed is 0.1 to 20'),
    (['--max-steps', '0'], '--max-steps'),
    (['--pool', 'exampels'], "Did you mean 'examples'"),
    (['--robots', 'panda,pandas'], 'pandas'),
])
def test_what_cannot_be_is_told_before_anything_starts(tmp_path, capsys, words, text):
    assert main(['demo', '--data', str(tmp_path / 'new'), *words]) == 2
    assert text in capsys.readouterr().err
    assert not (tmp_path / 'new' / 'server').exists()


def test_the_pools_are_what_they_say():
    for name, entries in plan.POOLS.items():
        assert len({entry.name for entry in entries}) == len(entries)
        for entry in entries:
            assert load_policy(entry.example, parse_kwargs(entry.options)).spec.problems() == []
            assert entry.protocol in SERVERS
        assert plan.pool(name) is entries
    protocols = [entry.protocol for entry in plan.pool('examples')]
    assert protocols.count('grpc') >= 5
    assert protocols.count('openpi') >= 1
    four = plan.pool('four')
    assert [entry.protocol for entry in four].count('openpi') == 1
    assert [four[0], four[-1]] == [plan.pool('examples')[0], plan.pool('examples')[-1]]
    # However ten sessions are drawn, some policy is in as many as an interval needs.
    assert len(four) * LEAST_COMPARISONS <= 2 * 10
    parser = argparse.ArgumentParser()
    demo_arguments(parser)
    assert (parser.parse_args([]).pool, parser.parse_args([]).sessions) == ('four', 10)


def test_a_session_that_was_not_submitted_is_not_waited_for(tmp_path):
    assert tournament.on_disk(tmp_path).state is State.IDLE
    assert tournament.delivered(tmp_path, lambda: None) is None


@pytest.mark.parametrize(('sessions', 'rank'), [(3, ''), (24, '1 ')])
def test_the_end_prints_a_rank_only_where_the_data_tell_one(sessions, rank):
    votes = Comparisons.build([0] * sessions, [1] * sessions, [1.0, 1.0, 1.0, 0.0, 1.0, 1.0][
        :sessions] * max(1, sessions // 6), items=['walk', 'still'])
    out = io.StringIO()
    with shown.Display(out, lambda: []) as display:
        outcome.tell(display, outcome.DemoOutcome((), votes, outcome.ranked(votes), None, ()))
    best = out.getvalue().splitlines()[2]
    assert best.split('walk')[0].strip() == rank.strip(), best
    assert ('too few to tell' in best) == (not rank)


def test_the_end_says_of_each_robot_how_it_went_and_whether_they_are_one():
    votes = load({'policy_a': ['walk'] * 80, 'policy_b': ['still'] * 80,
                  'preference': list('AAAB' * 10 + 'BBBA' * 10),
                  'robot': ['panda'] * 40 + ['ur5'] * 40})
    out = io.StringIO()
    with shown.Display(out, lambda: []) as display:
        outcome.tell(display, outcome.DemoOutcome((), votes, outcome.ranked(votes), None, (),
                                                  across_robots(votes, intervals=0)))
    assert '  panda: walk ' in out.getvalue()
    assert '  ur5: still ' in out.getvalue()
    assert '  the table has all robots together; not pooled: ' in out.getvalue()


def test_a_wish_is_fine_as_it_comes():
    DemoOptions(12, TASKS, 3.0, os.curdir, 1, 150, 'examples').check()


def test_a_run_that_only_shows_the_site_keeps_the_reports_figures(tmp_path, monkeypatch):
    written = []

    def report(folder, *_):
        written.append(folder)
        page = outcome.report_page(folder)
        page.parent.mkdir(exist_ok=True)
        page.touch()

    monkeypatch.setattr(outcome, 'gather', lambda *_: SimpleNamespace(records=(), problems=()))
    monkeypatch.setattr(outcome, 'tell', lambda *_: None)
    monkeypatch.setattr(outcome, 'report', report)
    usage = SimpleNamespace(look=lambda: None, peak_bytes=0, cpu_s={})
    options = DemoOptions(1, TASKS, 3.0, tmp_path, 1, 10, 'still')

    def ended(played):
        demo = Demo(options)
        demo._played = played
        arena = SimpleNamespace(site='', uploaded=tmp_path)
        demo._end(new_plan(TASKS, 1, 1, 'still'), (), usage, arena, None,
                  SimpleNamespace(wrong_with=None, lossy=set()))
        return len(written)
    assert [ended(1), ended(0), ended(0), ended(2)] == [1, 1, 1, 2]
    outcome.report_page(tmp_path).unlink()
    assert ended(0) == 3


@pytest.mark.parametrize(('state', 'kept'), [
    (State.ASSIGNED, 0), (State.START_PHOTOGRAPHED, 1), (State.RESET, 1), (State.REVIEW, 0)])
def test_a_session_goes_on_in_a_simulation_that_knows_its_start(state, kept):
    done = []
    scene = SimpleNamespace(set_up=lambda task, seed: done.append((task, seed)),
                            keep=lambda: done.append('kept'))
    desk = SimpleNamespace(state=lambda: DeskState(state))
    run = tournament.DemoTournament(desk, scene, 'ada', lambda: None, lambda _: None)
    assert run.pick_up(SessionPlan('lift_cube', 7))
    assert done == [('lift_cube', 7), *kept * ['kept']]


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
        output = program.communicate(timeout=20.0)[1]
    assert (program.returncode, output) == (0, b'')


@pytest.fixture
def sessions(tmp_path, message_folders):
    """Three sessions of short episodes; the last has no bags."""
    home = tmp_path / 'sessions'
    for name in ('one', 'two', 'three'):
        for slot in Slot:
            folder = home / name / slot.value
            if name == 'three':
                folder.mkdir(parents=True)
            else:
                SampleMaker(SampleEpisode(20, width=64, height=36, slot=slot.value,
                                          session_id=name, potential=True),
                            message_folders).write(folder)
            (tmp_path / 'uploaded' / name / slot.value).mkdir(parents=True)
        write_session(home / name, SessionFile(
            name, reveal=Reveal('00', 'fast', 'slow'), evaluator='eva', station='lab',
            verdict=Verdict(progress_a=1.0, progress_b=0.5)))
    return [home / name for name in ('one', 'two', 'three')]


def audited(folder):
    return {slot.value for slot in Slot
            if {path.stem for path in audits_of(folder / slot.value)} == set(JUDGES)}


def test_audits_beside_the_sessions_and_the_rest_at_the_end(sessions, tmp_path):
    uploaded, heard = tmp_path / 'uploaded', []
    with BackgroundAudits(uploaded, tmp_path / 'audits.log') as background:
        background(sessions[2])
        background(sessions[0])
        begin_s = time.monotonic()
        background.finish()
        assert time.monotonic() - begin_s < LAST_S, 'what cannot be audited is not waited for'
    assert [audited(session) for session in sessions] == [{'A', 'B'}, set(), set()]
    assert audited(uploaded / 'one') == {'A', 'B'}
    assert 'three/A was not audited' in (tmp_path / 'audits.log').read_text('utf-8')
    audit_sessions(sessions, heard.append, uploaded)
    assert [audited(session) for session in sessions] == [{'A', 'B'}, {'A', 'B'}, set()]
    assert heard[-1] == 'audit 4 of 4'
