"""A chat endpoint written from the protocol, for tests: answers what it is told to."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ChatServer:
    """``answer(request)`` gives (status, headers, body bytes); requests are kept."""

    def __init__(self, answer):
        self.requests, self.keys = [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
                outer.keys.append(self.headers.get('Authorization'))
                outer.requests.append(json.loads(body) if body[:1] == b'{' else body)
                code, headers, data = answer(outer.requests[-1])
                self.send_response(code)
                for name, value in {'Content-Length': str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self._server.server_address[1]}/v1'

    def __enter__(self):
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,),
                                        daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)


def said(text, **more):
    """Return a good answer with a text."""
    choice = {'index': 0, 'message': {'role': 'assistant', 'content': text},
              'finish_reason': 'stop', **more}
    return 200, {'Content-Type': 'application/json'}, json.dumps({
        'id': 'x', 'object': 'chat.completion', 'choices': [choice],
        'usage': {'prompt_tokens': 100, 'completion_tokens': 20}}).encode()
