"""An HTTP server on this machine whose answers a test makes."""

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
