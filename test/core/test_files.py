"""Files appear whole or not at all, with any number of writers."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from arena_robot.core import files

WRITERS = 6
ROUNDS = 60


def content(writer, turn):
    return f'{writer} {turn} ' * (200 + 150 * writer)


def write_many(path, writer):
    for turn in range(ROUNDS):
        files.write_text(path, content(writer, turn))


def watch(path, finished):
    """Read until ``finished`` says so; every content must be a whole one."""
    seen = 0
    while not finished():
        if path.exists():
            text = path.read_text(encoding='utf-8')
            writer, turn, _ = text.split(' ', 2)
            assert text == content(int(writer), int(turn))
            seen += 1
    return seen


def test_threads_that_write_one_file_never_tear_it(tmp_path):
    path = tmp_path / 'file.json'
    failed = []

    def work(writer):
        try:
            write_many(path, writer)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(WRITERS)]
    for thread in threads:
        thread.start()
    seen = watch(path, lambda: not any(thread.is_alive() for thread in threads))
    assert not failed
    assert seen
    assert os.listdir(tmp_path) == ['file.json']
    assert path.read_text(encoding='utf-8') in {content(n, ROUNDS - 1) for n in range(WRITERS)}


def test_processes_that_write_one_file_never_tear_it(tmp_path):
    path = tmp_path / 'file.json'
    spawn = multiprocessing.get_context('spawn')
    writers = [spawn.Process(target=write_many, args=(path, n)) for n in range(3)]
    for writer in writers:
        writer.start()
    watch(path, lambda: not any(writer.is_alive() for writer in writers))
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert os.listdir(tmp_path) == ['file.json']


def test_a_killed_writer_leaves_the_old_content(tmp_path):
    path = tmp_path / 'file'
    files.write_bytes(path, b'old')
    child = subprocess.Popen([sys.executable, '-c', """
import sys, time
from pathlib import Path
from arena_robot.core.files import replacing
with replacing(Path(sys.argv[1])) as partial:
    partial.write_bytes(b'half')
    print('half', flush=True)
    time.sleep(600)
""", str(path)], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b'half\n'
    child.send_signal(signal.SIGKILL)
    child.wait(30)
    child.stdout.close()
    assert path.read_bytes() == b'old'
    left, = (p for p in tmp_path.iterdir() if p != path)
    assert left.name.startswith('.')
    assert left.name.endswith(files.PARTIAL)
    files.write_bytes(path, b'new')
    assert path.read_bytes() == b'new'


def test_the_remains_of_a_killed_writer_go_with_the_next_write(tmp_path):
    path = tmp_path / 'video.mp4'
    stale = tmp_path / f'.video.mp4.1-0{files.PARTIAL}'
    young = tmp_path / f'.video.mp4.2-0{files.PARTIAL}'
    foreign = tmp_path / f'.other.mp4.1-0{files.PARTIAL}'
    for left in (stale, young, foreign):
        left.write_bytes(b'half')
    old_s = time.time() - 2 * files.STALE_S
    os.utime(stale, (old_s, old_s))
    os.utime(foreign, (old_s, old_s))
    files.write_bytes(path, b'whole')
    assert sorted(tmp_path.iterdir()) == sorted([young, foreign, path])


def test_an_error_leaves_the_old_content_and_nothing_else(tmp_path):
    path = tmp_path / 'file'
    files.write_bytes(path, b'old')
    with pytest.raises(FileNotFoundError), files.replacing(path) as partial:
        partial.with_name('nowhere').joinpath('x').write_bytes(partial.read_bytes())
    with pytest.raises(ValueError, match='JSON'):
        files.write_json(path, {'progress': float('nan')})
    assert path.read_bytes() == b'old'
    assert os.listdir(tmp_path) == ['file']


def test_a_full_disk_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / 'file'
    files.write_bytes(path, b'old')

    def refuse(handle):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr('os.fsync', refuse)
    with pytest.raises(OSError, match='No space left'):
        files.write_bytes(path, b'new')
    assert path.read_bytes() == b'old'
    assert os.listdir(tmp_path) == ['file']


def test_the_mode_is_kept_and_a_new_file_takes_the_umask(tmp_path):
    existing, new = tmp_path / 'kept', tmp_path / 'new'
    existing.write_bytes(b'old')
    existing.chmod(0o640)
    files.write_text(existing, 'new')
    assert existing.stat().st_mode & 0o777 == 0o640
    umask = os.umask(0o027)
    try:
        files.write_text(new, 'new')
    finally:
        os.umask(umask)
    assert new.stat().st_mode & 0o777 == 0o640


def test_file_and_folder_are_brought_to_the_disk_in_this_order(tmp_path, monkeypatch):
    path = tmp_path / 'file'
    synced = []
    monkeypatch.setattr('os.fsync', lambda handle: synced.append(
        (os.readlink(f'/proc/self/fd/{handle}'), path.exists())))
    files.write_bytes(path, b'new')
    (first, there_before), (second, there_after) = synced
    assert files.PARTIAL in first
    assert not there_before
    assert second == str(tmp_path)
    assert there_after


def test_text_and_json_are_utf_8_as_given(tmp_path):
    path = tmp_path / 'file'
    files.write_text(path, 'Tür\r\n')
    assert path.read_bytes() == 'Tür\r\n'.encode()
    files.write_json(path, {'prompt': 'Tür', 'n': 1})
    assert path.read_text(encoding='utf-8') == '{\n  "prompt": "Tür",\n  "n": 1\n}\n'
    assert json.loads(path.read_text(encoding='utf-8')) == {'prompt': 'Tür', 'n': 1}


def test_a_folder_is_moved_and_both_parents_are_brought_to_the_disk(tmp_path, monkeypatch):
    (tmp_path / 'a' / 'episode').mkdir(parents=True)
    (tmp_path / 'b').mkdir()
    synced = []
    monkeypatch.setattr('os.fsync', lambda handle: synced.append(
        os.readlink(f'/proc/self/fd/{handle}')))
    files.move(tmp_path / 'a' / 'episode', tmp_path / 'b' / 'episode')
    assert (tmp_path / 'b' / 'episode').is_dir()
    assert synced == [str(tmp_path / 'b'), str(tmp_path / 'a')]
