"""
Programs in the background: started, heard, ended in time, with all that they started.

Memory that was freed is there for the next image; gRPC knows the settings that it gets.
"""

import os
import platform
import shutil
import signal
import subprocess
import sys
import time

import pytest

from arena_robot.core.errors import ProcessFailed
from arena_robot.core.process import NOTHING, Process, birth, end_all, end_signals, wait_until

READY = "print('ready', flush=True); time.sleep(600)"
KINDS = {
    'meek': f'import time; {READY}',
    'ignores_interrupt': 'import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); '
                         + READY,
    'ignores_all': 'import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); '
                   'signal.signal(signal.SIGTERM, signal.SIG_IGN); ' + READY,
}
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', 'import signal, time; '
    'signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(600)'])
print('child', child.pid, flush=True)
"""


@pytest.fixture
def program(tmp_path):
    made = []

    def make(text, name='child', **more):
        log_file = more.pop('log_file', tmp_path / 'logs' / f'{name}.log')
        made.append(Process(name, [sys.executable, '-c', text], log_file, **more))
        return made[-1]

    yield make
    for process in made:
        process.kill()


@pytest.mark.parametrize(('kind', 'code'), [
    ('meek', -signal.SIGINT), ('ignores_interrupt', -signal.SIGTERM),
    ('ignores_all', -signal.SIGKILL)])
def test_a_program_is_ended_by_the_mildest_means_that_work(program, kind, code):
    process = program(KINDS[kind])
    process.start()
    process.wait_for('ready')
    process.end(30.0 if kind == 'meek' else 0.5, 5.0 if kind != 'ignores_all' else 0.5)
    assert process.code == code or (kind == 'meek' and process.code == 1)
    assert birth(process.pid) == ''
    process.end()


def test_many_are_ended_at_the_same_time(program):
    processes = [program(KINDS['ignores_interrupt'], f'child{n}') for n in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.wait_for('ready')
    begin_s = time.monotonic()
    end_all(processes, 0.6, 5.0)
    assert time.monotonic() - begin_s < 2.4
    assert all(process.code == -signal.SIGTERM for process in processes)


def test_one_that_dies_at_once_is_told_with_the_last_words_of_its_log(program):
    process = program("raise SystemExit('no such camera')")
    process.start()
    with pytest.raises(ProcessFailed, match=r'child ended with 1.*child.log(.|\n)*no such camera'):
        process.wait_for('ready', 20.0)
    process.end()
    assert process.code == 1


def test_only_what_it_said_since_its_start_is_heard(program):
    process = program(KINDS['meek'])
    process.log_file.parent.mkdir()
    process.log_file.write_text('ready\n', encoding='utf-8')
    process.start()
    process.wait_for('ready')
    assert process.said() == 'ready\n'
    assert process.log_file.read_text(encoding='utf-8') == 'ready\nready\n'


def test_one_that_says_nothing_did_not_come_up(program):
    process = program('import time; time.sleep(600)')
    process.start()
    with pytest.raises(ProcessFailed, match=r'did not come up within 0\.2 s'):
        process.wait_for('ready', 0.2)


@pytest.mark.parametrize('how', ['it is ended', 'it dies', 'it is killed'])
def test_a_grandchild_does_not_stay(program, how):
    process = program(PARENT + ('' if how == 'it dies' else 'time.sleep(600)'))
    process.start()
    grandchild = int(process.wait_for('child').split()[1])
    if how == 'it dies':
        assert wait_until(lambda: process.code is not None, 20.0)
    elif how == 'it is ended':
        process.end(5.0, 5.0)
    else:
        process.kill()
    assert process.code is not None
    assert wait_until(lambda: birth(grandchild) == '', 10.0)


def test_a_keyboard_interrupt_does_not_reach_it(program):
    process = program(KINDS['meek'])
    process.start()
    process.wait_for('ready')
    assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid != os.getpgid(0)


def test_pipes_carry_text_and_the_log_takes_the_rest(program):
    process = program("import sys\nfor line in sys.stdin:\n    print(line.upper(), end='', "
                      "flush=True)\nprint('over', file=sys.stderr)", pipes=True)
    with pytest.raises(ProcessFailed, match='not started with pipes'):
        process.stdin.write('a')
    process.start()
    process.stdin.write('tür\n')
    assert process.stdout.readline() == 'TÜR\n'
    process.stdin.close()
    assert wait_until(lambda: process.code is not None, 20.0)
    assert process.said() == 'over\n'


def test_the_environment_is_added_and_nothing_is_kept_of_what_nobody_reads(program):
    process = program("import os, sys; print('x' * 200_000); "
                      "sys.exit(int(os.environ['ANSWER']) - 35)",
                      environment={'ANSWER': '42'}, log_file=NOTHING)
    process.start()
    assert wait_until(lambda: process.code is not None, 20.0)
    assert process.code == 7
    assert process.said() == ''


def test_nothing_happens_to_one_that_was_not_started(program):
    process = program(KINDS['meek'])
    process.end()
    process.kill()
    process.interrupt()
    assert (process.pid, process.code) == (0, None)
    process.require()


STARTER = """
import sys, threading, time
from pathlib import Path
from arena_robot.core.process import Process
process = Process('child', [sys.executable, '-c', 'import time; time.sleep(600)'],
                  Path('/dev/null'))
