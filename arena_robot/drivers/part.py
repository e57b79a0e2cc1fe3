"""Base class of drivers: context manager, and the check that the part is open."""

from types import TracebackType

from typing_extensions import Self

from arena_robot.core.errors import NotConnected


class Opened:
    """Base of drivers: ``with part:`` opens and closes it."""

    _open = False

    def open(self) -> None:
        """Connect; subclasses extend this and call it last."""
        self._open = True

    def close(self) -> None:
        """Disconnect; can be called twice."""
        self._open = False

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _require_open(self, what: str) -> None:
        if not self._open:
            raise NotConnected(f'{what} is not open; call open() or use it in a with block')
