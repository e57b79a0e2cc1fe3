"""A chat endpoint written from the protocol, for tests: answers what it is told to."""

import json

from http_server import HttpServer


class ChatServer(HttpServer):
    """``answer(request)`` gives (status, headers, body bytes); requests are kept."""

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
