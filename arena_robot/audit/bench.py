"""
A benchmark for judges: they say which of two instants of an episode is farther on.

Tuples are drawn as appendix F of the paper says, from clips with known progress: only within
phases in which it is monotone; the hop is the change as a share of what was left (up) or reached
(down); bins are small (to 1/3), medium (to 2/3), large; half the pairs go down. Each phase is also
read backwards, so a pair that goes down may be of a phase that rises: the phase's own direction
is kept and scored apart. Frame distances vary within each bin. A tie, or no answer, is wrong.

Triples of instants ask whether a judge contradicts itself: where it puts the second before the
third and the first before the second, it has to put the first before the third.

Of episodes with a label alone (real robots), what a judge says of the end is compared with it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from arena_robot.audit.aggregate import DRAWS
from arena_robot.audit.base import Judge, Pair
from arena_robot.core.errors import DataError
from arena_robot.core.jpeg import from_jpeg
from arena_robot.core.observation import Floats, Pixels
from arena_robot.records.clip import LabelledClip

BINS = ('small', 'medium', 'large')
PHASES: Mapping[str, int] = {'falling': -1, 'rising': 1}
LEAST = 0.03    # smaller changes of progress are not asked about
SETTING = 'simulated'
# Small, medium, large and their mean: table 2 of the paper, on RoboPulse.
ROWS: Mapping[str, tuple[float, float, float, float]] = {
    'CLIP-B32, image to image': (0.56, 0.56, 0.61, 0.57),
    'CLIP-L14, image to image': (0.54, 0.59, 0.65, 0.59),
    'CLIP-B32, text to image': (0.51, 0.42, 0.49, 0.47),
    'CLIP-L14, text to image': (0.49, 0.45, 0.45, 0.46),
    'Gemini 3 Pro': (0.54, 0.67, 0.77, 0.66), 'GPT-5.2': (0.47, 0.51, 0.62, 0.53),
    'Qwen3-VL-4B': (0.46, 0.55, 0.66, 0.56), 'Qwen3-VL-8B': (0.48, 0.57, 0.74, 0.59),
    'VLAC': (0.61, 0.72, 0.79, 0.71), 'GVL': (0.63, 0.72, 0.78, 0.71),
    'Robo-Dopamine': (0.80, 0.85, 0.85, 0.83)}
NOTE = ('published rows are of another data set (RoboPulse: real and simulated robots, people) '
        'and cannot be compared with rows measured here')


@dataclass(frozen=True)
class BenchPair:
    """
    One question: a pair with its ``sign`` (+1 or -1), hop, bin and frame distance.

    ``gap`` is negative for a pair that is read backwards, 0 where it is not known.
    """

    pair: Pair
    sign: int
    hop: float
    bin: str
    gap: int
    episode: str
    setting: str = SETTING

    @property
    def phase(self) -> int:
        """+1 when progress rose with time between the two, -1 when it fell, 0 unknown."""
        return self.sign * int(np.sign(self.gap))


@dataclass(frozen=True)
class BenchScore:
    """
    Share of right answers in a bin, 95 % interval, n.

    Or of ``all``, the mean of the bins, of the phases ``falling`` or ``rising``, or of triples
    that are ``consistent``.
    """

    bin: str
    accuracy: float
    low: float
    high: float
    count: int


def bench_pairs(clips: Sequence[LabelledClip], per_bin: int, seed: int = 0,
                views: Sequence[str] | None = None) -> list[BenchPair]:
    """
    Return ``per_bin`` pairs of each bin, half of them downwards.

    DataError when the clips have too few. The goal picture is the last frame of the clip's own
    best instant, where it is done.
    """
    rng = np.random.default_rng(seed)
    by_bin: dict[tuple[str, int], list[tuple[int, int, int, float]]] = {
        (name, sign): [] for name in BINS for sign in (1, -1)}
    for number, clip in enumerate(clips):
        for before, after, hop in _candidates(clip.phi, rng):
            by_bin[_bin(hop), 1 if hop > 0 else -1].append((number, before, after, hop))
    pairs = []
    for (name, sign), rows in by_bin.items():
        wanted = per_bin // 2
        if len(rows) < wanted:
            raise DataError(f'the clips have {len(rows)} {name} pairs of sign {sign:+d}, '
                            f'{wanted} were asked for; record more episodes')
        chosen = _spread(rows, wanted, rng)
        pairs += [_made(clips[n], b, a, hop, name, sign, views) for n, b, a, hop in chosen]
    return pairs


def _candidates(phi: Floats, rng: np.random.Generator) -> list[tuple[int, int, float]]:
    """Return (before, after, hop) within monotone phases; each phase is also read backwards."""
    candidates = []
    for begin, end in _phases(phi):
        for _ in range(min(8, end - begin)):
            a, b = sorted(rng.choice(np.arange(begin, end + 1), 2, replace=False).tolist())
            for before, after in ((a, b), (b, a)):
                change = float(phi[after] - phi[before])
                room = 1.0 - float(phi[before]) if change > 0 else float(phi[before] - phi[0])
                if abs(change) >= LEAST and room > 1e-6:
                    candidates.append((before, after, float(np.clip(change / room, -1.0, 1.0))))
    return candidates


def _phases(phi: Floats) -> list[tuple[int, int]]:
    """Return (first, last) of the phases in which progress goes one way, pauses included."""
    phases, begin, way = [], 0, 0.0
    for t, step in enumerate(np.diff(phi), 1):
        if step * way < 0.0:
            phases.append((begin, t - 1))
            begin, way = t - 1, step
        elif step != 0.0:
            way = step
    return [(a, b) for a, b in [*phases, (begin, len(phi) - 1)] if b > a]


def _bin(hop: float) -> str:
    return BINS[0] if abs(hop) <= 1 / 3 else BINS[1] if abs(hop) <= 2 / 3 else BINS[2]


def _spread(rows: Sequence[tuple[int, int, int, float]], count: int, rng: np.random.Generator
            ) -> list[tuple[int, int, int, float]]:
    """Return ``count`` rows, evenly over quarters of the frame distance."""
    order = sorted(range(len(rows)), key=lambda k: (abs(rows[k][2] - rows[k][1]), k))
    parts = [list(part) for part in np.array_split(order, 4)]
    for part in parts:
        rng.shuffle(part)
    chosen: list[int] = []
    while len(chosen) < count:
        for part in parts:
            if part and len(chosen) < count:
                chosen.append(int(part.pop()))
    return [rows[k] for k in chosen]


def _made(clip: LabelledClip, before: int, after: int, hop: float, name: str, sign: int,
          views: Sequence[str] | None) -> BenchPair:
    rows = sorted({0, before, after, int(clip.phi.argmax())})
    picked = replace(clip, times_s=clip.times_s[rows], phi=clip.phi[rows], pictures={
        view: [pictures[r] for r in rows] for view, pictures in clip.pictures.items()})
    seen = picked.clip(views)

    def at(t: int) -> dict[str, Pixels]:
        return {view: frames[rows.index(t)] for view, frames in seen.frames.items()}

    best = int(clip.phi.argmax())
    goal = at(best) if clip.phi[best] >= 1.0 else {}
    return BenchPair(Pair(clip.source.instruction, at(before), at(after), at(0), goal), sign, hop,
                     name, after - before, clip.source.name)


def noisy(pair: Pair, alpha: float, rng: np.random.Generator) -> Pair:
    """Return a pair with each picture (1 - α) I + α N(0, 1), clipped to [0, 1] (eq. 51)."""
    if not 0.0 <= alpha <= 1.0:
        raise DataError(f'the noise is a share from 0 to 1, found {alpha}')

    def blurred(views: Mapping[str, Pixels]) -> dict[str, Pixels]:
        return {view: np.asarray(np.clip((1.0 - alpha) * p + 255.0 * alpha * rng.normal(
            size=p.shape), 0.0, 255.0), np.uint8) for view, p in views.items()}

    return replace(pair, before=blurred(pair.before), after=blurred(pair.after),
                   start=blurred(pair.start), goal=blurred(pair.goal)) if alpha else pair


def answers(judge: Judge, pairs: Sequence[BenchPair], alpha: float = 0.0, seed: int = 0,
            done: Callable[[int], None] = lambda count: None) -> list[bool]:
    """Return for each pair whether the judge's sign is right."""
    rng = np.random.default_rng((seed, 51))
    right = []
    for number, pair in enumerate(pairs, 1):
        answer = judge.compare(noisy(pair.pair, alpha, rng))
        right.append(answer is not None and bool(np.sign(answer) == pair.sign))
        done(number)
    return right


