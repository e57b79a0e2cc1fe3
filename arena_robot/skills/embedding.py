"""
Likeness of short texts without a model: hashed n-grams, TF-IDF, cosine.

Features of a text are its words, pairs of words, and character n-grams inside words, hashed with
a sign into a fixed number of buckets.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from zlib import crc32

import numpy as np

from arena_robot.core.observation import Floats

GRAMS = (3, 4)
_WORD = re.compile(r'[a-z0-9]+')


class HashedNgrams:
    """
    Texts as rows of length 1: hashed n-grams in ``dimensions`` buckets.

    The same text gives the same row everywhere.
    """

    def __init__(self, dimensions: int = 1024) -> None:
        self.dimensions = dimensions

    def embed(self, texts: Sequence[str], corpus: Sequence[str] = ()) -> Floats:
        """Return (n, D) rows, weighted by inverse document frequency over ``corpus``."""
        rows = self.counts(texts)
        if corpus:
            seen = (self.counts(corpus) != 0.0).sum(axis=0)
            rows = rows * (np.log((1.0 + len(corpus)) / (1.0 + seen)) + 1.0)
        size = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.where(size > 0.0, size, 1.0))

    def counts(self, texts: Sequence[str]) -> Floats:
        """Return (n, D) signed values 1 + log of how often a feature occurs."""
        counts = np.zeros((len(texts), self.dimensions))
        for row, text in zip(counts, texts, strict=True):
            for feature, times in Counter(features(text)).items():
                code = crc32(feature.encode())
                sign = 1.0 if code >> 31 else -1.0
                row[code % self.dimensions] += sign * (1.0 + np.log(times))
        return counts


def features(text: str) -> Iterator[str]:
    """Yield the words, pairs of neighbours and character n-grams of a text."""
    words = _WORD.findall(text.lower())
    yield from words
    yield from (f'{a} {b}' for a, b in pairwise(words))
    for word in words:
        framed = f'<{word}>'
        for size in GRAMS:
            yield from (f'#{framed[k:k + size]}' for k in range(len(framed) - size + 1))


def cosines(text: str, others: Sequence[str]) -> Floats:
    """Return the (n,) cosines of a text with others; rare features among all count more."""
    if not others:
        return np.zeros(0)
    texts = [*others, text]
    rows = HashedNgrams().embed(texts, texts)
    return np.asarray(rows[:-1] @ rows[-1])
