"""Audits of recorded episodes: from the folder of an episode to its metrics and plots."""

import functools
import json
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from arena_robot.audit.aggregate import (
    FINGERPRINT,
    QUALITY,
    Audited,
    Fingerprint,
    Mean,
    PolicySummary,
)
from arena_robot.audit.base import Judge, identity_of
from arena_robot.audit.judges import make_judge, settings_of
from arena_robot.audit.opd import QUARTERS
from arena_robot.audit.run import AuditSettings, TraceCache, audit_clip, failed_audit
from arena_robot.core.errors import DataError, RecordingError
from arena_robot.core.figures import COLOURS, INK, empty_figure, new_figure, save_figure
from arena_robot.recording.episode.clip import read_clip
from arena_robot.recording.episode.requery import Compared
from arena_robot.records.audit_file import EpisodeAudit, write_audit
from arena_robot.records.episode_file import episodes
from arena_robot.records.session_file import has_session, read_session, session_paths
from arena_robot.reports.audit_agreement import FULL, AuditedSession, task_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 12
_COLUMNS = 2


@dataclass(frozen=True)
class AuditJob:
    """
    How episodes are audited; can be sent to other processes.

    ``judge`` is a name with its ``params``; ``cache`` a folder for traces, None for none; with
    ``save`` the audit is written beside the episode. ``interval_s`` None is the judge's own.
    ``call`` tells one job from the next: processes of a cluster outlive it, and files change.
    """

    judge: str = 'local'
    params: tuple[tuple[str, Any], ...] = ()
    settings: AuditSettings = field(default_factory=AuditSettings)
    interval_s: float | None = None
    cache: Path | None = None
    save: bool = False
    call: str = field(default_factory=lambda: uuid4().hex)

    @property
    def identity(self) -> str:
        """Everything that the judge's answers depend on; empty when the judge cannot say it."""
        judge = made(self)
        model = identity_of(judge)
        return json.dumps([self.judge, judge.name, sorted(map(list, self.params)),
                           self.interval_s, model], default=str) if model else ''


@dataclass(frozen=True)
class FoundEpisode:
    """An episode's folder, and what its session says of it."""

    folder: Path
    session: str = ''
    policy: str = ''
    success: bool | None = None
    progress: float | None = None
    evaluator: str = ''


def find_episodes(place: Path) -> list[FoundEpisode]:
    """Return the episodes at a place: an episode, a session, or a folder of sessions."""
    try:
        return [_episode(folder) for folder in episodes(place)]
    except DataError:
        in_sessions = [_episode(folder) for path in session_paths(place)
                       for folder in _episodes(path.parent)]
        if not in_sessions:
            raise DataError(f'{place} has no episodes: expected an episode, a session with A and '
                            'B, or a folder of sessions') from None
        return in_sessions


def audit_folder(episode: FoundEpisode, job: AuditJob) -> EpisodeAudit:
    """Return the audit of an episode; one that cannot be read is invalid and says why."""
    judge = made(job)
    can = judge.capabilities
    try:
        clip = read_clip(episode.folder, job.interval_s or can.interval_s,
                         max_frames=can.max_frames)
    except (DataError, RecordingError) as error:
        audit = failed_audit(f'{episode.session}/{episode.folder.name}', judge.name, str(error),
                             job.settings, episode.success)
    else:
        cache = TraceCache(job.cache, job.identity) if job.cache else None
        audit = audit_clip(judge, clip, job.settings, episode.success, cache)
    if job.save:
        write_audit(episode.folder, audit)
    return audit


def audit_session(folder: str, judge: str, *settings: str) -> None:
    """Audit the episodes of a session anew, and write the audits beside them."""
    job = AuditJob(judge, settings_of(settings), save=True)
    for episode in find_episodes(Path(folder)):
        audit_folder(episode, job)


def audited(episode: FoundEpisode, audit: EpisodeAudit, refused: Container[str] = ()) -> Audited:
    """
    Return an audit as the tables take it, without the metrics ``refused`` there.

    The task is the instruction without its colours.
    """
    return Audited(audit.name, episode.session, episode.policy or episode.folder.name,
                   task_words(audit.instruction), episode.success,
                   {m: None if m in refused else v for m, v in audit.metrics.items()})


def made(job: AuditJob) -> Judge:
    """Return the judge of a job, made once per job and process."""
    return _made(job.call, job.judge, job.params)


@functools.lru_cache(maxsize=4)
def _made(call: str, name: str, params: tuple[tuple[str, Any], ...]) -> Judge:
    return make_judge(name, dict(params))


def _episodes(session: Path) -> list[Path]:
    try:
        return episodes(session)
    except DataError:
        return []


def _episode(folder: Path) -> FoundEpisode:
    session = read_session(folder.parent) if has_session(folder.parent) else None
    if session is None or folder.name not in session.slots:
        return FoundEpisode(folder, folder.parent.name)
    score = session.progress(folder.name)
    return FoundEpisode(folder, session.session_id, session.policy(folder.name),
                        None if score is None else score >= FULL, score, session.evaluator)


def audited_sessions(episodes: Sequence[FoundEpisode], audits: Sequence[EpisodeAudit]
                     ) -> list[AuditedSession]:
    """Return the sessions among some episodes of which A and B are audited."""
    sessions: dict[Path, dict[str, EpisodeAudit]] = {}
    for episode, audit in zip(episodes, audits, strict=True):
        if has_session(episode.folder.parent):
            sessions.setdefault(episode.folder.parent, {})[episode.folder.name] = audit
    return [(read_session(folder), slots['A'], slots['B'])
            for folder, slots in sessions.items() if {'A', 'B'} <= set(slots)]