def triple_score(judge: Judge, clips: Sequence[LabelledClip], count: int, seed: int = 0,
                 views: Sequence[str] | None = None) -> BenchScore:
    """
    Return how consistent a judge is on ``count`` triples of instants, in any order of time.

    The share of triples in which the answer from first to third has the sign that the two answers
    between have; triples whose two answers differ in sign say nothing and are not counted.
    """
    rng, rows = np.random.default_rng((seed, 53)), []
    long = [clip for clip in clips if len(clip.phi) >= 3]
    if not long:
        raise DataError('triples need clips of three frames or more')
    for _ in range(count):
        clip = long[int(rng.integers(len(long)))]
        a, b, c = rng.choice(len(clip.phi), 3, replace=False).tolist()
        first, second, both = (np.sign(judge.compare(_made(
            clip, x, y, 0.0, '', 1, views).pair) or 0.0) for x, y in ((a, b), (b, c), (a, c)))
        if first == second != 0.0:
            rows.append((clip.source.name, bool(both == first)))
    return _share_score('consistent', rows, seed)


def clock_answers(pairs: Sequence[BenchPair]) -> list[bool]:
    """Return what elapsed time would say: the later frame is farther on."""
    return [bool(np.sign(pair.gap) == pair.sign) for pair in pairs]


