"""
Ask RoboMeter's own server with our client, and our server with RoboMeter's own client code.

  ARENA_PEERS=FOLDER python bench/peers_judge.py

FOLDER has a checkout of github.com/robometer/robometer named ``robometer``. Its code of the
protocol (forms, samples, routes) runs as it is; the model behind it is brightness of pictures, and
libraries that only its models use are empty modules here. FastAPI, uvicorn, python-multipart,
pydantic, requests and aiohttp must be installed.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import numpy as np

from arena_robot.audit.base import Capabilities, trace_of
from arena_robot.audit.wire.robometer import RobometerJudge, RobometerServer
from arena_robot.records.clip import Clip

NEEDED = ('fastapi', 'uvicorn', 'multipart', 'pydantic', 'requests', 'aiohttp')
KEPT = ('robometer.evals.baseline_eval_server', 'robometer.evals.eval_utils',
        'robometer.data.dataset_types')
PACKAGES = ('', 'evals', 'data')
EMPTY = ('torch', 'omegaconf', 'hydra')
SHARES = (0.0, 0.1, 0.35, 0.6, 0.85, 1.0)


class Empty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Offers an empty module for each that is not installed and is not the protocol's code."""

    def find_spec(self, name, path=None, target=None):
        """Find a module of EMPTY, or of RoboMeter's models."""
        top, _, rest = name.partition('.')
        models = top == 'robometer' and rest not in PACKAGES and name not in KEPT
        return importlib.machinery.ModuleSpec(name, self, is_package=True) \
            if top in EMPTY or models else None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        """Leave it empty."""


class _Module(ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith('__'):
            raise AttributeError(name)
        return type(name, (), {}) if name == 'Tensor' else MagicMock(name=name)


class Brightness:
    """A judge and, by ``compute_progress``, a model of RoboMeter's baselines."""

    name, capabilities = 'brightness', Capabilities(interval_s=0.5)

    def progress(self, clip):
        """Return the mean of each picture."""
        return trace_of(clip, np.array(self.compute_progress(clip.frames['left'])), self.name)

    def compare(self, pair):
        """Say nothing."""

    def compute_progress(self, frames, task_description=''):
        """Return the mean of each picture."""
        return [float(np.mean(frame)) / 255.0 for frame in frames]


def checkout():
    """Make RoboMeter's code importable."""
    place = Path(os.environ.get('ARENA_PEERS', ''), 'robometer')
    if 'ARENA_PEERS' not in os.environ or not (place / 'robometer').is_dir():
        raise SystemExit('ARENA_PEERS names no folder with a checkout of robometer/robometer')
    if lacking := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise SystemExit(f'not installed: {", ".join(lacking)}')
    sys.path.insert(0, str(place))
    sys.meta_path.insert(0, Empty())


def frames():
    """Return six pictures from black to white."""
    return [np.full((24, 32, 3), round(255 * share), np.uint8) for share in SHARES]


def our_client_their_server():
    """Return what our client makes of the answer of RoboMeter's server."""
    import uvicorn
    from robometer.evals import baseline_eval_server as theirs

    def processed(sample, model):
        return {'progress_pred': model.compute_progress(sample.trajectory.frames,
                                                        sample.trajectory.task)}
    theirs.process_progress_sample = processed
    behind = theirs.BaselineEvalServer.__new__(theirs.BaselineEvalServer)
    behind.cfg, behind.reward_model, behind.model = SimpleNamespace(), 'gvl', Brightness()
    behind.executor, behind._job_counter = theirs.ThreadPoolExecutor(1), 0
    behind._job_counter_lock = theirs.Lock()
    behind.get_model_info = lambda: {'reward_model': 'gvl'}
    server = uvicorn.Server(uvicorn.Config(theirs.create_app(None, behind), port=0,
                                           log_level='warning'))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.05)
    port = server.servers[0].sockets[0].getsockname()[1]
    trace = RobometerJudge(f'http://127.0.0.1:{port}').progress(
        Clip('lift the cup', np.arange(6) * 0.5, {'left': frames()}))
    server.should_exit = True
    if not trace.valid:
        raise SystemExit(f'our client refuses the answer of their server: {trace.detail}')
    return trace.phi


def their_client_our_server():
    """Return what RoboMeter's client code gets of our server."""
    from robometer.data.dataset_types import ProgressSample, Trajectory
    from robometer.evals.eval_utils import build_payload, post_batch_npy
    shown = np.stack(frames())
    files, data = build_payload([ProgressSample(trajectory=Trajectory(
        frames=shown, frames_shape=shown.shape, task='lift the cup', id='x'))])
    with RobometerServer(Brightness()) as server:
        answer = post_batch_npy(server.url, files, data)
    return np.array(answer['outputs_progress']['progress_pred'][0])


def main():
    """Compare both ways with the brightness itself."""
    checkout()
    wanted = np.array([round(255 * share) / 255 for share in SHARES])
    for name, found in (('our client, their server', our_client_their_server()),
                        ('their client, our server', their_client_our_server())):
        error = float(np.abs(found - wanted).max())
        print(f'{name}: {len(found)} values, largest difference {error:.2g}')
        if error > 1e-6:
            raise SystemExit('the values differ')


if __name__ == '__main__':
    main()
