"""What an object needs to be opened and closed by ``with``."""

from typing_extensions import Self


class Opened:
    """An object that ``with`` opens, and closes at the end of the block."""

    def open(self) -> None:
        """Acquire what it needs."""
        raise NotImplementedError

    def close(self) -> object:
        """Release it."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
