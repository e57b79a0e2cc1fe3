"""Long standstill of a rollout by a judge's progress, to end it early where configured."""

from dataclasses import dataclass, field

STILL = 0.05    # of a live judge's values, whose noise is .03


@dataclass
class Stagnation:
    """
    Decides whether the progress has not changed for ``limit_s``.

    A value starts a new wait when it differs by more than .05 from the one that the wait began
    with. Values that stop coming decide nothing: only those that arrived count.
    """

    limit_s: float
    _since: tuple[float, float] | None = field(default=None, init=False)

    def reset(self) -> None:
        """Forget the values: another rollout begins."""
        self._since = None

    def add(self, time_s: float, progress: float) -> bool:
        """Take a value; return whether the standstill is long enough."""
        if self._since is None or abs(progress - self._since[1]) > STILL:
            self._since = (time_s, progress)
        return time_s - self._since[0] >= self.limit_s

    @property
    def words(self) -> str:
        """Return the sentence for the record of the rollout."""
        return (f'ended early: a judge saw no progress for {self.limit_s:g} s, and this station '
                'ends such rollouts (stagnation_end)')