def plot_curves(audits: Sequence[EpisodeAudit], path: Path | str) -> None:
    """Draw the progress of up to twelve episodes over time, a colour each."""
    figure, axes = new_figure(7.0, 3.2)
    shown = [a for a in audits if a.valid][:SHOWN]
    for number, audit in enumerate(shown):
        axes.plot(audit.times_s, audit.phi, color=COLOURS[number % len(COLOURS)], lw=1.4,
                  ls='-' if number < len(COLOURS) else '--', label=audit.name[-14:])
    _milestones(axes)
    if shown:
        axes.legend(fontsize=6, frameon=False, loc='center left', bbox_to_anchor=(1.0, 0.5))
    save_figure(figure, path)


def plot_policies(tables: Sequence[PolicySummary], path: Path | str) -> None:
    """
    Draw what share of a policy's episodes reached each milestone, and its successes' quality.

    The first with 95 % intervals, the second (PPL, CRA, STR of successes alone) with standard
    deviations over episodes.
    """
    figure = empty_figure(8.0, 3.2, layout='constrained')
    reached, quality = figure.subplots(1, 2)
    for number, table in enumerate(tables):
        colour, shift = COLOURS[number % len(COLOURS)], 0.8 * (number + 0.5) / len(tables) - 0.4
        name = table.policy + (f', {table.task}' if table.task else '')
        shares = list(table.reached.values())
        reached.errorbar(np.arange(len(shares)) + 0.2 * shift, [m.mean for m in shares],
                         np.nan_to_num([[m.mean - m.low for m in shares],
                                        [m.high - m.mean for m in shares]]),
                         color=colour, capsize=2, label=name[-24:])
        empty = Mean(np.nan, np.nan, np.nan, np.nan, 0)
        means = [table.successes.get(metric, empty) for metric in QUALITY]
        quality.bar(np.arange(len(QUALITY)) + shift, [m.mean for m in means], 0.8 / len(tables),
                    yerr=np.nan_to_num([m.sd for m in means]), color=colour, capsize=2)
    reached.set_xticks(range(len(tables[0].reached) if tables else 0),
                       [f'MC@{word}' for word in tables[0].reached] if tables else [])
    quality.set_xticks(range(len(QUALITY)), [metric.upper() for metric in QUALITY])
    for axes, title in ((reached, 'share of episodes that reached it; 95 % intervals'),
                        (quality, 'successes alone; standard deviation over episodes')):
        axes.set_title(title, fontsize=8)
        axes.set_ylim(0.0, 1.05)
    if tables:
        reached.legend(fontsize=6, frameon=False, loc='lower left')
    save_figure(figure, path)


def plot_fingerprints(prints: Sequence[Fingerprint], path: Path | str) -> None:
    """Draw the z-scores of the policies' failures, a row per policy and task."""
    rows = [p for p in prints if any(z is not None for z in p.z.values())]
    figure, axes = new_figure(6.0, 1.2 + 0.32 * max(len(rows), 1))
    table = np.array([[np.nan if p.z[m] is None else p.z[m] for m in FINGERPRINT]
                      for p in rows], float).reshape(-1, len(FINGERPRINT))
    axes.imshow(np.ma.masked_invalid(table) if len(rows) else np.zeros((1, len(FINGERPRINT))),
                cmap='RdBu', vmin=-2, vmax=2, aspect='auto')
    for i, j in np.ndindex(table.shape):
        axes.text(j, i, 'n/a' if np.isnan(table[i, j]) else f'{table[i, j]:+.1f}', ha='center',
                  va='center', fontsize=7, color=INK)
    axes.set_xticks(range(len(FINGERPRINT)), [m.upper() for m in FINGERPRINT])
    axes.set_yticks(range(max(len(rows), 1)), [f'{p.policy}, {p.task[:28]} ({p.failures})'
                                               for p in rows] or ['too few failures'])
    axes.set_title('failures against the other policies (z-scores; more is better)', fontsize=8)
    save_figure(figure, path)


def _milestones(axes: 'Axes') -> None:
    for quarter in QUARTERS:
        axes.axhline(quarter, color=INK, lw=0.4, alpha=0.35)
    axes.set_ylim(-0.03, 1.05)
    axes.set_yticks([0.0, *QUARTERS], ['0', '25', '50', '75', '100'])
    axes.set_xlabel('time, s', fontsize=8)
    axes.set_ylabel('progress, %', fontsize=8)


def plot_chunks(compared: Sequence[Compared], path: Path, space: str = '') -> None:
    """
    Draw every number of the actions over the steps, recorded and asked again.

    Raises DataError when there is nothing to draw or the path is no .png or .svg.
    """
    if not compared:
        raise DataError('no inference was compared, so there is nothing to plot')
    if path.suffix not in ('.png', '.svg'):
        raise DataError(f"plots are .png or .svg, asked for '{path}'")
    width = compared[0].recorded.shape[1]
    rows = -(-width // _COLUMNS)
    figure = empty_figure(10.0, 1.7 * rows, layout='constrained')
    grid = figure.subplots(rows, _COLUMNS, sharex=True, squeeze=False).ravel()
    for k, axes in enumerate(grid):
        if k >= width:
            axes.set_visible(False)
            continue
        for c in compared:
            for values, colour, line in ((c.recorded, '#22303c', 2.2), (c.asked, '#c1666b', 1.2)):
                steps = c.step + np.arange(len(values))
                axes.plot(steps, values[:, k], color=colour, linewidth=line)
        axes.set_ylabel('gripper' if k == width - 1 else f'{space} {k + 1}'.strip(), fontsize=8)
        axes.grid(alpha=0.3)
    grid[0].set_title('recorded (dark) and asked again (red), by step', fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
