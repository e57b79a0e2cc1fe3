"""Many items at work: the same results here, in several processes, and on a Dask cluster."""

import importlib.util
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from arena_robot.core import parallel
from arena_robot.core.errors import ArenaError, ConfigError, DataError
from arena_robot.core.parallel import Workers

ITEMS = [(seed, size) for seed in range(7) for size in (1, 30)]


def drawn(scale, item):
    seed, size = item
    return scale * np.random.default_rng(seed).normal(size=size).sum()


def where(_):
    return os.getpid()


def refuse(item):
    if item == 5:
        raise DataError('item 5 is damaged')
    return item


def die(item):
    if item == 3:
        os._exit(9)
    return item


@pytest.fixture(scope='module')
def ray():
    """Return the address of a Ray cluster of two workers, started for these tests."""
    if importlib.util.find_spec('ray') is None:
        pytest.skip("Ray is not installed: pip install 'ray[client]'")
    program = Path(sys.executable).with_name('ray')
    begin = ('start', '--head', '--port=6399', '--ray-client-server-port=10001', '--num-cpus=2',
             '--include-dashboard=false')
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    subprocess.run([program, *begin], check=True, capture_output=True,
                   env={**os.environ, 'PYTHONPATH': path}, timeout=120)
    yield 'ray://127.0.0.1:10001'
    subprocess.run([program, 'stop'], check=True, capture_output=True, timeout=120)


@pytest.fixture(params=['here', 'two', 'four', 'dask', 'ray'])
def workers(request):
    if request.param in {'dask', 'ray'}:
        return Workers(cluster=request.getfixturevalue(request.param))
    return Workers({'here': 1, 'two': 2, 'four': 4}[request.param])


def test_results_are_the_same_and_in_order_wherever_the_work_is_done(workers):
    progress = []
    results = workers.map(partial(drawn, 2.0), ITEMS, lambda *row: progress.append(row))
    assert results == [drawn(2.0, item) for item in ITEMS]
    assert [done for done, _ in progress] == list(range(1, len(ITEMS) + 1))
    assert sorted(result for _, result in progress) == sorted(results)


def test_what_the_work_raises_is_raised(workers):
    with pytest.raises(DataError, match='item 5 is damaged'):
        workers.map(refuse, range(8))
    assert workers.map(refuse, range(4)) == [0, 1, 2, 3]    # and it can be used again


def test_no_items_are_no_work(workers):
    assert workers.map(refuse, []) == []


def test_the_work_is_done_in_other_processes(dask):
    mine = os.getpid()
    assert set(Workers().map(where, range(6))) == {mine}
    assert mine not in Workers(2).map(where, range(6))
    processes = Workers(cluster=dask).map(where, range(20))
    assert mine not in processes
    assert len(set(processes)) == 2


def test_a_process_that_dies_is_an_error_that_says_so():
    with pytest.raises(ArenaError, match='has died'):
        Workers(2).map(die, range(6))
    assert Workers(2).map(refuse, range(3)) == [0, 1, 2]


@pytest.mark.parametrize('cluster', ['dask', 'dask://host', 'dask://:8786', 'slurm://host:1',
                                     'dask://host:many', 'tcp://host:8786'])
def test_a_cluster_is_named_by_scheme_host_and_port(cluster):
    with pytest.raises(ConfigError, match=r'dask://host:port or ray://host:port, found'):
        Workers(cluster=cluster)


def test_there_is_at_least_one_job():
    with pytest.raises(ConfigError, match='at least 1, found 0'):
        Workers(0)


def test_a_scheduler_that_is_not_there_is_an_error(monkeypatch):
    pytest.importorskip('distributed', reason='distributed is not installed (make setup)')
    monkeypatch.setattr(parallel, 'CONNECT_S', 0.3)
    with pytest.raises(ConfigError, match=r'no Dask scheduler answers at 127\.0\.0\.1:9'):
        Workers(cluster='dask://127.0.0.1:9').map(refuse, range(3))


@pytest.mark.parametrize(('scheme', 'module', 'package'), [
    ('ray', 'ray', r'ray\[client\]'), ('dask', 'distributed', 'distributed')])
def test_a_missing_package_is_named(monkeypatch, scheme, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=f"needs the Python package '{package}'.*pip install"):
        Workers(cluster=f'{scheme}://127.0.0.1:1').map(refuse, range(3))


def test_joblib_is_loaded_only_when_it_is_used():
    code = ('import sys\nfrom arena_robot.core.parallel import Workers\n'
            'import arena_robot.ranking.methods, arena_robot.trials.trial\n'
            'Workers().map(abs, [1, 2])\nprint("joblib" in sys.modules)')
    process = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                             timeout=60, check=True)
    assert process.stdout.strip() == 'False'
