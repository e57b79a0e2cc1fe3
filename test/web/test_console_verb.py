"""`arena console` leaves what exists out of garbage collections: they would hold up STOP."""

import gc
import os
import signal
from contextlib import contextmanager

import pytest

pytest.importorskip('rclpy', reason='ROS 2 is not installed')

from arena_robot.cli.main import main
from arena_robot.core import tuning
from arena_robot.core.process import end_signals


class Page:
    """A page that is served until Ctrl-C, which comes at once."""

    @property
    def url(self):
        os.kill(os.getpid(), signal.SIGINT)
        return 'http://localhost:1/'

    def watch_views(self):
        pass


@contextmanager
def open_page(*_, **__):
    yield Page()


def test_it_does_so_before_it_serves(monkeypatch, capsys):
    done = []
    monkeypatch.setattr(tuning, 'keep_what_exists', lambda: done.append('kept'))
    monkeypatch.setattr('arena_robot.nodes.remote.desk.RemoteDesk', open_page)
    monkeypatch.setattr('arena_robot.nodes.remote.audits.RemoteAudits', lambda desk: tuple)
    monkeypatch.setattr('arena_robot.web.console.serve.ConsoleServer', open_page)
    before = {number: signal.getsignal(number) for number in end_signals()}
    try:
        assert main(['console']) == 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert done == ['kept']
    assert "the evaluator's page: http" in capsys.readouterr().out


def test_what_exists_is_left_out():
    try:
        tuning.keep_what_exists()
        assert gc.get_freeze_count() > 10 * len(gc.get_objects())
    finally:
        gc.unfreeze()
