"""A server that offers any judge under RoboMeter's HTTP protocol."""

import hashlib
import json
import logging
import threading
from email.parser import BytesParser
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from uuid import uuid4

import numpy as np
from typing_extensions import Self

from arena_robot.audit.base import Judge
from arena_robot.audit.wire.robometer import frames_in
from arena_robot.core.clip import Clip
from arena_robot.core.errors import ArenaError, ConfigError, ModelBadReply

log = logging.getLogger(__name__)

LARGEST_BYTES = 512 * 1024 * 1024


class RobometerServer:
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

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

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
            'success_probs': [[float(p >= 0.99) for p in row] for row in rows]}}

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
    found: dict[str, bytes] = {}
    for part in message.iter_parts():
        name = part.get_param('name', header='content-disposition')
        data = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(data, bytes):
            found[name] = data
    return found
