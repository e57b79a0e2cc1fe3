"""
Client for OpenAI-compatible chat endpoints, with texts and pictures.

Address, model and key come from the configuration or from ``ARENA_MODEL_URL``, ``ARENA_MODEL`` and
``ARENA_MODEL_KEY``. The key is in no message, log, cache or transcript. Answers are cached by the
content of the request; a budget stops before it is exceeded; ``dry_run`` sends nothing. JSON in a
reply is the reply alone, or one fenced block; nothing is repaired.
"""

import base64
import hashlib
import json
import math
import os
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from arena_robot.core.errors import BudgetSpent, ConfigError, ModelBadReply, ModelError
from arena_robot.core.files import write_json
from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.observation import Pixels
from arena_robot.models.http import HttpCaller, HttpSettings, Secret, StreamedChat

URL, MODEL, KEY = 'ARENA_MODEL_URL', 'ARENA_MODEL', 'ARENA_MODEL_KEY'
CACHE_VERSION = 1
CACHE = '~/.cache/arena_robot/chat'    # of the verbs and of the server
ANSWER_TOKENS = 4096          # enough for reasons and one JSON object
TOKENS_PER_PICTURE = 1100     # a cautious estimate, as the next one
CHARACTERS_PER_TOKEN = 3.0    # English has about four
_FENCED = re.compile(r'```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```', re.DOTALL)
_KINDS: Mapping[str, tuple[type, ...]] = {
    'object': (dict,), 'array': (list,), 'string': (str,), 'boolean': (bool,),
    'null': (type(None),), 'integer': (int,), 'number': (int, float)}


@dataclass(frozen=True)
class Text:
    """A piece of text."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A JPEG; ``detail`` is low, high or auto."""

    jpeg: bytes
    detail: str = 'auto'

    @classmethod
    def of(cls, pixels: Pixels, detail: str = 'auto', quality: int = 90) -> 'Picture':
        """Return the picture of RGB pixels (H, W, 3)."""
        return cls(to_jpeg(pixels, quality), detail)


Part = Text | Picture


@dataclass(frozen=True)
class ChatMessage:
    """What one side of a chat said; ``role`` is system, user or assistant."""

    role: str
    parts: tuple[Part, ...]


def user(*parts: 'Part | str') -> ChatMessage:
    """Return a message of the user."""
    return ChatMessage('user', tuple(Text(p) if isinstance(p, str) else p for p in parts))


def system(text: str) -> ChatMessage:
    """Return a message of the system."""
    return ChatMessage('system', (Text(text),))


