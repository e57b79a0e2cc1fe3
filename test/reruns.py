"""
Reruns are counted: a test runs again only where its own mark says why, and few may.

``@pytest.mark.rerun(reason='...')`` stands on one test whose result can depend on how busy the
machine is, with the reason; the test then runs again when it fails, at most twice. The mark is
refused without a reason, on a class and on a module. Every run of pytest ends with the number of
reruns and their tests, and fails above ``LIMIT``. When the environment variable ARENA_RERUNS names
a file, the runs of pytest that share the file are counted together.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

AT_MOST = 2
DELAY_S = 1.0
LIMIT = 5

rerun = []


def pytest_configure(config):
    rerun.clear()
    path = os.environ.get('ARENA_RERUNS')
    if path and Path(path).exists() and not on_a_worker(config):
        rerun.extend(Path(path).read_text(encoding='utf-8').splitlines())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        for node, mark in item.iter_markers_with_node('rerun'):
            if node is not item:
                raise pytest.UsageError(f'{node.nodeid}: mark each test that may run again by '
                                        'itself, not its class or module')
            if mark.args or set(mark.kwargs) != {'reason'} or len(mark.kwargs['reason']) < 20:
                raise pytest.UsageError(f'{item.nodeid}: write why it may run again: '
                                        "@pytest.mark.rerun(reason='...')")
            item.add_marker(pytest.mark.flaky(reruns=AT_MOST, reruns_delay=DELAY_S))


def pytest_runtest_logreport(report):
    if report.outcome == 'rerun':
        rerun.append(report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    if on_a_worker(session.config):
        return
    path = os.environ.get('ARENA_RERUNS')
    if path:
        Path(path).write_text(''.join(f'{name}\n' for name in rerun), encoding='utf-8')
    if len(rerun) > LIMIT and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config):
    reporter = config.pluginmanager.get_plugin('terminalreporter')
    if reporter is not None and not on_a_worker(config):
        reporter.write_line(line())


def line():
    """Return the last line of a run: how many reruns there were, and of which tests."""
    names = ''.join(f'; {name} ({count})' for name, count in Counter(rerun).items())
    verdict = ': too many' if len(rerun) > LIMIT else ''
    return f'reruns: {len(rerun)}, at most {LIMIT}{verdict}{names}'


def on_a_worker(config):
    """Tell whether this is a process of pytest-xdist, whose results another one collects."""
    return hasattr(config, 'workerinput')
