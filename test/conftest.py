"""
What tests of several rooms share, and which tests need the machine alone.

Tests that measure a station's times need the machine to themselves: they are marked as alone, and
`make test` runs them one by one after the others, which share the cores. Tests that only compute
and wait for nothing are marked so, and run beside all others in time that nobody else uses. A test
runs again after a failure only where its own mark says why, see reruns.py.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest

pytest_plugins = ['reruns']

# What they measure are times; other tests of stations wait for conditions and may be slowed down.
ALONE = ('nodes/test_station_', 'nodes/test_replay_node', 'nodes/test_session_kills',
         'nodes/test_contract_remote',
         'cli/test_walks', 'web/test_console_page', 'web/test_console_bounds')
COMPUTES = ('ranking/', 'skills/', 'audit/', 'safety/', 'reports/', 'records/', 'recording/',
            'trials/', 'drivers/test_sim_potential', 'drivers/test_sim_tasks',
            'policy/test_resizing', 'session/test_blindness_measured',
            'session/test_salvaged_journals', 'test_')
WAITS = ('audit/test_wire_judges', 'recording/test_recorder', 'reports/test_tournament',
         'test_verdict_walk')
# The longest files begin first, so that no process has one left when the others are done.
LONGEST = ('web/test_console_press', 'web/test_console_stop', 'drivers/test_driver_check',
           'server/test_server_process',
           'nodes/test_session_blindness', 'nodes/test_session_node', 'server/test_two_stations')
BROWSERS = ('chromium', 'chromium-browser', 'google-chrome')
HERE = Path(__file__).parent


def pytest_configure(config):
    # How long one example takes says more about the machine than about the code.
    hypothesis.settings.register_profile('any_machine', deadline=None)
    hypothesis.settings.load_profile('any_machine')
    # Processes that share the cores do not hear each other's ROS.
    worker = os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw')
    domain = int(os.environ.get('ROS_DOMAIN_ID', '64'))
    os.environ['ROS_DOMAIN_ID'] = str((domain + int(worker)) % 102)


def kind(path):
    """Return the mark of all tests of a file: alone, computes or none."""
    where = path.relative_to(HERE).as_posix()
    if where.startswith(ALONE):
        return 'alone'
    return 'computes' if where.startswith(COMPUTES) and not where.startswith(WAITS) else ''


@pytest.hookimpl(tryfirst=True)  # before -m chooses by marks
def pytest_collection_modifyitems(items):
    for item in items:
        if found := kind(item.path):
            item.add_marker(found)
    items.sort(key=lambda item: not item.path.relative_to(HERE).as_posix().startswith(LONGEST))


def pytest_ignore_collect(collection_path, config):
    """Read only the files whose tests are run, for the three expressions of `make test`."""
    chosen = {'alone': ('alone',), 'computes': ('computes',), 'not alone and not computes': ('',)}
    if collection_path.suffix == '.py' and config.option.markexpr in chosen:
        return True if kind(collection_path) not in chosen[config.option.markexpr] else None
    return None


@pytest.fixture
def browser(chromium):
    """A Selenium driver of headless Chromium, 1280 x 900."""
    yield chromium
    chromium.get('about:blank')    # a page that stays open goes on asking for news


@pytest.fixture(scope='session')
def chromium(tmp_path_factory):
    """The browser behind :func:`browser`, started once."""
    webdriver = pytest.importorskip('selenium.webdriver', reason='selenium is missing')
    program = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    chromedriver = shutil.which('chromedriver')
    if not program or not chromedriver:
        missing = ' and '.join(name for name, path in (
            ('chromium', program), ('chromedriver', chromedriver)) if not path)
        pytest.skip(f'{missing} missing: sudo apt-get install chromium chromium-driver')
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ('--headless=new', '--no-sandbox', '--disable-gpu', '--disable-quic',
                     '--no-first-run', '--disable-background-networking', '--disable-sync',
                     '--disable-component-update', '--disable-dev-shm-usage',
                     '--hide-scrollbars', '--window-size=1280,900',
                     f'--user-data-dir={tmp_path_factory.mktemp("chromium")}'):
        options.add_argument(argument)
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=chromedriver))
    driver.set_page_load_timeout(30.0)
    yield driver
    driver.quit()


@pytest.fixture(scope='module')
def dask():
    """Return the address of a Dask cluster of two workers, whose processes are not this one's."""
    if importlib.util.find_spec('distributed') is None:
        pytest.skip('distributed is not installed (make setup installs it)')
    path = os.pathsep.join([str(HERE / 'core'), *sys.path])
    with subprocess.Popen([sys.executable, str(HERE / 'dask_cluster.py'), '2'],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, 'PYTHONPATH': path}) as process:
        try:
            yield f'dask://{process.stdout.readline().strip()}'
            process.stdin.close()
            process.wait(30)
        finally:
            process.kill()


@pytest.fixture(scope='session')
def message_folders():
    """Return folders with the .msg files of arena_msgs and of the standard packages."""
    spec = importlib.util.find_spec('std_msgs')
    if spec is None or spec.origin is None:
        pytest.skip('std_msgs is not installed: run make setup')
    found = next((p / 'share' for p in Path(spec.origin).parents
                  if (p / 'share' / 'std_msgs' / 'msg' / 'Header.msg').is_file()), None)
    if found is None:
        pytest.skip('the .msg files of std_msgs are not installed: run make setup')
    return HERE.parent, found
