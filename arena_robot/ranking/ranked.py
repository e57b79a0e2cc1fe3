"""What is shown of standings, whatever computed them."""

from typing import Any, Protocol


class Ranked(Protocol):
    """Standings as they are shown: of :class:`arena_robot.ranking.base.Standings`."""

    @property
    def method(self) -> str:
        """The method's name."""

    @property
    def items(self) -> tuple[str, ...]:
        """The policies."""

    @property
    def ranks(self) -> Any:
        """(n,) ranks."""

    @property
    def scores(self) -> Any:
        """(n,) scores."""

    @property
    def low(self) -> Any:
        """(n,) lower ends."""

    @property
    def high(self) -> Any:
        """(n,) upper ends."""

    @property
    def counts(self) -> Any:
        """(n,) numbers of comparisons."""

    @property
    def order(self) -> list[int]:
        """The indices of the policies from best to worst."""

    @property
    def rank_low(self) -> Any:
        """(n,) best ranks that are likely; None without intervals."""

    @property
    def rank_high(self) -> Any:
        """(n,) worst ranks that are likely; None without intervals."""

    @property
    def too_few(self) -> Any:
        """(n,) of whom the data are too few to tell; None without intervals."""

    @property
    def diagnostics(self) -> Any:
        """How they were computed."""
