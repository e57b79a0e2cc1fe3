"""What tests of several rooms share."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest

from arena_robot.core.tuning import draw_without_window

BROWSERS = ('chromium', 'chromium-browser', 'google-chrome')
HERE = Path(__file__).parent
# Threads of one product that wait for each other's core would take all cores; before numpy loads.
os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
draw_without_window()    # before a test imports MuJoCo


def pytest_configure(config):
    # How long one example takes says more about the machine than about the code.
    hypothesis.settings.register_profile('any_machine', deadline=None)
    hypothesis.settings.load_profile('any_machine')
    # Processes that share the cores do not hear each other's ROS, nor those of another run.
    worker = os.environ.get('PYTEST_XDIST_WORKER', 'gw0').removeprefix('gw')
    domain = int(os.environ.get('ROS_DOMAIN_ID', os.getpid()))
    os.environ['ROS_DOMAIN_ID'] = str((domain + int(worker)) % 102)


def pytest_ignore_collect(collection_path, config):
    """Read only the files that have a test marked alone, where only such tests are run."""
    if config.option.markexpr == 'alone' and collection_path.suffix == '.py':
        return None if 'mark.alone' in collection_path.read_text(encoding='utf-8') else True
    return None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """In parallel, let files of few tests, which wait for processes, alternate with large ones."""
    if 'PYTEST_XDIST_WORKER' in os.environ:
        files = {}
        for item in items:
            files.setdefault(item.path, []).append(item)
        by_size = sorted(files.values(), key=len)
        items[:] = [item for k in range(len(by_size))
                    for item in by_size[k // 2 if k % 2 else -1 - k // 2]]


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
    folder = next((p / 'share' for p in Path(spec.origin).parents
                   if (p / 'share' / 'std_msgs' / 'msg' / 'Header.msg').is_file()), None)
    if folder is None:
        pytest.skip('the .msg files of std_msgs are not installed: run make setup')
    return HERE.parent, folder
