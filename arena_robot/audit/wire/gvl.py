"""
A vision-language model that scores shuffled frames, after "generative value learning" (GVL).

Frames are shuffled so that the model cannot count on time. The first one is shown as the start,
with 0 %. The answer must have every frame exactly once, with a percentage; else the model is asked
again, and after that the trace is invalid. A frame is never left out and never made up.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arena_robot.audit.base import Capabilities, Pair, Trace, difference, invalid, trace_of
from arena_robot.core.errors import ModelBadReply, ModelError
from arena_robot.core.observation import Floats, Pixels
from arena_robot.models.chat import (
    ChatClient,
    ChatMessage,
    ChatSettings,
    Part,
    Picture,
    Text,
    parse_json,
    user,
)
from arena_robot.records.clip import Clip, read_clip

PROMPT_VERSION = 1
MAX_FRAMES = 16
_ROLE = Text(
    'You are an expert in judging how far a robot has come with its task. You will see pictures '
    'of one episode in random order. Give the task completion of each picture as a percentage: '
    '0 is the start, 100 is the task done. A robot may also lose progress that it had made.')


class GvlJudge:
    """
    An OpenAI-compatible chat endpoint with pictures; see ``ChatSettings`` for the settings.

    It sees one ``view``. ``examples`` are clips with known progress (files) that are shown first.
    """

    name = 'gvl'

    def __init__(self, base_url: str = '', model: str = '', view: str = '', seed: int = 0,
                 attempts: int = 3, examples: Sequence[str] = (), detail: str = 'low',
                 budget: float | None = None, price_in: float = 0.0, price_out: float = 0.0,
                 cache: str = '', transcript: str = '', max_frames: int = MAX_FRAMES,
                 client: ChatClient | None = None) -> None:
        self.capabilities = Capabilities(deterministic=False, max_views=1, interval_s=0.5,
                                         max_frames=max_frames)
        self.client = client or ChatClient(ChatSettings(
            base_url, model, budget=budget, price_in=price_in, price_out=price_out, cache=cache,
            transcript=transcript, max_tokens=4096))
        self._view, self._seed, self._attempts, self._detail = view, seed, attempts, detail
        self._examples = [read_clip(Path(path)) for path in examples]
        self.identity = json.dumps([self.client.identity, PROMPT_VERSION, [
            hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in examples]])

    def progress(self, clip: Clip) -> Trace:
        """Return the model's percentages, unshuffled."""
        view = self._view or next(iter(clip.frames))
        if view not in clip.frames:
            return invalid(clip, self.client.model, f"the clip has no view '{view}'")
        frames, count = clip.frames[view], len(clip) - 1
        mode = f'{view}, seed {self._seed}, prompt {PROMPT_VERSION}'
        if count < 1:
            return invalid(clip, self.client.model, 'it needs two frames or more', mode=mode)
        order = np.random.default_rng((self._seed, count)).permutation(count)
        messages = [self._question(clip.instruction, frames[0], [frames[1 + k] for k in order])]
        raw: list[str] = []
        why = ''
        for attempt in range(self._attempts):
            try:
                reply = self.client.ask(messages, attempt=attempt)
                raw.append(reply.text)
                shuffled = percentages(reply.text, count)
            except ModelBadReply as error:
                why = str(error)
                continue
            except ModelError as error:
                return invalid(clip, self.client.model, str(error), tuple(raw), mode)
            values = np.zeros(count + 1)
            values[1 + order] = shuffled
            return trace_of(clip, values, self.client.model, mode=mode, raw=tuple(raw))
        return invalid(clip, self.client.model, f'{self._attempts} answers do not fit; the last: '
                       f'{why}', tuple(raw), mode)

    def compare(self, pair: Pair) -> float | None:
        """Return the difference of the percentages of after and before."""
        return difference(self, pair)

    def _question(self, task: str, start: Pixels, frames: Sequence[Pixels]) -> ChatMessage:
        parts: list[Part | str] = [_ROLE]
        for number, example in enumerate(self._examples, 1):
            parts += self._example(number, example)
        parts += ['The start of the episode (0 %):', self._picture(start),
                  f'The task is: {task}\nNow give the task completion of the following '
                  f'{len(frames)} pictures. Answer with a JSON list and nothing else, one entry '
                  'for each picture: [{"frame_number": 1, "frame_description": "…", '
                  '"task_completion_percentage": 0}]']
        for number, frame in enumerate(frames, 1):
            parts += [f'Frame {number}:', self._picture(frame)]
        return user(*parts)

    def _example(self, number: int, example: Any) -> list[Part | str]:
        view = self._view or next(iter(example.pictures))
        rows = np.unique(np.linspace(0, len(example.phi) - 1, 8).astype(int))
        order = np.random.default_rng((self._seed, number)).permutation(len(rows))
        parts: list[Part | str] = [f'Example {number}, the task is: {example.source.instruction}']
        for row in rows[order]:
            parts += [Picture(example.pictures[view][row], self._detail),
                      f'task completion {100 * example.phi[row]:.0f} %']
        return parts

    def _picture(self, pixels: Pixels) -> Picture:
        return Picture.of(pixels, self._detail)


_ENTRY = {'type': 'object', 'required': ['frame_number', 'task_completion_percentage'],
          'properties': {
              'frame_number': {'type': 'integer'}, 'frame_description': {'type': 'string'},
              'task_completion_percentage': {'type': 'number', 'minimum': 0, 'maximum': 100}}}


def percentages(text: str, count: int) -> Floats:
    """Return (count,) shares by frame number; ModelBadReply unless each is there exactly once."""
    entries = parse_json(text, {'type': 'array', 'items': _ENTRY, 'minItems': count,
                                'maxItems': count})
    numbers = [entry['frame_number'] for entry in entries]
    if sorted(numbers) != list(range(1, count + 1)):
        raise ModelBadReply(f'the frames are {numbers}, expected 1 to {count}, each once')
    values = np.zeros(count)
    for entry in entries:
        values[entry['frame_number'] - 1] = entry['task_completion_percentage'] / 100.0
    return values
