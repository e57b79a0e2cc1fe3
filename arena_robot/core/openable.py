"""
Objects that are opened before their use and closed after it.

Their constructors only store. :meth:`Openable.open` acquires files, sockets and threads, all or
nothing; :meth:`Openable.close` releases them and can be called twice. ``with`` does both.
"""

from types import TracebackType

from typing_extensions import Self


class Openable:
    """
    An object that ``with`` opens, and closes at the end of the block.

    ::

        with BagReader(folder) as bag:
            print(bag.topics)
    """

    def open(self) -> None:
        """Acquire what the object needs."""
        raise NotImplementedError

    def close(self) -> object:
        """Release what was acquired; the result, such as a summary, is each class's own."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
