"""
The Merkle tree of RFC 6962 (Certificate Transparency): roots and proofs, made and checked.

A leaf is ``SHA-256(0x00 || data)`` and a node ``SHA-256(0x01 || left || right)``. A tree of n
leaves is split at the largest power of two below n. Hashes are bytes of length 32.
"""

import hashlib
from collections.abc import Sequence

from arena_robot.core.errors import DataError


def leaf_hash(data: bytes) -> bytes:
    """Return the hash of a leaf."""
    return hashlib.sha256(b'\x00' + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of a node above two others."""
    return hashlib.sha256(b'\x01' + left + right).digest()


class MerkleTree:
    """A tree that grows; the hashes of full subtrees are kept, so each question is quick."""

    def __init__(self, leaves: Sequence[bytes] = ()) -> None:
        self._levels: list[list[bytes]] = [[]]
        for leaf in leaves:
            self.append(leaf)

    def __len__(self) -> int:
        return len(self._levels[0])

    def append(self, leaf: bytes) -> None:
        """Add the hash of one more leaf."""
        self._levels[0].append(leaf)
        level = 0
        while len(self._levels[level]) % 2 == 0:
            if level + 1 == len(self._levels):
                self._levels.append([])
            self._levels[level + 1].append(node_hash(*self._levels[level][-2:]))
            level += 1

    def root(self, size: int | None = None) -> bytes:
        """Return the root of the first ``size`` leaves (None: all)."""
        size = self._checked(len(self) if size is None else size)
        return self._range(0, size) if size else hashlib.sha256(b'').digest()

    def inclusion(self, number: int, size: int) -> list[bytes]:
        """Return the proof that leaf ``number`` is in the tree of ``size`` leaves."""
        if not 0 <= number < self._checked(size):
            raise DataError(f'entry {number} is not among the first {size}')
        start, end, path = 0, size, []
        while end - start > 1:
            middle = start + _split(end - start)
            if number < middle:
                path.append(self._range(middle, end))
                end = middle
            else:
                path.append(self._range(start, middle))
                start = middle
        return path[::-1]

    def consistency(self, old: int, new: int) -> list[bytes]:
        """Return the proof that the tree of ``new`` leaves begins with that of ``old``."""
        if not 0 < old <= self._checked(new):
            raise DataError(f'there is no proof from size {old} to {new}')
        start, end, whole, path = 0, new, True, []
        while old < end:
            middle = start + _split(end - start)
            if old <= middle:
                path.append(self._range(middle, end))
                end = middle
            else:
                path.append(self._range(start, middle))
                start, whole = middle, False
        if not whole:
            path.append(self._range(start, end))
        return path[::-1]

    def _range(self, start: int, end: int) -> bytes:
        size = end - start
        level = size.bit_length() - 1
        if size == 1 << level and start % size == 0:
            return self._levels[level][start >> level]
        middle = start + _split(size)
        return node_hash(self._range(start, middle), self._range(middle, end))

    def _checked(self, size: int) -> int:
        if not 0 <= size <= len(self):
            raise DataError(f'the log has {len(self)} entries, not {size}')
        return size


def root_of_inclusion(leaf: bytes, number: int, size: int, path: Sequence[bytes]) -> bytes:
    """Return the root that an inclusion proof leads to; DataError when it cannot be one."""
    if not 0 <= number < size:
        raise DataError(f'entry {number} is not among the first {size}')
    place, last, reached = number, size - 1, leaf
    for node in path:
        if last == 0:
            raise DataError('the inclusion proof is too long')
        if place % 2 or place == last:
            reached = node_hash(node, reached)
            while place % 2 == 0 and place:
                place, last = place >> 1, last >> 1
        else:
            reached = node_hash(reached, node)
        place, last = place >> 1, last >> 1
    if last:
        raise DataError('the inclusion proof is too short')
    return reached


def _split(size: int) -> int:
    return 1 << (size - 1).bit_length() - 1
