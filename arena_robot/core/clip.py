"""Pictures of an episode with their times: the input of a judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from arena_robot.core.errors import DataError
from arena_robot.core.observation import Floats, Pixels


@dataclass(frozen=True)
class Clip:
    """
    Frames of one or more views at the same instants, and what was to be done.

    ``times_s`` (T+1,) increase; ``frames`` have T+1 pictures (H, W, 3) RGB of each view. ``start``
    and ``goal`` are reference pictures by view, where there are any. ``name`` is the episode's;
    ``potential`` (T+1,) is what a simulator knew of the progress, None without one.
    """

    instruction: str
    times_s: Floats
    frames: Mapping[str, Sequence[Pixels]]
    start: Mapping[str, Pixels] = field(default_factory=dict)
    goal: Mapping[str, Pixels] = field(default_factory=dict)
    name: str = ''
    potential: Floats | None = None

    def __post_init__(self) -> None:
        if not len(self.times_s) or not self.frames:
            raise DataError('a clip needs at least one view and one instant')
        if (self.times_s[1:] <= self.times_s[:-1]).any():
            raise DataError('the times of a clip must increase')
        for view, frames in self.frames.items():
            if len(frames) != len(self.times_s):
                raise DataError(f'a clip has {len(self.times_s)} instants, and {len(frames)} '
                                f'pictures of {view}')
        if self.potential is not None and self.potential.shape != self.times_s.shape:
            raise DataError(f'a clip has {len(self.times_s)} instants, and '
                            f'{len(self.potential)} values of the potential')

    def __len__(self) -> int:
        return len(self.times_s)

    @property
    def interval_s(self) -> float | None:
        """Mean time between frames, None for a single one."""
        count = len(self.times_s) - 1
        return float(self.times_s[-1] - self.times_s[0]) / count if count else None

    def part(self, instants: Sequence[int]) -> 'Clip':
        """Return the clip of some of the instants, in increasing order."""
        chosen = list(instants)
        return replace(
            self, times_s=self.times_s[chosen],
            frames={view: [frames[i] for i in chosen] for view, frames in self.frames.items()},
            potential=None if self.potential is None else self.potential[chosen])
