"""An HTTP server whose answers a test makes, a chat endpoint of it, and ports for restarts."""

import json
import random
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HttpServer:
    """
    Answers each GET, POST and PUT with ``answer(path, body)``, a status and a body.

    A body is bytes, or yields them piece by piece.
    """

    def __init__(self, answer):
        self.answer = answer
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
                code, headers, data = outer.respond(self.path, body, self.headers)
                self.send_response(code)
                length = {'Content-Length': str(len(data))} if isinstance(data, bytes) else {}
                for name, value in {**length, **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                with suppress(ConnectionError):    # the caller may have heard enough
                    for piece in [data] if length else data:
                        self.wfile.write(piece)

            def do_GET(self):
                self.do_POST()

            def do_PUT(self):
                self.do_POST()

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self._server.server_address[1]}'

    def respond(self, path, body, headers):
        """Return status, headers and body of the answer to a request."""
        code, data = self.answer(path, body)
        return code, {}, data

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,),
                                        daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)


class ChatServer(HttpServer):
    """A chat endpoint: ``answer(request)`` gives (status, headers, body); requests are kept."""

    def __init__(self, answer):
        super().__init__(answer)
        self.requests, self.keys = [], []
        self.url += '/v1'

    def respond(self, path, body, headers):
        self.keys.append(headers.get('Authorization'))
        self.requests.append(json.loads(body) if body[:1] == b'{' else body)
        return self.answer(self.requests[-1])


def said(text, **more):
    """Return a good answer with a text."""
    choice = {'index': 0, 'message': {'role': 'assistant', 'content': text},
              'finish_reason': 'stop', **more}
    return 200, {'Content-Type': 'application/json'}, json.dumps({
        'id': 'x', 'object': 'chat.completion', 'choices': [choice],
        'usage': {'prompt_tokens': 100, 'completion_tokens': 20}}).encode()


def streamed(text, written, pause_s=0.0, finish='stop', size=4):
    """Return a good answer that comes in pieces; ``written`` counts those that were sent."""
    def events():
        parts = [text[k:k + size] for k in range(0, len(text), size)]
        rows = [{'choices': [{'index': 0, 'delta': {'content': part}}]} for part in parts]
        end = [{'choices': [{'index': 0, 'delta': {}, 'finish_reason': finish}]},
               {'choices': [], 'usage': {'prompt_tokens': 100, 'completion_tokens': len(parts)}}]
        for row in [*rows, *(end if finish else [])]:
            written.append(row)
            yield f'data: {json.dumps(row)}\n\n'.encode()
            time.sleep(pause_s)
        yield b'data: [DONE]\n\n'
    return 200, {'Content-Type': 'text/event-stream'}, events()


GIVEN: set[int] = set()


def free_port():
    """
    Return a free port below those of outgoing calls, so that none takes it during a restart.

    No port is returned twice: gRPC lets two servers listen at one.
    """
    while True:
        port = random.SystemRandom().randrange(20000, 30000)
        with suppress(OSError), socket.create_server(('127.0.0.1', port)):
            if port not in GIVEN:
                GIVEN.add(port)
                return port
