"""
RoboMeter's HTTP protocol: judges behind it, and a server that offers any judge under it.

``POST /evaluate_batch_npy`` takes a multipart form: the field ``sample_0`` is JSON that names the
file part ``sample_0_trajectory_frames``, a ``.npy`` of (T, H, W, 3) bytes. The answer's
``outputs_progress.progress_pred`` has a list of T numbers from 0 to 1 per sample. Whatever else
comes back makes the trace invalid.
"""

import hashlib
import io
import json
import logging
import threading
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
from numpy.typing import NDArray

from arena_robot.audit.base import Capabilities, Judge, Pair, Trace, difference, invalid, trace_of
from arena_robot.audit.opd import SUCCESS_MP
from arena_robot.core.errors import ArenaError, ConfigError, ModelBadReply, ModelError
from arena_robot.core.observation import Floats, Pixels
from arena_robot.core.openable import Openable
from arena_robot.models.http import HttpCaller, HttpSettings
from arena_robot.records.clip import Clip

PATH, INFO = '/evaluate_batch_npy', '/model_info'
FRAMES = 'sample_0_trajectory_frames'
log = logging.getLogger(__name__)
LARGEST_BYTES = 512 << 20    # of a request


class RobometerJudge:
    """A RoboMeter server at ``url``; it sees one ``view``, the first recorded one by default."""

    name = 'robometer'

    def __init__(self, url: str, view: str = '', timeout_s: float = 120.0, attempts: int = 3,
                 interval_s: float = 0.5, max_frames: int = 32,
                 transport: httpx.BaseTransport | None = None) -> None:
        self.capabilities = Capabilities(max_views=1, max_frames=max_frames,
                                         interval_s=interval_s)
        self._view = view
        self._http = HttpCaller(url, settings=HttpSettings(timeout_s, attempts),
                                transport=transport)

    @property
    def model(self) -> str:
        """Name of the server's model at present, and its address."""
        return f"{self._info().get('model_path') or 'unnamed model'} at {self._http.base_url}"

    @property
    def identity(self) -> str:
        """What the server says of its model at present; empty when it does not name one."""
        info = self._info()
        return json.dumps(info, sort_keys=True) if info.get('model_path') else ''

    def _info(self) -> dict[str, Any]:
        try:
            info = json.loads(self._http.call('GET', INFO))
        except (ModelError, ValueError, RecursionError):
            return {}
        return info if isinstance(info, dict) else {}

    def progress(self, clip: Clip) -> Trace:
        """Return the server's values of a view's frames."""
        view = self._view or next(iter(clip.frames))
        if view not in clip.frames:
            return invalid(clip, self.name, f"the clip has no view '{view}'; it has "
                           f'{", ".join(clip.frames)}')
        raw = b''
        try:
            raw = self._http.call('POST', PATH, files=_form(
                np.stack(clip.frames[view]), clip.instruction, clip.name))
            values = progress_in(raw, len(clip))
        except ModelError as error:
            return invalid(clip, self.name, str(error), (raw.decode('utf-8', 'replace'),))
        return trace_of(clip, values, self.model, mode=view,
                        raw=(raw.decode('utf-8', 'replace'),))

    def compare(self, pair: Pair) -> float | None:
        """Return the difference of the values of after and before."""
        return difference(self, pair)


def progress_in(body: bytes, count: int) -> Floats:
    """Return the (count,) values in an answer; ModelBadReply when it has not exactly those."""
    try:
        value = json.loads(body)['outputs_progress']['progress_pred']
        if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], list):
            raise ValueError('progress_pred is not one list')
        row = value[0]
        for entry in row:
            if isinstance(entry, bool) or not isinstance(entry, int | float):
                raise ValueError(f'{entry!r} is not a number')
        numbers = np.array(row, np.float64)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ModelBadReply(f'the answer has no progress: {error!r}'[:300]) from error
    if numbers.shape != (count,):
        raise ModelBadReply(f'the answer has {len(numbers)} values for {count} frames')
    return numbers


def _form(frames: NDArray[np.uint8], task: str, name: str) -> dict[str, Any]:
    file = io.BytesIO()
    np.save(file, frames, allow_pickle=False)
    sample = {'sample_type': 'progress', 'trajectory': {
        'frames': {'__numpy_file__': FRAMES}, 'frames_shape': list(frames.shape), 'task': task,
        'id': name or 'episode', 'metadata': {'subsequence_length': len(frames)},
        'video_embeddings': None}}
    return {'sample_0': (None, json.dumps(sample)), 'use_frame_steps': (None, 'true'),
            FRAMES: (f'{FRAMES}.npy', file.getvalue(), 'application/octet-stream')}


def frames_in(data: bytes) -> list[Pixels]:
    """Return the frames of a ``.npy`` file; ModelBadReply when it holds none."""
    try:
        frames = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise ModelBadReply(f'the file is no .npy: {error}') from error
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3 or not len(frames):
        raise ModelBadReply(f'frames are (T, H, W, 3) bytes, found {frames.dtype} '
                            f'{frames.shape}')
    return list(frames)


