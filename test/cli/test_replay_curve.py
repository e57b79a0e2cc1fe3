"""`arena episode replay`: its keys; with --judge the curve follows the messages of a bag."""

import argparse
import io
import sys
import threading
from contextlib import contextmanager
from types import SimpleNamespace

from sample_episodes import SampleEpisode, SampleMaker

from arena_robot.cli.episode import replay
from arena_robot.recording.bag.playback import Pace
from arena_robot.recording.bag.reader import BagReader


class Terminal(io.StringIO):
    """Output that is a terminal."""

    def isatty(self):
        return True


def test_the_curve_follows_the_messages(tmp_path, message_folders, monkeypatch):
    folder = tmp_path / 'one' / 'A'
    SampleMaker(SampleEpisode(30, width=64, height=36, slot='A', session_id='one',
                              potential=True), message_folders).write(folder)
    out, topics = Terminal(), []
    args = argparse.Namespace(judge='oracle', param=[], folder=folder, json=False,
                              plot=tmp_path / 'p.png')
    with BagReader(folder) as bag:
        monkeypatch.setattr(sys, 'stdout', out)
        with replay.judged_curve(bag, args, lambda message: topics.append(message.topic)) as hold:
            assert not any(hold(message) for message in bag.messages())
        assert len(topics) == sum(1 for _ in bag.messages()), 'it is asked for each message'
    first, *lines = out.getvalue().split('\r')
    assert first == ''
    assert len(lines) == 10, 'one for each frame of the judge'
    assert '0.0 s  progress   0' in lines[0]
    assert 'oracle: ' in lines[-1]
    assert (tmp_path / 'p.png').stat().st_size > 5000


def test_keys_pause_seek_and_change_the_rate(monkeypatch, capsys):
    pace = Pace(2.0, monotonic_ns=lambda: 0)
    pace.begin(10**10)
    keys, over = iter(' x+>-<<<<'), threading.Event()

    @contextmanager
    def typed():
        def pressed(timeout_s):
            key = next(keys, '')
            if not key:
                over.set()
            return key
        yield pressed

    monkeypatch.setattr(replay, 'single_keys', typed)
    monkeypatch.setattr(sys, 'stdin', SimpleNamespace(isatty=lambda: True))
    with replay.playing_keys(pace, SimpleNamespace(metadata=SimpleNamespace(start_ns=10**9))):
        assert over.wait(10.0)
    assert capsys.readouterr().out.splitlines() == [
        f'paused at {at_s:.1f} s, {rate:g} times the recorded speed' for at_s, rate in (
            (9.0, 2.0), (9.0, 2.2), (14.0, 2.2), (14.0, 2.0), (9.0, 2.0), (4.0, 2.0), (0.0, 2.0),
            (0.0, 2.0))]
    assert pace.take_seek() == 10**9
