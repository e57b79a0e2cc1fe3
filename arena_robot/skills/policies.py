"""Policy models by name: the grammar, or a chat endpoint. Makers can be sent to processes."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from textwrap import dedent
from typing import Any

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError, ModelBadReply
from arena_robot.models.chat import (
    ChatClient,
    ChatSettings,
    check_schema,
    parse_json,
    system,
    user,
)
from arena_robot.models.http import HttpSettings
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
    PROPOSALS,
    SOLUTION,
    SUBTASKS,
    SYSTEM,
    completion_prompt,
    proposal_prompt,
    solution_prompt,
)
from arena_robot.skills.specs.table import TaskProposal

# Says why the scene of a solution cannot begin; empty when it can.
SceneCheck = Callable[[TaskSpec, Solution], str]
GRAMMAR, CHAT = 'grammar', 'chat'
KINDS = (GRAMMAR, CHAT)
_WRITTEN = re.compile(r'^\W*sub(?:task|step) \d+: *(.+?)\s*^```(primitive|reward)\n(.*?)^```'
                      r'(?:\s*^```action space\s*(\S+)\s*^```)?', re.M | re.S)
# Samples of a prompt must differ; a solution of 30 subtasks fits; the time of one answer, s.
TEMPERATURE, MAX_TOKENS, TIMEOUT_S = 0.8, 4096, 60.0


class ChatPolicy:
    """
    Asks a model for solutions, each once: an unreadable answer is an outcome, not asked again.

    The seed selects another sample of the same prompt (the cache keeps samples apart); what an
    endpoint draws depends on its temperature, so set ``temperature`` above 0.
    ``check`` says why the scene that a reply describes is wrong: the reason is sent back once.
    """

    def __init__(self, client: ChatClient, check: SceneCheck | None = None) -> None:
        self._client, self._check = client, check
        self.name = f'chat:{client.model}'

    def generate(self, spec: TaskSpec, exemplars: Sequence[tuple[TaskSpec, Solution]],
                 seed: int) -> Solution:
        """Return a solution; ModelBadReply when the answer is none."""
        return self.write(spec, None, exemplars, seed)

    def complete(self, spec: TaskSpec, prefix: Solution,
                 exemplars: Sequence[tuple[TaskSpec, Solution]], seed: int,
                 failure: str = '') -> Solution:
        """Return the prefix with the rest that the model writes, told what failed before."""
        return self.write(spec, prefix, exemplars, seed, failure)

    def write(self, spec: TaskSpec, prefix: Solution | None,
              exemplars: Sequence[tuple[TaskSpec, Solution]], seed: int, failure: str = '',
              good: Callable[[Solution], bool] | None = None) -> Solution:
        """Return the solution, up to the subtask after which ``good`` says no."""
        draft = self._written(spec, prefix, exemplars, seed, failure, good)
        if refused := self._refusal(spec, prefix, draft):
            draft = self._written(spec, prefix, exemplars, seed, refused, good)
            if refused := self._refusal(spec, prefix, draft):
                raise ModelBadReply(f'its scene was refused twice: {refused}')
        return draft

    def _refusal(self, spec: TaskSpec, prefix: Solution | None, draft: Solution) -> str:
        if prefix is not None or self._check is None or draft.scene['joints'] == spec.initial:
            return ''
        return self._check(spec, draft)

    def _written(self, spec: TaskSpec, prefix: Solution | None,
                 exemplars: Sequence[tuple[TaskSpec, Solution]], seed: int, failure: str,
                 good: Callable[[Solution], bool] | None) -> Solution:
        schema = SOLUTION if prefix is None else SUBTASKS
        prompt = solution_prompt(spec, exemplars, failure) if prefix is None else \
            completion_prompt(spec, prefix, exemplars, failure)

        def solution(value: Any) -> Solution:
            if prefix is None and isinstance(value, dict):
                value.setdefault('joints', [])    # a reply without them takes the task's starts
            check_schema(value, schema)
            kept = prefix or Solution(spec.name, {
                'objects': value['objects'],
                'joints': {**spec.initial, **_starts(value['joints'])}}, ())
            return replace(kept, subtasks=(*kept.subtasks, *_subtasks(value)), policy=self.name)

        names, seen = [thing.name for thing in spec.objects] if prefix is None else [], 0

        def enough(text: str) -> bool:
            nonlocal seen
            value = begun(text, names)
            if good is None or len(value['subtasks']) == seen:
                return False
            seen = len(value['subtasks'])
            try:
                return not good(solution(value))
            except ModelBadReply:
                return True
        reply = self._client.ask([system(SYSTEM), user(prompt)], schema, attempt=seed,
                                 enough=enough if good else None)
        value = begun(reply.text, names)
        return solution(value if reply.cut or _WRITTEN.search(reply.text)
                        else parse_json(reply.text))

    def propose(self, spec: TaskSpec, count: int, seed: int, check: Callable[[TaskProposal], str]
                ) -> tuple[list[TaskProposal], list[tuple[str, str]]]:
        """
        Return new tasks of a scene in which ``check`` finds no fault, and (name, fault) of others.

        Faults are sent back once. ModelBadReply: an unreadable answer.
        """
        kept: list[TaskProposal] = []
        refused: list[tuple[str, str]] = []
        for attempt in range(2):
            prompt = proposal_prompt(spec, count - len(kept), '\n'.join(map(': '.join, refused)))
            reply = self._client.ask([system(SYSTEM), user(prompt)], PROPOSALS, 2 * seed + attempt)
            for row in parse_json(reply.text, PROPOSALS)['tasks']:
                task = TaskProposal(spec.name, **{**row, 'starts': _starts(row['starts'])})
                same = any(task.name.lower() == other.name.lower() for other in kept)
                if fault := 'it was proposed already' if same else check(task):
                    refused.append((task.name, fault))
                else:
                    kept.append(task)
            if len(kept) >= count or not refused:
                break
        return kept[:count], refused


def begun(text: str, names: Sequence[str] = ()) -> dict[str, Any]:
    """
    Return objects, starts of joints, and the subtasks that are whole, of an unfinished answer.

    It is JSON, or in the form of the paper: a line ``subtask 1: its name``, and its code in a
    block of ``primitive`` or ``reward``, after which one of ``action space`` may come. That form
    has no list of objects: they are those of ``names`` that stand in the code.
    """
    value: dict[str, Any] = {'subtasks': [
        {'name': name, 'kind': kind, 'code': dedent(code.expandtabs(4)), 'action_space':
         'None' if kind == 'primitive' else space or SkillActionSpace.TRANSLATION.value}
        for name, kind, code, space in _WRITTEN.findall(text)]}
    if value['subtasks']:
        codes = ' '.join(row['code'] for row in value['subtasks'])
        return {**value, 'objects': [n for n in names if n in codes]} if names else value
    head, _, rest = text.partition('"subtasks"')
    decoder = json.JSONDecoder()
    try:
        for name in ('objects', 'joints'):
            if f'"{name}"' in head:
                value[name] = decoder.raw_decode(
                    head[head.index('[', head.index(f'"{name}"')):])[0]
        rest = rest[rest.index('[') + 1:]
        while True:
            row, end = decoder.raw_decode(rest := rest.lstrip(' \r\n\t,'))
            value['subtasks'].append(row)
            rest = rest[end:]
    except (ValueError, RecursionError):
        return value


def _subtasks(value: Any) -> tuple[Subtask, ...]:
    return tuple(Subtask(row['name'], SubtaskKind(row['kind']), row['code'],
                         SkillActionSpace(row['action_space'])) for row in value['subtasks'])


def _starts(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    return {row['joint']: row['start'] for row in rows}


def policy_maker(kind: str, cache: str = '', timeout_s: float = TIMEOUT_S,
                 max_tokens: int = MAX_TOKENS, check: SceneCheck | None = None
                 ) -> tuple[str, Callable[[], SkillPolicy]]:
    """
    Return a policy model's name and what makes it: ``grammar`` or ``chat``.

    A chat model is the one of ``ARENA_MODEL_URL`` and ``ARENA_MODEL``; its answers are kept in the
    folder ``cache``. An answer has ``timeout_s`` and at most ``max_tokens``. ``check`` is of
    the scenes that it describes.
    """
    if kind == GRAMMAR:
        return NAME, StructuredGenerator
    if kind != CHAT:
        raise ConfigError(f"there is no policy model '{kind}'.{nearest(kind, KINDS)}")
    settings = ChatSettings(temperature=TEMPERATURE, max_tokens=max_tokens, cache=cache,
                            http=HttpSettings(timeout_s=timeout_s))
    return f'chat:{settings.address()[1]}', partial(chat_policy, settings, check)


def chat_policy(settings: ChatSettings, check: SceneCheck | None = None) -> ChatPolicy:
    """Return a policy model behind an endpoint."""
    return ChatPolicy(ChatClient(settings), check)
