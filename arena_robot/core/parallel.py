"""
Runs one function on many items: in this process, in processes of this machine, or on a cluster.

The only place that knows joblib and Ray. The result of an item depends on the item alone (random
numbers come from a seed in it), so results are the same for every number of jobs and cluster.
"""

import contextlib
import importlib
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import urlsplit

from arena_robot.core.errors import ArenaError, ConfigError

Item = TypeVar('Item')
Result = TypeVar('Result')

CONNECT_S = 10.0    # a scheduler that runs answers within a second
SCHEMES = ('dask', 'ray')
DIED = ('a process that did part of the work has died (killed, or out of memory?); fewer --jobs '
        'need less memory')
Done = Callable[[int, Result], None]
Progress = Callable[[int, int, str], None]    # how many are done, of how many, and the newest


def nothing(*_: object) -> None:
    """Do nothing with a result, and show no progress."""


@dataclass(frozen=True)
class Workers:
    """
    Where items are processed: in ``jobs`` processes, or on the ``cluster`` at an address.

    ``cluster`` is ``dask://host:port`` (its scheduler) or ``ray://host:port``; it uses all of its
    workers, and ``jobs`` has no effect. The package must be installed on it, in the same version.
    """

    jobs: int = 1
    cluster: str = ''

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ConfigError(f'the number of jobs must be at least 1, found {self.jobs}')
        if self.cluster:
            _address(self.cluster)

    def map(self, work: Callable[[Item], Result], items: Sequence[Item],
            done: Done[Result] = nothing) -> list[Result]:
        """
        Return ``work`` of every item, in the order of the items.

        ``done`` is called with the number of results so far and each result as it arrives.
        ``work`` and items are sent to other processes: a function of a module, or a partial of
        one. Raises the first exception of ``work`` in time; ArenaError when a worker process died.
        """
        if not self.cluster and (self.jobs == 1 or len(items) < 2):
            return _here(work, items, done)
        results_by_index: dict[int, Result] = {}
        with self._backend(), _closing(self._results(work, items)) as results:
            for index, outcome in results:
                if isinstance(outcome, _Raised):
                    raise outcome.error
                results_by_index[index] = outcome
                done(len(results_by_index), outcome)
        return [results_by_index[index] for index in range(len(items))]

    def _results(self, work: Callable[[Item], Result], items: Sequence[Item]
                 ) -> 'Generator[tuple[int, Result | _Raised], None, None]':
        if _scheme(self.cluster) == 'ray':    # joblib gets all of Ray's results at the end only
            yield from _on_ray(_Guarded(work), items)
            return
        import joblib
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        # A worker that has kept much memory is replaced by a new one, which takes its work over.
        warnings.filterwarnings('ignore', 'A worker stopped while some jobs', UserWarning)
        call = joblib.delayed(_Guarded(work))
        jobs = -1 if self.cluster else min(self.jobs, len(items))
        parallel = joblib.Parallel(n_jobs=jobs, return_as='generator_unordered')
        try:
            yield from parallel(call(index, item) for index, item in enumerate(items))
        except TerminatedWorkerError as error:
            raise ArenaError(DIED) from error

    @contextlib.contextmanager
    def _backend(self) -> Iterator[None]:
        if _scheme(self.cluster) == 'ray':
            with _ray(_address(self.cluster)[1]):
                yield
            return
        import joblib
        if not self.cluster:
            with joblib.parallel_config(backend='loky'):
                yield
            return
        with _dask(_address(self.cluster)[1]), joblib.parallel_config(backend='dask'):
            yield


HERE = Workers()


def in_threads(work: Callable[[Item], Result], items: Sequence[Item],
               threads: int) -> list[Result]:
    """Return ``work`` of every item, in the order of the items: for work that waits for a disk."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, items))


@dataclass(frozen=True)
class _Raised:
    """What a call raised, sent back as a result: not every cluster hands errors on."""

    error: Exception


@dataclass(frozen=True)
class _Guarded(Generic[Item, Result]):
    """Calls ``work`` and never raises."""

    work: Callable[[Item], Result]

    def __call__(self, index: int, item: Item) -> tuple[int, Result | _Raised]:
        try:
            return index, self.work(item)
        except Exception as error:
            return index, _Raised(error)


@dataclass(frozen=True)
class _Starred(Generic[Item, Result]):
    """Calls ``work`` with the parts of one argument."""

    work: _Guarded[Item, Result]

    def __call__(self, numbered: tuple[int, Item]) -> tuple[int, Result | _Raised]:
        return self.work(*numbered)


@contextlib.contextmanager
def _closing(results: Generator[Item, None, None]) -> Iterator[Generator[Item, None, None]]:
    """Close a generator at the end, without joblib's warning that not all was waited for."""
    try:
        yield results
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', UserWarning)
            results.close()


def _here(work: Callable[[Item], Result], items: Sequence[Item],
          done: Done[Result]) -> list[Result]:
    results: list[Result] = []
    for item in items:
        results.append(work(item))
        done(len(results), results[-1])
    return results


def _scheme(cluster: str) -> str:
    return _address(cluster)[0] if cluster else ''


def _on_ray(work: '_Guarded[Item, Result]', items: Sequence[Item]
            ) -> 'Generator[tuple[int, Result | _Raised], None, None]':
    ray = importlib.import_module('ray')
    pool = importlib.import_module('ray.util.multiprocessing').Pool()
    try:
        yield from pool.imap_unordered(_Starred(work), list(enumerate(items)))
    except ray.exceptions.RayActorError as error:
        raise ArenaError(DIED) from error
    finally:
        pool.terminate()


def _address(cluster: str) -> tuple[str, str]:
    """Return scheme and ``host:port``; ConfigError when it is neither of the two kinds."""
    try:
        parts = urlsplit(cluster)
        complete = parts.scheme in SCHEMES and parts.hostname and parts.port
    except ValueError:
        complete = None
    if not complete:
        raise ConfigError(f"a cluster is dask://host:port or ray://host:port, found '{cluster}'")
    return parts.scheme, parts.netloc


@contextlib.contextmanager
def _dask(target: str) -> Iterator[None]:
    distributed = _library('distributed', f'dask://{target}', 'distributed')
    try:
        client = distributed.Client(f'tcp://{target}', timeout=CONNECT_S)
    except (OSError, TimeoutError) as error:
        raise ConfigError(f'no Dask scheduler answers at {target} within {CONNECT_S:g} s; is it '
                          'running there?') from error
    with client:
        if not client.ncores():
            raise ConfigError(f'the Dask scheduler at {target} has no workers; start some with '
                              f'`dask worker tcp://{target}`')
        yield


@contextlib.contextmanager
def _ray(target: str) -> Iterator[None]:
    ray = _library('ray', f'ray://{target}', 'ray[client]')
    try:
        ray.init(address=f'ray://{target}')
    except (OSError, RuntimeError, TimeoutError) as error:
        raise ConfigError(f'no Ray cluster answers at {target}: {error}') from error
    try:
        yield
    finally:
        ray.shutdown()


def _library(name: str, cluster: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"{cluster} needs the Python package '{package}', which is not "
                          f"installed here: pip install '{package}', in the version of the "
                          'cluster') from error