if {threaded}:
    starting = threading.Thread(target=process.start)
    starting.start()
    starting.join()
else:
    process.start()
print('child', process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(not shutil.which('setpriv'), reason='needs setpriv of util-linux')
@pytest.mark.parametrize('threaded', [False, True])
def test_what_a_killed_program_had_started_ends_and_not_before(program, threaded):
    process = program(STARTER.format(threaded=threaded))
    process.start()
    child = int(process.wait_for('child').split()[1])
    try:
        assert not wait_until(lambda: birth(child) == '', 0.3), 'with the thread that started it'
        os.kill(process.pid, signal.SIGKILL)
        assert wait_until(lambda: birth(child) == '', 10.0)
    finally:
        if birth(child):
            os.kill(child, signal.SIGKILL)


def test_a_hang_up_ends_a_program_except_under_nohup():
    before = signal.getsignal(signal.SIGHUP)
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert signal.SIGHUP not in end_signals()
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        assert set(end_signals()) == {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    finally:
        signal.signal(signal.SIGHUP, before)


FAULTS = """
import resource, sys
import numpy as np
from arena_robot.core.tuning import keep_freed_memory
if sys.argv[1] == 'kept':
    keep_freed_memory()

def images():
    for _ in range(50):
        pictures = [np.ones(2_700_000, np.uint8) for _ in range(4)]
        del pictures

images()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
images()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""

CHANNEL = """
import os
from arena_robot.core.tuning import poll_sockets_in_one_thread
poll_sockets_in_one_thread()
os.environ['GRPC_EXPERIMENTS'] += '{}'
import grpc
grpc.insecure_channel('127.0.0.1:1').close()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='the GNU C library is missing')
def test_images_do_not_fetch_their_memory_from_the_system_each_time():
    tuned, plain = (int(subprocess.run(
        [sys.executable, '-c', FAULTS, how], capture_output=True, text=True, timeout=60,
        check=True).stdout) for how in ('kept', 'plain'))
    assert plain > 10_000, 'the C library keeps it by itself'
    assert tuned < plain / 50


def test_grpc_knows_the_experiments_that_are_switched_off():
    outputs = [subprocess.run([sys.executable, '-c', CHANNEL.format(more)], capture_output=True,
                              text=True, timeout=60, check=True).stderr
               for more in ('', ',-nothing')]
    assert 'Unknown experiment' not in outputs[0]
    assert 'Unknown experiment: nothing' in outputs[1]    # as gRPC says it


def test_many_objects_set_off_full_collections_only_where_they_are_not_made_seldom():
    code = """
import gc, sys
from arena_robot.core.tuning import collect_seldom
if sys.argv[1] == 'seldom':
    collect_seldom()
full = []
gc.callbacks.append(lambda phase, info: full.append(phase) if info['generation'] == 2 else None)
kept = [[] for _ in range(400_000)]
print(len(full))
"""
    seldom, plain = (int(subprocess.run([sys.executable, '-c', code, how], capture_output=True,
                                        text=True, timeout=60, check=True).stdout)
                     for how in ('seldom', 'plain'))
    assert seldom == 0 < plain
