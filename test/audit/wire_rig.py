"""A clip whose pictures tell their progress, and an HTTP server that answers as told."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from arena_robot.audit.base import Capabilities, trace_of
from arena_robot.core.clip import Clip

TRUTH = [0.0, 0.2, 0.5, 0.35, 0.6, 1.0]


def frame(value):
    """Return a picture whose brightness is a progress."""
    return np.full((16, 16, 3), round(40 + 160 * value), np.uint8)


def value_of(picture):
    return (float(picture.mean()) - 40) / 160


def clip(values=TRUTH, goal=True):
    frames = [frame(v) for v in values]
    return Clip('lift the cube', np.arange(len(values)) * 0.5, {'left': frames, 'wrist': frames},
                goal={'left': frame(1.0), 'wrist': frame(1.0)} if goal else {}, name='s/A')


class Brightness:
    """A judge that reads the brightness."""

    name, capabilities = 'brightness', Capabilities()

    def progress(self, clip):
        return trace_of(clip, np.array([value_of(f) for f in next(iter(clip.frames.values()))]),
                        self.name)

    def compare(self, pair):
        return None


class Server:
    """An HTTP server whose answers a function makes of (path, body)."""

    def __init__(self, answer):
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
                code, data = answer(self.path, body)
                self.send_response(code)
                self.send_header('Content-Length', str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                self.do_POST()

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self._server.server_address[1]}'

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,),
                                        daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)
