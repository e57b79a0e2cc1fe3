"""
Models that compare two instants: Robo-Dopamine's and VLAC's, over a chat endpoint.

Robo-Dopamine sees eight pictures: start and goal, then three views before and three after, and
answers ``<score>+12%</score>``. VLAC sees two and answers a signed number. An answer that is
anything else is asked for again, and makes the trace invalid; it is never taken for 0.

Hops become progress as Robo-Dopamine and VLAC define it, (T,) in [-1, 1]: a hop h up covers a
share of what is left, a hop down loses a share of what was reached. Eqs. 4 to 11 of the
Robo-Dopamine paper; P_0 = 0 and every value is clipped to [0, 1].
"""

import re
from collections.abc import Callable, Mapping

import numpy as np

from arena_robot.audit.base import Capabilities, JudgeKind, Pair, Trace, invalid, trace_of
from arena_robot.core.errors import ConfigError, ModelBadReply, ModelError
from arena_robot.core.observation import ROLES, Floats, Pixels
from arena_robot.models.chat import ChatClient, ChatMessage, ChatSettings, Part, Picture, user
from arena_robot.records.clip import Clip

PROMPT_VERSION = 1
_TAGGED = re.compile(r'\A(?:(?!<score>).)*<score>\s*([+-]?\d{1,3}(?:\.\d+)?)\s*%\s*</score>'
                     r'(?:(?!<score>).)*\Z', re.DOTALL)
_BARE = re.compile(r'\A\s*([+-]?\d{1,3}(?:\.\d+)?)\s*%?\s*\Z')
Views = Mapping[str, Pixels]
MODES = ('incremental', 'forward', 'backward', 'fused', 'conservative')
ALPHA, EPSILON = 5.0, 1e-6


class HopJudge:
    """
    A hop model behind a chat endpoint; see ``ChatSettings`` for the settings.

    ``family`` is ``robo_dopamine`` or ``vlac``; ``mode`` how hops become progress: incremental,
    forward, backward, fused or conservative (VLAC: incremental alone).
    """

    name = 'hop'

    def __init__(self, base_url: str = '', model: str = '', family: str = 'robo_dopamine',
                 mode: str = 'incremental', attempts: int = 3, interval_s: float = 1.0,
                 max_frames: int = 64, budget: float | None = None, price_in: float = 0.0,
                 price_out: float = 0.0, cache: str = '', transcript: str = '',
                 alpha: float = ALPHA, client: ChatClient | None = None) -> None:
        if family not in _QUESTIONS or mode not in MODES:
            raise ConfigError(f'family is one of {", ".join(_QUESTIONS)} and mode one of '
                              f'{", ".join(MODES)}, found {family} and {mode}')
        if family == 'vlac' and mode != 'incremental':
            raise ConfigError(f'VLAC is incremental, found the mode {mode}')
        needs_goal = mode in ('backward', 'fused', 'conservative')
        self.capabilities = Capabilities(
            JudgeKind.HOP, needs_goal, deterministic=False, interval_s=interval_s,
            max_frames=max_frames, max_views=3 if family == 'robo_dopamine' else 1)
        self.client = client or ChatClient(ChatSettings(
            base_url, model, budget=budget, price_in=price_in, price_out=price_out, cache=cache,
            transcript=transcript, temperature=0.1 if family == 'robo_dopamine' else 0.0))
        self.identity = f'{self.client.identity} prompt {PROMPT_VERSION}'
        self._family, self._mode, self._attempts, self._alpha = family, mode, attempts, alpha

    def progress(self, clip: Clip) -> Trace:
        """Return the progress that the hops add up to."""
        mode = f'{self._family} {self._mode}, prompt {PROMPT_VERSION}' + (
            f', alpha {self._alpha:g}' if self._mode == 'conservative' else '')
        if self.capabilities.needs_goal and not clip.goal:
            return invalid(clip, self.client.model, f'the mode {self._mode} needs a goal picture',
                           mode=mode)
        frames: list[Views] = [{view: pictures[t] for view, pictures in clip.frames.items()}
                               for t in range(len(clip))]
        start = clip.start or frames[0]
        raw: list[str] = []

        def hops(before: Callable[[int], Views]) -> Floats:
            return np.array([self._hop(Pair(clip.instruction, before(t), frames[t], start,
                                            clip.goal), raw) for t in range(1, len(frames))])

        try:
            values = self._values(hops, frames, clip.goal)
        except ModelError as error:
            return invalid(clip, self.client.model, str(error), tuple(raw), mode)
        return trace_of(clip, values, self.client.model, mode=mode, raw=tuple(raw))

    def compare(self, pair: Pair) -> float | None:
        """Return the hop from before to after."""
        try:
            return self._hop(pair, [])
        except ModelError:
            return None

    def _values(self, hops: Callable[[Callable[[int], Views]], Floats], frames: list[Views],
                goal: Views) -> Floats:
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

    def _hop(self, pair: Pair, raw: list[str]) -> float:
        message = _QUESTIONS[self._family](pair)
        last: ModelBadReply | None = None
        for attempt in range(self._attempts):
            try:
                text = self.client.ask([message], attempt=attempt).text
                raw.append(text)
                return score(text, tagged=self._family == 'robo_dopamine')
            except ModelBadReply as error:
                last = error
        raise ModelBadReply(f'{self._attempts} answers have no score; the last: {last}')


def score(text: str, tagged: bool) -> float:
    """Return the hop in an answer, -1 to 1; ModelBadReply unless there is exactly one."""
    match = (_TAGGED if tagged else _BARE).match(text)
    value = float(match.group(1)) if match else float('nan')
    if not -100.0 <= value <= 100.0:
        raise ModelBadReply(f'no score from -100 % to 100 % in the answer: {text[:120]!r}')
    return value / 100.0


def _three(views: Views) -> list[Part]:
    """Return three pictures: front (left camera), right, wrist; one camera is repeated."""
    pictures = [views[role] for role in ROLES if role in views] or list(views.values())
    return [Picture.of(pictures[min(k, len(pictures) - 1)]) for k in range(3)]


def _robo_dopamine(pair: Pair) -> ChatMessage:
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


def _vlac(pair: Pair) -> ChatMessage:
    before, after = next(iter(pair.before.values())), next(iter(pair.after.values()))
    return user('Image-1:', Picture.of(before), 'Image-2:', Picture.of(after),
                f'Compare the two pictures for the task: {pair.instruction}. By how much of what '
                'remains is the second one closer to its completion? Answer a signed number in '
                'percent and nothing else. <score>')


_QUESTIONS: Mapping[str, Callable[[Pair], ChatMessage]] = {
    'robo_dopamine': _robo_dopamine, 'vlac': _vlac}


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