def bench_scores(pairs: Sequence[BenchPair], right: Sequence[bool], seed: int = 0
                 ) -> list[BenchScore]:
    """Return the score of each bin and of all, with a bootstrap over episodes."""
    names = sorted({pair.episode for pair in pairs})
    index = {name: k for k, name in enumerate(names)}
    counts, hits = np.zeros((2, len(names), len(BINS)))
    for pair, good in zip(pairs, right, strict=True):
        at = index[pair.episode], BINS.index(pair.bin)
        counts[at] += 1
        hits[at] += good
    drawn = np.random.default_rng((seed, 7)).integers(len(names), size=(DRAWS, len(names)))
    with np.errstate(invalid='ignore'):
        spread = hits[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
        share = hits.sum(axis=0) / counts.sum(axis=0)
    spread = np.column_stack([spread, spread.mean(axis=1)])
    low, high = np.nanquantile(spread, [0.025, 0.975], axis=0)
    values = [*share.tolist(), float(share.mean())]
    sizes = [*counts.sum(axis=0).astype(int).tolist(), len(pairs)]
    return [BenchScore(name, value, float(a), float(b), n) for name, value, a, b, n in zip(
        (*BINS, 'all'), values, low, high, sizes, strict=True)]


def phase_scores(pairs: Sequence[BenchPair], right: Sequence[bool], seed: int = 0
                 ) -> list[BenchScore]:
    """Return the scores of pairs from phases that fall and that rise; none where not known."""
    scores = []
    for name, phase in PHASES.items():
        rows = [(pair.episode, good) for pair, good in zip(pairs, right, strict=True)
                if pair.phase == phase]
        if rows:
            scores.append(_share_score(name, rows, seed))
    return scores


def _share_score(name: str, rows: Sequence[tuple[str, bool]], seed: int) -> BenchScore:
    """Return the share of good rows (episode, good) with a bootstrap over episodes."""
    if not rows:
        return BenchScore(name, float('nan'), float('nan'), float('nan'), 0)
    index = {episode: k for k, episode in enumerate(sorted({e for e, _ in rows}))}
    counts, hits = np.zeros((2, len(index)))
    for episode, good in rows:
        counts[index[episode]] += 1
        hits[index[episode]] += good
    drawn = np.random.default_rng((seed, 7)).integers(len(index), size=(DRAWS, len(index)))
    low, high = np.quantile(hits[drawn].sum(axis=1) / counts[drawn].sum(axis=1),
                            [0.025, 0.975]).tolist()
    return BenchScore(name, float(hits.sum() / counts.sum()), low, high, len(rows))


@dataclass(frozen=True)
class JudgedEnd:
    """
    An episode with a label and what a judge said of it.

    ``label`` is higher for a better end. ``phi`` is the judge's curve, empty where it said
    nothing; ``published`` is another judge's, at even times, empty without one.
    """

    instruction: str
    label: int
    phi: Floats
    calibrated: bool = False
    published: Floats = field(default_factory=lambda: np.zeros(0))


def end_scores(rows: Sequence[JudgedEnd], seed: int = 0) -> list[BenchScore]:
    """
    Return how a judge's last values agree with labels, with bootstraps over episodes.

    ``successes``: how often a success, the best label, ends above another episode; ``same task``:
    how often the better of two episodes with one instruction does; equal ends count half.
    ``curves``: the mean rank correlation with published curves.
    """
    said = [row for row in rows if len(row.phi)]
    ends = np.array([row.phi[-1] for row in said])
    labels = np.array([row.label for row in said])
    better = labels[:, None] > labels[None, :] if said else np.zeros((0, 0), bool)
    wins = 0.5 + 0.5 * np.sign(ends[:, None] - ends[None, :]) if said else better.astype(float)
    best = max((row.label for row in rows), default=0)
    same = np.array([[a.instruction == b.instruction for b in said] for a in said], bool)
    rng = np.random.default_rng((seed, 11))
    drawn = rng.multinomial(len(said), np.full(len(said), 1.0 / len(said)), size=DRAWS) \
        if said else np.zeros((DRAWS, 0))
    scores = [
        _pair_score('successes', wins, better & (labels == best)[:, None], drawn),
        _pair_score('same task', wins, better & same.reshape(better.shape), drawn)]
    likes = np.array([_like(row) for row in said if len(row.published) > 1])
    likes = likes[np.isfinite(likes)]
    if len(likes):
        spread = likes[rng.integers(len(likes), size=(DRAWS, len(likes)))].mean(axis=1)
        low, high = np.quantile(spread, [0.025, 0.975]).tolist()
        scores.append(BenchScore('curves', float(likes.mean()), low, high, len(likes)))
    return scores


def _pair_score(name: str, wins: Floats, asked: 'np.ndarray[tuple[int, int], np.dtype[np.bool_]]',
                drawn: 'np.ndarray[tuple[int, int], np.dtype[Any]]') -> BenchScore:
    """Return the mean of ``wins`` where ``asked``; ``drawn`` has the episodes of each draw."""
    if not asked.any():
        return BenchScore(name, float('nan'), float('nan'), float('nan'), 0)
    sums = np.einsum('di,ij,dj->d', drawn, wins * asked, drawn)
    counts = np.einsum('di,ij,dj->d', drawn, asked.astype(float), drawn)
    low, high = np.quantile(sums[counts > 0] / counts[counts > 0], [0.025, 0.975]).tolist()
    return BenchScore(name, float(wins[asked].mean()), low, high, int(asked.sum()))


def _like(row: JudgedEnd) -> float:
    """Return the rank correlation of a curve with the published one at the same shares of time."""
    at = np.linspace(0.0, 1.0, len(row.published))
    curve = np.interp(at, np.linspace(0.0, 1.0, len(row.phi)), row.phi)
    if np.ptp(curve) == 0.0 or np.ptp(row.published) == 0.0:
        return float('nan')
    return float(spearmanr(curve, row.published).statistic)


@dataclass(frozen=True)
class PulseFields:
    """
    Names of the fields of a benchmark file, and what its labels are.

    ``images`` is a list of eight files: start, goal, three views before, three after; ``up`` are
    the label values that mean progress. A dot goes into an object: ``meta.task``.
    """

    task: str = 'task'
    images: str = 'images'
    label: str = 'label'
    bin: str = 'bin'
    hop: str = 'hop'
    setting: str = 'setting'
    episode: str = 'episode_id'
    up: tuple[str, ...] = ('1', '+1', 'progress', 'positive', 'true')
    down: tuple[str, ...] = ('-1', '0', 'regression', 'negative', 'false')
    views: tuple[str, ...] = field(default=('left', 'right', 'wrist'))


def read_pulse(path: Path, fields: PulseFields | None = None, limit: int = 0) -> list[BenchPair]:
    """
    Return the pairs of a benchmark's JSON file; pictures lie beside it.

    DataError names the entry and the field that is missing or is not understood.
    """
    names = fields or PulseFields()
    try:
        data = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise DataError(f'{path} cannot be read as JSON: {error}') from error
    if not isinstance(data, list) or not data:
        raise DataError(f'{path}: expected a list of entries')
    return [_entry(entry, number, path, names)
            for number, entry in enumerate(data[:limit or len(data)])]


def _entry(entry: Any, number: int, path: Path, names: PulseFields) -> BenchPair:
    where = f'{path}, entry {number}'
    images, label = _get(entry, names.images, where), str(_get(entry, names.label, where)).lower()
    if not isinstance(images, list) or len(images) != 2 + 2 * len(names.views):
        raise DataError(f"{where}: '{names.images}' must name {2 + 2 * len(names.views)} files")
    if label not in (*names.up, *names.down):
        raise DataError(f"{where}: the label '{label}' is neither of {names.up} nor {names.down}")
    size = str(_get(entry, names.bin, where)).lower()
    if size not in BINS:
        raise DataError(f"{where}: the bin '{size}' is none of {', '.join(BINS)}")
    pictures = [_picture(path.parent / str(name), where) for name in images]
    count = len(names.views)
    before = dict(zip(names.views, pictures[2:2 + count], strict=True))
    after = dict(zip(names.views, pictures[2 + count:], strict=True))
    pair = Pair(str(_get(entry, names.task, where)), before, after,
                {names.views[0]: pictures[0]}, {names.views[0]: pictures[1]})
    return BenchPair(pair, 1 if label in names.up else -1, _hop(entry, names, where), size, 0,
                     str(_get(entry, names.episode, where)),
                     str(_get(entry, names.setting, where)))


def _hop(entry: Any, names: PulseFields, where: str) -> float:
    try:
        return float(_get(entry, names.hop, where))
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: '{names.hop}' is not a number") from error


def _get(entry: Any, name: str, where: str) -> Any:
    value = entry
    for word in name.split('.'):
        if not isinstance(value, dict) or word not in value:
            names: Sequence[str] = sorted(value) if isinstance(value, dict) else ()
            raise DataError(f"{where} has no '{name}'; it has {', '.join(names)}")
        value = value[word]
    return value


def _picture(path: Path, where: str) -> Pixels:
    try:
        return from_jpeg(path.read_bytes())
    except OSError as error:
        raise DataError(f'{where}: {path} cannot be read: {error.strerror}') from error
