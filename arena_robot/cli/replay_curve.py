"""The progress that a judge sees, as a line of the terminal that follows a replay."""

import sys
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from arena_robot.records.audit_file import EpisodeAudit

BARS = '▁▂▃▄▅▆▇█'
WIDTH = 48


class CurveLine:
    """
    Draws the curve of an audit up to the message that is played; give ``follow`` to the replay.

    The audit's time begins with the first step. Without a terminal nothing is drawn.
    """

    def __init__(self, audit: 'EpisodeAudit', steps: Container[str]) -> None:
        self._times, self._phi = audit.times_s, audit.phi
        self._steps = steps
        self._began_ns = 0
        self._shown = -1
        self._draws = sys.stdout.isatty()

    def follow(self, message: Any) -> bool:
        """Draw what belongs to a message; never holds it up."""
        if not self._began_ns and message.topic in self._steps:
            self._began_ns = message.log_ns
        if self._began_ns and self._phi:
            elapsed_s = (message.log_ns - self._began_ns) * 1e-9
            index = max((k for k, t in enumerate(self._times) if t <= elapsed_s), default=-1)
            if index != self._shown and index >= 0:
                self._shown = index
                if self._draws:
                    sys.stdout.write('\r' + curve_line(self._times, self._phi, index))
                    sys.stdout.flush()
        return False

    def end(self) -> None:
        """Leave the line."""
        if self._draws and self._shown >= 0:
            sys.stdout.write('\n')


def curve_line(times_s: Sequence[float], phi: Sequence[float], index: int) -> str:
    """Return time, value, best and the curve up to ``index``, in one line of fixed width."""
    columns = [round(k * index / max(WIDTH - 1, 1)) for k in range(WIDTH)] \
        if index >= WIDTH else list(range(index + 1))
    bars = ''.join(BARS[min(int(phi[k] * len(BARS)), len(BARS) - 1)] for k in columns)
    return (f'{times_s[index]:6.1f} s  progress {100 * phi[index]:3.0f}  '
            f'best {100 * max(phi[:index + 1]):3.0f}  {bars:<{WIDTH}}')


def judged_episode(folder: Any, judge: str, settings: Sequence[str]) -> 'EpisodeAudit':
    """Return the audit of an episode; DataError when the judge cannot say anything."""
    from arena_robot.audit.judges import make_judge, settings_of
    from arena_robot.audit.run import audit_clip
    from arena_robot.core.errors import DataError
    from arena_robot.recording.episode.clip import read_clip
    made = make_judge(judge, dict(settings_of(settings)))
    can = made.capabilities
    audit = audit_clip(made, read_clip(folder, can.interval_s, max_frames=can.max_frames))
    if not audit.valid:
        raise DataError(f'{folder} cannot be judged by {judge}: {audit.detail}')
    return audit