class RobometerServer(Openable):
    """
    Serves ``judge`` on ``host:port`` (0: any free one) while it is open.

    ``identity`` is all that its answers depend on; without one each server counts as another.
    ConfigError for a judge that needs several views, or a goal picture.
    """

    def __init__(self, judge: Judge, host: str = '127.0.0.1', port: int = 0,
                 identity: str = '') -> None:
        can = judge.capabilities
        if can.needs_record:
            raise ConfigError(f"the judge '{judge.name}' reads what was recorded with an episode; "
                              'a request of this protocol has pictures alone: serve another judge')
        if len(can.views) > 1 or can.needs_goal:
            need = f'the views {", ".join(can.views)}' if len(can.views) > 1 else 'a goal picture'
            raise ConfigError(f"the judge '{judge.name}' needs {need}; a request of this protocol "
                              'has one view and no goal: serve another judge')
        self._view = can.views[0] if can.views else 'left'
        self._judge, self._address = judge, (host, port)
        self._identity = hashlib.sha256((identity or uuid4().hex).encode()).hexdigest()
        self._turn = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Its address, once it is open."""
        assert self._server is not None
        host, port = self._server.server_address[:2]
        return f'http://{host!s}:{port}'

    def open(self) -> None:
        """Listen and answer in a thread of its own."""
        outer = self

        class Handler(_Handler):
            server_of = outer

        self._server = ThreadingHTTPServer(self._address, Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,),
                                        daemon=True, name='judge server')
        self._thread.start()

    def close(self) -> None:
        """Stop; can be called twice."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join(5.0)
            self._server = self._thread = None

    def model_info(self) -> dict[str, Any]:
        """Return what ``/model_info`` says."""
        return {'model_path': f'arena_robot/{self._judge.name}', 'identity': self._identity}

    def evaluate(self, parts: dict[str, bytes]) -> dict[str, Any]:
        """Return the answer to a form; ModelBadReply when it does not keep the protocol."""
        names = sorted(name for name in parts if name.startswith('sample_')
                       and name.removeprefix('sample_').isdigit())
        if names != [f'sample_{k}' for k in range(len(names))] or not names:
            raise ModelBadReply('the samples must be sample_0, sample_1 and so on')
        rows = [self._progress(parts, name) for name in names]
        return {'outputs_progress': {'progress_pred': rows}, 'outputs_success': {
            'success_probs': [[float(p >= SUCCESS_MP) for p in row] for row in rows]}}

    def _progress(self, parts: dict[str, bytes], name: str) -> list[float]:
        try:
            trajectory = json.loads(parts[name])['trajectory']
            frames = frames_in(parts[trajectory['frames']['__numpy_file__']])
            task = str(trajectory['task'])
        except (ValueError, KeyError, TypeError) as error:
            raise ModelBadReply(f'{name} is not a sample: {error!r}') from error
        times_s = np.arange(len(frames), dtype=np.float64) * self._judge.capabilities.interval_s
        clip = Clip(task, times_s, {self._view: frames}, name=str(trajectory.get('id', '')))
        with self._turn:
            trace = self._judge.progress(clip)
        if not trace.valid:
            raise ModelBadReply(f'{name} cannot be judged: {trace.detail}')
        return [float(p) for p in trace.phi]


class _Handler(BaseHTTPRequestHandler):
    server_of: RobometerServer

    def do_GET(self) -> None:
        if self.path == '/health':
            self._answer(200, {'status': 'healthy'})
        elif self.path == '/model_info':
            self._answer(200, self.server_of.model_info())
        else:
            self._answer(404, {'detail': 'known: /health, /model_info, /evaluate_batch_npy'})

    def do_POST(self) -> None:
        if self.path != '/evaluate_batch_npy':
            self._answer(404, {'detail': 'known: /evaluate_batch_npy'})
            return
        try:
            size = int(self.headers.get('Content-Length', ''))
            if not 0 < size <= LARGEST_BYTES:
                raise ValueError(f'{size} bytes')
            body = self.rfile.read(size)
        except ValueError as error:
            self._answer(413, {'detail': f'a length up to {LARGEST_BYTES} bytes: {error}'})
            return
        try:
            kind = self.headers.get('Content-Type', '')
            self._answer(200, self.server_of.evaluate(form_parts(kind, body)))
        except ArenaError as error:
            self._answer(422, {'detail': str(error)})

    def _answer(self, code: int, value: Any) -> None:
        data = json.dumps(value, allow_nan=False).encode()
        self.send_response(code)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        log.debug(format, *args)


def form_parts(content_type: str, body: bytes) -> dict[str, bytes]:
    """Return the parts of a multipart form by name; ModelBadReply when it is none."""
    if not content_type.startswith('multipart/form-data'):
        raise ModelBadReply(f"expected multipart/form-data, found '{content_type}'")
    head = f'Content-Type: {content_type}\r\n\r\n'.encode()
    message = BytesParser(policy=HTTP).parsebytes(head + body)
    if not message.is_multipart():
        raise ModelBadReply('the form has no parts')
    parts: dict[str, bytes] = {}
    for part in message.iter_parts():
        name = part.get_param('name', header='content-disposition')
        data = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(data, bytes):
            parts[name] = data
    return parts
