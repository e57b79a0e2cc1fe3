"""An HTTP server on this machine whose answers a test makes, and a chat endpoint of it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HttpServer:
    """Answers each GET and POST with ``answer(path, body)``, a status and a body in bytes."""

    def __init__(self, answer):
        self.answer = answer
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
                code, headers, data = outer.respond(self.path, body, self.headers)
                self.send_response(code)
                for name, value in {'Content-Length': str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
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
