"""A policy model behind a chat endpoint; an answer that cannot be read is a ModelBadReply."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from arena_robot.models.chat import ChatClient, system, user
from arena_robot.models.json_reply import parse_json
from arena_robot.skills.base import SkillActionSpace, Solution, Subtask, SubtaskKind, TaskSpec
from arena_robot.skills.prompts import (
    SOLUTION,
    SUBTASKS,
    SYSTEM,
    completion_prompt,
    solution_prompt,
)


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
    return tuple(Subtask(one['name'], SubtaskKind(one['kind']), one['code'],
                         SkillActionSpace(one['action_space'])) for one in value['subtasks'])
