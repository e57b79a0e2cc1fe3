"""Policy models by name: the grammar, or a chat endpoint. Makers can be sent to processes."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError
from arena_robot.models.chat import ChatClient, ChatSettings, parse_json, system, user
from arena_robot.skills.base import (
    SkillActionSpace,
    SkillPolicy,
    Solution,
    Subtask,
    SubtaskKind,
    TaskSpec,
)
from arena_robot.skills.generator import NAME, StructuredGenerator
from arena_robot.skills.prompts import (
    SOLUTION,
    SUBTASKS,
    SYSTEM,
    completion_prompt,
    solution_prompt,
)

GRAMMAR, CHAT = 'grammar', 'chat'
KINDS = (GRAMMAR, CHAT)
TEMPERATURE, MAX_TOKENS = 0.8, 4096


class ChatPolicy:
    """
    Asks a model for solutions, each once: an unreadable answer is an outcome, not asked again.

    The seed selects another sample of the same prompt (the cache keeps samples apart); what an
    endpoint draws depends on its temperature, so set ``temperature`` above 0.
    """

    def __init__(self, client: ChatClient) -> None:
        self._client = client
        self.name = f'chat:{client.model}'

    def generate(self, spec: TaskSpec, exemplars: Sequence[tuple[TaskSpec, Solution]],
                 seed: int) -> Solution:
        """Return a solution; ModelBadReply when the answer is none."""
        value = self._ask(solution_prompt(spec, exemplars), SOLUTION, seed)
        scene: dict[str, object] = {'objects': [str(name) for name in value['objects']],
                                    'joints': dict(spec.initial)}
        return Solution(spec.name, scene, _subtasks(value), self.name)

    def complete(self, spec: TaskSpec, prefix: Solution,
                 exemplars: Sequence[tuple[TaskSpec, Solution]], seed: int) -> Solution:
        """Return the prefix with the rest that the model writes."""
        value = self._ask(completion_prompt(spec, prefix, exemplars), SUBTASKS, seed)
        return replace(prefix, subtasks=(*prefix.subtasks, *_subtasks(value)), policy=self.name)

    def _ask(self, prompt: str, schema: dict[str, Any], seed: int) -> Any:
        reply = self._client.ask([system(SYSTEM), user(prompt)], schema, attempt=seed)
        return parse_json(reply.text, schema)


def _subtasks(value: Any) -> tuple[Subtask, ...]:
    return tuple(Subtask(row['name'], SubtaskKind(row['kind']), row['code'],
                         SkillActionSpace(row['action_space'])) for row in value['subtasks'])


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
