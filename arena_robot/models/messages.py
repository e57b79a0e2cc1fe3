"""Messages of a chat: texts and pictures, as OpenAI-compatible endpoints take them."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from arena_robot.core.jpeg import to_jpeg
from arena_robot.core.observation import Pixels

TOKENS_PER_PICTURE = 1100
CHARACTERS_PER_TOKEN = 3.0


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
