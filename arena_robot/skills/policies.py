"""Policy models by name; what makes one can be sent to another process."""

from collections.abc import Callable
from functools import partial

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError
from arena_robot.models.chat import ChatClient, ChatSettings
from arena_robot.skills.base import SkillPolicy
from arena_robot.skills.chat_policy import ChatPolicy
from arena_robot.skills.generator import NAME, StructuredGenerator

GRAMMAR, CHAT = 'grammar', 'chat'
KINDS = (GRAMMAR, CHAT)
TEMPERATURE, MAX_TOKENS = 0.8, 4096


def policy_maker(kind: str, cache: str = '') -> tuple[str, Callable[[], SkillPolicy]]:
    """
    Return a policy model's name and what makes it: ``grammar`` or ``chat``.

    A chat model is the one of ``ARENA_MODEL_URL`` and ``ARENA_MODEL``; its answers are kept in the
    folder ``cache``.
    """
    if kind == GRAMMAR:
        return NAME, StructuredGenerator
    if kind != CHAT:
        raise ConfigError(f"there is no policy model '{kind}'.{nearest(kind, KINDS)}")
    settings = ChatSettings(temperature=TEMPERATURE, max_tokens=MAX_TOKENS, cache=cache)
    return f'chat:{settings.address()[1]}', partial(chat_policy, settings)


def chat_policy(settings: ChatSettings) -> ChatPolicy:
    """Return a policy model behind an endpoint."""
    return ChatPolicy(ChatClient(settings))