def on_the_wire(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return the messages as the endpoint takes them; a single text is sent as a string."""
    return [{'role': m.role, 'content': m.parts[0].text if len(m.parts) == 1
             and isinstance(m.parts[0], Text) else [_part(p) for p in m.parts]} for m in messages]


def in_a_transcript(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return the messages with pictures as their SHA-256, for logs and for the cache's key."""
    return [{'role': m.role, 'content': [
        p.text if isinstance(p, Text) else
        {'picture': hashlib.sha256(p.jpeg).hexdigest(), 'bytes': len(p.jpeg), 'detail': p.detail}
        for p in m.parts]} for m in messages]


@dataclass(frozen=True)
class ChatSettings:
    """
    An endpoint and how it is used.

    ``base_url`` ends before ``/chat/completions``. Prices are per million tokens; ``budget`` is in
    their currency, None is without a limit. ``cache`` and ``transcript`` are a folder and a file,
    empty for none. ``schema_output`` asks for JSON-schema output until the server refuses it.
    """

    base_url: str = ''
    model: str = ''
    key_variable: str = KEY
    temperature: float = 0.0
    max_tokens: int = 1024
    price_in: float = 0.0
    price_out: float = 0.0
    budget: float | None = None
    cache: str = ''
    transcript: str = ''
    schema_output: bool = True
    dry_run: bool = False
    http: HttpSettings = field(default_factory=HttpSettings)

    def __post_init__(self) -> None:
        if self.budget is not None and not (self.price_in > 0.0 or self.price_out > 0.0):
            raise ConfigError('a budget needs prices: price_in and price_out per million tokens')
        if self.max_tokens < 1:
            raise ConfigError(f'max_tokens must be at least 1, found {self.max_tokens}')

    def address(self) -> tuple[str, str]:
        """Return address and model, from the environment where they are not set."""
        url, model = self.base_url or os.environ.get(URL, ''), self.model or os.environ.get(
            MODEL, '')
        if not url or not model:
            raise ConfigError(f'no chat endpoint: set base_url and model, or {URL} and {MODEL}')
        return url, model


@dataclass(frozen=True)
class ChatReply:
    """
    An answer with its tokens and cost; ``counted`` is False where tokens are an estimate.

    ``cut``: the rest was not wanted.
    """

    text: str
    model: str
    tokens_in: int
    tokens_out: int
    cost: float
    cached: bool = False
    counted: bool = True
    cut: bool = False


@dataclass
class Usage:
    """What a client used so far."""

    calls: int = 0
    cached: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    held: float = 0.0


class ChatClient:
    """Asks one model; may be used by several threads."""

    def __init__(self, settings: ChatSettings | None = None,
                 transport: httpx.BaseTransport | None = None) -> None:
        self.settings = settings or ChatSettings()
        self.url, self.model = self.settings.address()
        self._key = Secret(os.environ.get(self.settings.key_variable, ''))
        self.http = HttpCaller(self.url, self._key, self.settings.http, transport)
        self.usage = Usage()
        self._schema_output, self._streams = self.settings.schema_output, True
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the connections; can be called twice."""
        self.http.close()

    @property
    def identity(self) -> str:
        """What the answers depend on besides the messages."""
        s = self.settings
        return f'{self.url} {self.model} t={s.temperature:g} n={s.max_tokens}'

    def cost_bound(self, messages: Sequence[ChatMessage]) -> float:
        """Return what a call can cost at most, by a cautious estimate of its tokens."""
        return self._price(token_bound(messages), self.settings.max_tokens)

    def preview(self, messages: Sequence[ChatMessage],
                schema: Mapping[str, Any] | None = None) -> str:
        """Return what a call would send, pictures by their SHA-256, and what it costs at most."""
        sent = {'url': self.url, 'model': self.model, 'messages': in_a_transcript(messages),
                'schema': schema}
        text = self._key.shown(json.dumps(sent, indent=2, ensure_ascii=False))
        return (f'{text}\nat most {token_bound(messages)} tokens in and '
                f'{self.settings.max_tokens} out, cost at most {self.cost_bound(messages):.4f}')

    def ask(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any] | None = None,
            attempt: int = 0, enough: Callable[[str], bool] | None = None) -> ChatReply:
        """
        Return the answer to ``messages``; ``attempt`` above 0 asks the same anew.

        With ``enough`` it is streamed where the server can, and ends when that says so of the
        text so far.

        Raises BudgetSpent before a call that could exceed the budget, ModelBadReply when the
        answer is cut, refused or no chat completion, ModelUnavailable and ModelError.
        """
        path = self._cache_path(messages, schema, attempt)
        if path is not None and (reply := _cached(path)) is not None:
            with self._lock:
                self.usage.cached += 1
            self._note(messages, reply)
            return reply
        bound = self.cost_bound(messages)
        self._reserve(bound)
        try:
            reply = self._send(messages, schema, enough)
        finally:
            with self._lock:
                self.usage.held -= bound
        self._note(messages, reply)
        if path is not None and not reply.cut:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, {'version': CACHE_VERSION, 'text': reply.text, 'model': reply.model,
                              'tokens_in': reply.tokens_in, 'tokens_out': reply.tokens_out})
        return reply

    def ask_json(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any],
                 attempts: int = 3) -> tuple[Any, ChatReply]:
        """Return the JSON of the answer that fits ``schema``; asks again when it does not."""
        last: ModelBadReply | None = None
        for attempt in range(attempts):
            try:
                reply = self.ask(messages, schema, attempt)
                return parse_json(reply.text, schema), reply
            except ModelBadReply as error:
                last = error
        raise ModelBadReply(f'{self.model} gave no fitting answer in {attempts} attempts; the '
                            f'last: {last}') from last

    def _reserve(self, bound: float) -> None:
        budget = self.settings.budget
        if self.settings.dry_run:
            raise ModelError(f'dry run: nothing is sent; the call would cost at most {bound:.4f}')
        with self._lock:
            spent = self.usage.cost + self.usage.held
            if budget is not None and spent + bound > budget:
                raise BudgetSpent(f'{spent:.4f} of {budget:g} are spent, and the next call could '
                                  f'cost {bound:.4f}; raise the budget to go on')
            self.usage.held += bound

    def _send(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any] | None,
              enough: Callable[[str], bool] | None) -> ChatReply:
        asked = {'model': self.model, 'messages': on_the_wire(messages),
                 'temperature': self.settings.temperature, 'max_tokens': self.settings.max_tokens}
        wanted = schema is not None and self._schema_output, enough is not None and self._streams
        # A server that refuses the request may not know streams, or not schemas.
        for formed, streamed in dict.fromkeys((wanted, (wanted[0], False), (False, False))):
            try:
                body, written = self._posted(asked, schema if formed else None,
                                             enough if streamed else None)
                break
            except ModelError as error:
                if not (formed or streamed) or not re.search('HTTP 4(00|22)', str(error)):
                    raise
        self._schema_output &= formed == wanted[0]
        self._streams &= streamed == wanted[1]
        used = tokens_of(body)
        tokens_in, tokens_out = used or (
            token_bound(messages), written.tokens if written else self.settings.max_tokens)
        cost = self._price(tokens_in, tokens_out)
        with self._lock:    # also for an answer that cannot be used: it is paid for
            self.usage.calls += 1
            self.usage.tokens_in += tokens_in
            self.usage.tokens_out += tokens_out
            self.usage.cost += cost
        try:
            text = completion(body)
        except ModelBadReply as error:
            self._note(messages, ChatReply('', self.model, tokens_in, tokens_out, cost), error)
            raise
        return ChatReply(text, self.model, tokens_in, tokens_out, cost, counted=used is not None,
                         cut=written is not None and written.cut)

    def _posted(self, asked: Mapping[str, Any], schema: Mapping[str, Any] | None,
                enough: Callable[[str], bool] | None) -> tuple[bytes, StreamedChat | None]:
        request = dict(asked) if schema is None else {
            **asked, 'response_format': {'type': 'json_schema', 'json_schema': {
                'name': 'reply', 'strict': True, 'schema': dict(schema)}}}
        if enough is None:
            return self.http.call('POST', '/chat/completions', json=request), None
        tried: list[StreamedChat] = []

        def watch() -> Callable[[bytes], bool]:
            tried.append(StreamedChat(enough))
            return tried[-1].add
        body = self.http.call('POST', '/chat/completions', watch, json={
            **request, 'stream': True, 'stream_options': {'include_usage': True}})
        return (body, None) if body.lstrip()[:1] == b'{' else (tried[-1].body(), tried[-1])

    def _price(self, tokens_in: int, tokens_out: int) -> float:
        s = self.settings
        return (tokens_in * s.price_in + tokens_out * s.price_out) / 1e6

    def _cache_path(self, messages: Sequence[ChatMessage], schema: Mapping[str, Any] | None,
                    attempt: int) -> Path | None:
        if not self.settings.cache:
            return None
        key = json.dumps([CACHE_VERSION, self.identity, in_a_transcript(messages), schema,
                          attempt], sort_keys=True)
        return Path(self.settings.cache).expanduser() / (
            hashlib.sha256(key.encode()).hexdigest() + '.json')

    def _note(self, messages: Sequence[ChatMessage], reply: ChatReply,
              error: ModelBadReply | None = None) -> None:
        if not self.settings.transcript:
            return
        line = json.dumps({
            'time_s': round(time.time(), 3), 'model': self.model, 'url': self.url,
            'messages': in_a_transcript(messages), 'reply': reply.text, 'cost': reply.cost,
            'tokens_in': reply.tokens_in, 'tokens_out': reply.tokens_out,
            **({'cached': True} if reply.cached else {}),
            **({'error': str(error)} if error else {})}, ensure_ascii=False)
        path = Path(self.settings.transcript).expanduser()
        with self._lock, path.open('a', encoding='utf-8') as out:
            out.write(self._key.shown(line) + '\n')


def completion(body: bytes) -> str:
    """Return the text of an answer; ModelBadReply when it is cut, refused or no completion."""
    try:
        data = json.loads(body)
        choice = data['choices'][0]
        message, why = choice['message'], choice.get('finish_reason')
        if not isinstance(message, dict):
            raise TypeError('the message is not an object')
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise ModelBadReply(f'the answer is no chat completion: {error!r}') from error
    if message.get('refusal'):
        raise ModelBadReply(f"the model refused: {str(message['refusal'])[:200]}")
    if why in ('length', 'content_filter'):
        raise ModelBadReply(f'the answer was cut off ({why})')
    text = message.get('content')
    if not isinstance(text, str) or not text.strip():
        raise ModelBadReply('the answer has no text')
    return text


def tokens_of(body: bytes) -> tuple[int, int] | None:
    """Return (tokens in, tokens out) of an answer, None where it does not say."""
    try:
        usage = json.loads(body)['usage']
        tokens_in, tokens_out = usage['prompt_tokens'], usage['completion_tokens']
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    for count in (tokens_in, tokens_out):
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            return None
    return tokens_in, tokens_out


def _cached(path: Path) -> ChatReply | None:
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
        if data['version'] != CACHE_VERSION:
            return None
        return ChatReply(str(data['text']), str(data['model']), int(data['tokens_in']),
                         int(data['tokens_out']), 0.0, cached=True)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def token_bound(messages: Sequence[ChatMessage]) -> int:
    """Return a cautious estimate of the tokens of messages."""
    return sum(TOKENS_PER_PICTURE if isinstance(p, Picture)
               else 4 + int(len(p.text.encode()) / CHARACTERS_PER_TOKEN)
               for m in messages for p in m.parts)


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {'type': 'text', 'text': part.text}
    data = base64.b64encode(part.jpeg).decode('ascii')
    return {'type': 'image_url', 'image_url': {'url': f'data:image/jpeg;base64,{data}',
                                               'detail': part.detail}}


def parse_json(text: str, schema: Mapping[str, Any] | None = None) -> Any:
    """Return the JSON value of a reply; ModelBadReply when there is none, or two, or it is bad."""
    blocks = _FENCED.findall(text)
    if len(blocks) > 1:
        raise ModelBadReply(f'the reply has {len(blocks)} blocks, expected one: {_short(text)}')
    try:
        value = json.loads(blocks[0] if blocks else text, parse_constant=_no_constant,
                           parse_float=_finite,
                           object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise ModelBadReply(f'the reply is not JSON ({error}): {_short(text)}') from error
    if schema is not None:
        check_schema(value, schema)
    return value


def check_schema(value: Any, schema: Mapping[str, Any], where: str = 'reply') -> None:
    """
    Check a value; ModelBadReply says where it does not fit.

    Known words: type, enum, properties, required, additionalProperties (False), items, minItems,
    maxItems, minimum, maximum, maxLength.
    """
    kind = schema.get('type')
    if kind is not None and not _is(value, kind):
        raise ModelBadReply(f'{where} must be {kind}, found {_short(repr(value))}')
    if 'enum' in schema and value not in schema['enum']:
        raise ModelBadReply(f'{where} must be one of {schema["enum"]}, found '
                            f'{_short(repr(value))}')
    if isinstance(value, dict):
        _check_object(value, schema, where)
    elif isinstance(value, list):
        if not schema.get('minItems', 0) <= len(value) <= schema.get('maxItems', len(value)):
            raise ModelBadReply(f'{where} has {len(value)} entries')
        for number, entry in enumerate(value):
            check_schema(entry, schema.get('items', {}), f'{where}[{number}]')
    elif isinstance(value, str):
        if len(value) > schema.get('maxLength', len(value)):
            raise ModelBadReply(f'{where} is longer than {schema["maxLength"]} characters')
    elif (isinstance(value, int | float) and not isinstance(value, bool)
          and not schema.get('minimum', value) <= value <= schema.get('maximum', value)):
        raise ModelBadReply(f'{where} is {value}')


def _check_object(value: dict[str, Any], schema: Mapping[str, Any], where: str) -> None:
    known = schema.get('properties', {})
    for name in schema.get('required', ()):
        if name not in value:
            raise ModelBadReply(f"{where} has no '{name}'")
    for name, entry in value.items():
        if name in known:
            check_schema(entry, known[name], f'{where}.{name}')
        elif schema.get('additionalProperties') is False:
            raise ModelBadReply(f"{where} has the unknown key '{_short(name)}'")


def _is(value: Any, kind: str) -> bool:
    if kind in ('integer', 'number') and isinstance(value, bool):
        return False
    return isinstance(value, _KINDS[kind])


def _no_constant(word: str) -> None:
    raise ValueError(f'{word} is not JSON')


def _finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise ValueError(f'{word} is too large')
    return value


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError('a key stands there twice')
    return members


def _short(text: str) -> str:
    return text if len(text) <= 120 else text[:117] + '…'
