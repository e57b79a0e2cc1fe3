"""
Models behind a chat endpoint that answer with one number, by family: see ``FAMILIES``.

Robo-Dopamine sees eight pictures: start and goal, then three views before and three after, and
answers ``<score>+12%</score>``. VLAC sees two and answers a signed number. RoboReward sees the
episode up to an instant and answers ``ANSWER: 1`` to ``ANSWER: 5`` by a rubric. ``pairwise`` is a
question that any vision model can be asked: which of two pictures is farther on, in both orders.
An answer that is anything else is asked for again, and makes the trace invalid; it is never taken
for 0.

Hops become progress as Robo-Dopamine and VLAC define it, (T,) in [-1, 1]: a hop h up covers a
share of what is left, a hop down loses a share of what was reached. Eqs. 4 to 11 of the
Robo-Dopamine paper; P_0 = 0 and every value is clipped to [0, 1].
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from arena_robot.audit.base import (
    Capabilities,
    JudgeKind,
    Pair,
    Trace,
    difference,
    invalid,
    trace_of,
)
from arena_robot.core.errors import ConfigError, ModelBadReply, ModelError
from arena_robot.core.observation import ROLES, Floats, Pixels
from arena_robot.models.chat import ChatClient, ChatMessage, ChatSettings, Part, Picture, user
from arena_robot.records.clip import Clip

PROMPT_VERSION = 1
_TAGGED = re.compile(r'\A(?:(?!<score>).)*<score>\s*([+-]?\d{1,3}(?:\.\d+)?)\s*%\s*</score>'
                     r'(?:(?!<score>).)*\Z', re.DOTALL)
_BARE = re.compile(r'\A\s*([+-]?\d{1,3}(?:\.\d+)?)\s*%?\s*\Z')
_ANSWER = re.compile(r'\A(?:(?!ANSWER:).)*ANSWER:\s*(\d)\s*\.?\s*\Z', re.DOTALL)
FILM = 16    # pictures of an episode that RoboReward is shown at most, the last one among them
Views = Mapping[str, Pixels]
MODES = ('incremental', 'forward', 'backward', 'fused', 'conservative')
ALPHA, EPSILON = 5.0, 1e-6


class HopJudge:
    """
    A model behind a chat endpoint that scores; see ``ChatSettings`` for the settings.

    ``family`` is ``robo_dopamine``, ``vlac``, ``roboreward`` or ``pairwise``; ``mode`` how hops
    become progress: incremental, forward, backward, fused or conservative (of Robo-Dopamine
    alone).
    """

    name = 'hop'

    def __init__(self, base_url: str = '', model: str = '', family: str = 'robo_dopamine',
                 mode: str = 'incremental', attempts: int = 3, interval_s: float = 1.0,
                 max_frames: int = 64, budget: float | None = None, price_in: float = 0.0,
                 price_out: float = 0.0, cache: str = '', transcript: str = '',
                 alpha: float = ALPHA, client: ChatClient | None = None) -> None:
        if family not in FAMILIES or mode not in MODES:
            raise ConfigError(f'family is one of {", ".join(FAMILIES)} and mode one of '
                              f'{", ".join(MODES)}, found {family} and {mode}')
        if family != 'robo_dopamine' and mode != 'incremental':
            raise ConfigError(f'{family} is incremental, found the mode {mode}')
        needs_goal = mode in ('backward', 'fused', 'conservative')
        row = FAMILIES[family]
        self.capabilities = Capabilities(
            row.kind, needs_goal, deterministic=False, interval_s=interval_s,
            max_frames=max_frames, max_views=row.max_views)
        self.client = client or ChatClient(ChatSettings(
            base_url, model, budget=budget, price_in=price_in, price_out=price_out, cache=cache,
            transcript=transcript, temperature=row.temperature))
        self.identity = f'{self.client.identity} prompt {PROMPT_VERSION}'
        self._family, self._mode, self._attempts, self._alpha = family, mode, attempts, alpha

    def progress(self, clip: Clip) -> Trace:
        """Return the progress that the hops add up to."""
        mode = f'{self._family} {self._mode}, prompt {PROMPT_VERSION}' + (
            f', alpha {self._alpha:g}' if self._mode == 'conservative' else '')
        if self.capabilities.kind is JudgeKind.PAIRWISE:
            return invalid(clip, self.client.model, 'it says only which of two pictures is '
                           'farther on: `arena judge bench` asks it', mode=mode)
        if self.capabilities.needs_goal and not clip.goal:
            return invalid(clip, self.client.model, f'the mode {self._mode} needs a goal picture',
                           mode=mode)
        frames: list[Views] = [{view: pictures[t] for view, pictures in clip.frames.items()}
                               for t in range(len(clip))]
        start = clip.start or frames[0]
        raw: list[str] = []

        def hops(before: Callable[[int], Views]) -> Floats:
            return np.array([self._said(Pair(clip.instruction, before(t), frames[t], start,
                                             clip.goal), frames[:t + 1], raw)
                             for t in range(1, len(frames))])

        try:
            values = self._values(hops, frames, clip.goal)
        except ModelError as error:
            return invalid(clip, self.client.model, str(error), tuple(raw), mode)
        return trace_of(clip, values, self.client.model, mode=mode, raw=tuple(raw))

    def compare(self, pair: Pair) -> float | None:
        """Return the hop from before to after, or the difference of two levels."""
        try:
            if self.capabilities.kind is JudgeKind.PAIRWISE:
                turned = replace(pair, before=pair.after, after=pair.before)
                return (self._said(pair, (), []) - self._said(turned, (), [])) / 2.0
            if self.capabilities.kind is JudgeKind.ABSOLUTE:
                return difference(self, pair)
            return self._said(pair, (), [])
        except ModelError:
            return None

    def _values(self, hops: Callable[[Callable[[int], Views]], Floats], frames: list[Views],
                goal: Views) -> Floats:
        if self._family == 'roboreward':
            return np.concatenate([[0.0], hops(lambda t: frames[0])])
        if self._family == 'vlac':
            return vlac(hops(lambda t: frames[t - 1]))
        if self._mode == 'forward':
            return forward(hops(lambda t: frames[0]))
        if self._mode == 'backward':
            return backward(hops(lambda t: goal))
        between = hops(lambda t: frames[t - 1])
        if self._mode == 'incremental':
            return incremental(between)
        first, last = hops(lambda t: frames[0]), hops(lambda t: goal)
        if self._mode == 'fused':
            return fused(between, first, last)
        return conservative(between, first, last, self._alpha)

    def _said(self, pair: Pair, film: Sequence[Views], raw: list[str]) -> float:
        message = FAMILIES[self._family].question(pair, film)
        last: ModelBadReply | None = None
        for attempt in range(self._attempts):
            try:
                text = self.client.ask([message], attempt=attempt).text
                raw.append(text)
                return score(text, self._family)
            except ModelBadReply as error:
                last = error
        raise ModelBadReply(f'{self._attempts} answers have no score; the last: {last}')


def score(text: str, family: str) -> float:
    """Return the number in an answer as the family means it; ModelBadReply unless it has one."""
    row = FAMILIES[family]
    low, high = row.limits
    match = row.answer.match(text)
    value = float(match.group(1)) if match else float('nan')
    if not low <= value <= high:
        raise ModelBadReply(f'no score from {low:g} to {high:g} in the answer: {text[:120]!r}')
    return row.meaning(value)


def _three(views: Views) -> list[Part]:
    """Return three pictures: front (left camera), right, wrist; one camera is repeated."""
    pictures = [views[role] for role in ROLES if role in views] or list(views.values())
    return [Picture.of(pictures[min(k, len(pictures) - 1)]) for k in range(3)]


def _robo_dopamine(pair: Pair, film: Sequence[Views]) -> ChatMessage:
    front = {name: next(iter(views.values()), None) for name, views in (
        ('start', pair.start or pair.before), ('goal', pair.goal))}
    start = front['start']
    assert start is not None
    goal = np.full_like(start, 128) if front['goal'] is None else front['goal']
    parts: list[Part | str] = [
        f'Task: {pair.instruction}\nThe reference pictures show the start and the end of the '
        'task' + ('' if pair.goal else ' (no end picture is known: a grey one stands for it)')
        + '.\nREFERENCE START:', Picture.of(start), 'REFERENCE END:', Picture.of(goal),
        'BEFORE, front, left wrist, right wrist:', *_three(pair.before),
        'AFTER, front, left wrist, right wrist:', *_three(pair.after),
        'How far did the robot get from BEFORE to AFTER? A gain is a share of what was left to '
        'do, a loss a share of what had been done. Answer <score>+NN%</score> or '
        '<score>-NN%</score>.']
    return user(*parts)


def _vlac(pair: Pair, film: Sequence[Views]) -> ChatMessage:
    before, after = next(iter(pair.before.values())), next(iter(pair.after.values()))
    return user('Image-1:', Picture.of(before), 'Image-2:', Picture.of(after),
                f'Compare the two pictures for the task: {pair.instruction}. By how much of what '
                'remains is the second one closer to its completion? Answer a signed number in '
                'percent and nothing else. <score>')


def _roboreward(pair: Pair, film: Sequence[Views]) -> ChatMessage:
    rows = np.unique(np.linspace(0, len(film) - 1, min(len(film), FILM)).round().astype(int))
    return user(
        *(Picture.of(next(iter(film[row].values()))) for row in rows),
        'The pictures are one episode of a robot, in order of time. Grade how far the command is '
        'fulfilled in the last one; how long it took does not matter.\n'
        '1: nothing that the command asks for has changed.\n'
        '2: a first step towards the goal, far from enough.\n'
        '3: good progress, but an important requirement or several are not met.\n'
        '4: nearly complete, one small requirement is not met.\n'
        '5: every requirement is met.\n'
        f'Task: {pair.instruction}\nAnswer in the form ANSWER: <score>')


def _pairwise(pair: Pair, film: Sequence[Views]) -> ChatMessage:
    before, after = next(iter(pair.before.values())), next(iter(pair.after.values()))
    start = next(iter((pair.start or pair.before).values()))
    return user('START:', Picture.of(start), 'PICTURE 1:', Picture.of(before), 'PICTURE 2:',
                Picture.of(after), 'All are of one robot at one task; START shows its begin, the '
                f'others are in no order of time. Task: {pair.instruction}\nIn which picture is '
                'more of the task done? End your answer with ANSWER: 1, ANSWER: 2, or ANSWER: 0 '
                'when both are equally far.')


@dataclass(frozen=True)
class Family:
    """
    A kind of model: what it is asked, and what its answer means.

    ``question`` is made of a pair and of the episode up to the pair's second instant; ``answer``
    finds the number, ``limits`` bound it, ``meaning`` makes a hop, a level or a sign of it.
    """

    question: Callable[[Pair, Sequence[Views]], ChatMessage]
    answer: re.Pattern[str]
    limits: tuple[float, float]
    meaning: Callable[[float], float]
    kind: JudgeKind = JudgeKind.HOP
    max_views: int = 1
    temperature: float = 0.0


_SIGNS = {0.0: 0.0, 1.0: -1.0, 2.0: 1.0}    # by the picture that is farther on; 0 is neither
_PERCENT = (-100.0, 100.0), lambda value: value / 100.0
FAMILIES: Mapping[str, Family] = {
    'robo_dopamine': Family(_robo_dopamine, _TAGGED, *_PERCENT, max_views=3, temperature=0.1),
    'vlac': Family(_vlac, _BARE, *_PERCENT),
    'roboreward': Family(_roboreward, _ANSWER, (1.0, 5.0), lambda value: (value - 1.0) / 4.0,
                         JudgeKind.ABSOLUTE),
    'pairwise': Family(_pairwise, _ANSWER, (0.0, 2.0), _SIGNS.__getitem__, JudgeKind.PAIRWISE)}


def step(before: float, hop: float) -> float:
    """Return the progress after a hop."""
    return min(max(before + ((1.0 - before) * hop if hop >= 0.0 else before * hop), 0.0), 1.0)


def incremental(hops: Floats) -> Floats:
    """Return (T+1,) from hops between neighbours."""
    return _walk(len(hops), lambda t, before: step(before, float(hops[t])))


def forward(hops: Floats) -> Floats:
    """Return (T+1,) from hops from the first frame."""
    return np.concatenate([[0.0], np.clip(hops, 0.0, 1.0)])


def backward(hops: Floats) -> Floats:
    """Return (T+1,) from hops from the goal picture, which are 0 or below."""
    return np.concatenate([[0.0], np.clip(1.0 + hops, 0.0, 1.0)])


def fused(between: Floats, first: Floats, goal: Floats) -> Floats:
    """Return (T+1,): the mean of the three, the increment built on the fused value before."""
    ahead, behind = forward(first)[1:], backward(goal)[1:]
    return _walk(len(between), lambda t, before: (
        step(before, float(between[t])) + float(ahead[t]) + float(behind[t])) / 3.0)


def conservative(between: Floats, first: Floats, goal: Floats, alpha: float = ALPHA,
                 epsilon: float = EPSILON) -> Floats:
    """
    Return (T+1,): moves less the more forward and backward disagree.

    P_t = P + w/2 (m - P + d), m the mean of both, d the increment, w = exp(-α (|B - F| / (m +
    ε))²). The paper gives no values of α and ε; ours are recorded with the trace.
    """
    ahead, behind = forward(first)[1:], backward(goal)[1:]

    def move(t: int, before: float) -> float:
        mean = (float(ahead[t]) + float(behind[t])) / 2.0
        apart = abs(float(behind[t]) - float(ahead[t])) / (mean + epsilon)
        weight = float(np.exp(-alpha * apart * apart))
        gain = step(before, float(between[t])) - before
        return min(max(before + weight / 2.0 * (mean - before + gain), 0.0), 1.0)

    return _walk(len(between), move)


def vlac(changes: Floats) -> Floats:
    """Return (T+1,) of VLAC: a change of either sign is a share of what is left, then clipped."""
    values = [0.0]
    for change in changes:
        values.append(values[-1] + (1.0 - values[-1]) * float(change))
    return np.asarray(np.clip(np.array(values), 0.0, 1.0), np.float64)


def _walk(count: int, move: Callable[[int, float], float]) -> Floats:
    values = [0.0]
    for t in range(count):
        values.append(move(t, values[-1]))
    return np.array(values)
