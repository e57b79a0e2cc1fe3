"""Ranked pairs (Tideman): lock majorities by decreasing margin; all orders of tied margins."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from arena_robot.ranking.voting.profile import Profile
from arena_robot.ranking.voting.scoring import VoteResult, layers_of, widest_paths

GRAPH_LIMIT = 64
CONFLICT_LIMIT = 10    # orders are followed by the subsets of these pairs, up to 2¹⁰
WORK_LIMIT = 10_000
Floats = NDArray[np.float64]
Pair = tuple[int, int]


class Locked:
    """An acyclic graph and its transitive closure both ways, bits of integers per alternative."""

    def __init__(self, edges: list[int], below: list[int], above: list[int]) -> None:
        self.edges, self.below, self.above = edges, below, above

    @classmethod
    def uncontested(cls, margins: Floats) -> tuple['Locked', float]:
        """
        Return the graph of the majorities that are larger than a margin, and that margin.

        It is the largest margin at which a cycle of majorities closes, 0 where none does: above
        it everything is locked in any order.
        """
        paths = widest_paths(margins)
        margin = float(np.minimum(paths, paths.T).max())
        reached = paths > margin
        return cls(_integers(margins > margin), _integers(reached), _integers(reached.T)), margin

    def copy(self) -> 'Locked':
        """Return an independent copy."""
        return Locked(list(self.edges), list(self.below), list(self.above))

    def closes_a_cycle(self, pair: Pair) -> bool:
        """Say whether the loser already reaches the winner."""
        return self.below[pair[1]] >> pair[0] & 1 == 1

    def lock(self, pair: Pair) -> None:
        """Add an edge that closes no cycle."""
        winner, loser = pair
        self.edges[winner] |= 1 << loser
        if self.below[winner] >> loser & 1:
            return
        over, under = self.above[winner] | 1 << winner, self.below[loser] | 1 << loser
        # who reaches the loser already reaches all below it
        fresh_over, fresh_under = over & ~self.above[loser], under & ~self.below[winner]
        for x in _bits(fresh_over):
            self.below[x] |= under
        for x in _bits(fresh_under):
            self.above[x] |= over

    def key(self) -> tuple[int, ...]:
        """Return a hashable key of the graph."""
        return tuple(self.edges)


def ranked_pairs(profile: Profile) -> VoteResult:
    """
    Lock the majorities x → y in order of falling margin, leaving out any that closes a cycle.

    Equal margins can be taken in any order. Where that order matters, every graph it can give is
    built, up to ``GRAPH_LIMIT`` graphs, ``CONFLICT_LIMIT`` pairs in conflict at one margin and
    ``WORK_LIMIT`` pairs looked at; winners are the sources of any graph. Beyond that, the pairs
    in conflict at one margin are all left out (no order is preferred), ``unique`` is false and a
    warning says so. With several graphs the tiers are the layers of what all of them agree on.

    Score, after the paper: the margins of all edges on paths from the alternative; only for a
    single graph. ``graph`` is what all graphs share.
    """
    margins, m = profile.margins, len(profile.names)
    graphs, skipped = _graphs(margins)
    reach = [_matrix(g.below) for g in graphs]
    sources = np.any([~r.any(axis=0) for r in reach], axis=0)
    agreed = np.all(reach, axis=0)
    graph = np.where(np.all([_matrix(g.edges) for g in graphs], axis=0), margins, 0.)
    scores = None
    if len(graphs) == 1:
        scores = (agreed | np.eye(m, dtype=bool)) @ graph.sum(axis=1)
    notes = []
    if len(graphs) > 1:
        notes.append(f'tied margins allow {len(graphs)} graphs; the winners are those of any')
    if skipped:
        notes.append(f'tied margins allow too many graphs to list; {skipped} pairs in conflict '
                     'with others of the same margin were left out')
    unique = len(graphs) == 1 and not skipped and int(sources.sum()) == 1
    return VoteResult('ranked_pairs', scores, tuple(np.flatnonzero(sources).tolist()),
                      layers_of(agreed), unique, warnings=tuple(notes), graph=graph)


def _bits(value: int) -> Iterator[int]:
    while value:
        lowest = value & -value
        yield lowest.bit_length() - 1
        value ^= lowest


def _integers(table: NDArray[np.bool_]) -> list[int]:
    return [int.from_bytes(row.tobytes(), 'little')
            for row in np.packbits(table, axis=1, bitorder='little')]


def _matrix(bits: list[int]) -> NDArray[np.bool_]:
    m = len(bits)
    rows = b''.join(b.to_bytes((m + 7) // 8, 'little') for b in bits)
    packed = np.frombuffer(rows, dtype=np.uint8).reshape(m, -1)
    return np.unpackbits(packed, axis=1, bitorder='little')[:, :m].astype(bool)


def _groups(margins: Floats, most: float) -> list[list[Pair]]:
    """Return the pairs with a positive margin up to ``most``, grouped by it, largest first."""
    x, y = np.nonzero((margins > 0) & (margins <= most))
    size = margins[x, y]
    order = np.argsort(-size, kind='stable')
    cuts = np.flatnonzero(np.diff(size[order])) + 1
    return [list(zip(x[part].tolist(), y[part].tolist(), strict=True))
            for part in np.split(order, cuts) if len(part)]


def _graphs(margins: Floats) -> tuple[list[Locked], int]:
    """Return the graphs of all orders of tied pairs, or one and how many pairs it left out."""
    plain, most = Locked.uncontested(margins)
    groups = _groups(margins, most)
    tied, skipped = False, 0
    for at, pairs in enumerate(groups):
        locked, conflict = _lock_together(plain, pairs)
        if conflict and not tied:
            tied = True
            every = _follow([plain], groups[at:])
            if every:
                return every, 0
        plain, skipped = locked, skipped + len(conflict)
    return [plain], skipped


def _lock_together(graph: Locked, pairs: list[Pair]) -> tuple[Locked, set[Pair]]:
    """Lock all pairs of one margin but those in conflict; return the graph and those."""
    below, trial = graph.below, graph.copy()
    fits = [(x, y) for x, y in pairs if not below[y] >> x & 1]
    # those whose winner reaches the loser already change no path: only the others can conflict
    for pair in [(x, y) for x, y in fits if not below[x] >> y & 1]:
        if trial.closes_a_cycle(pair):
            break
        trial.lock(pair)
    else:
        for x, y in fits:
            trial.edges[x] |= 1 << y
        return trial, set()
    conflict = _conflicts(graph, fits)
    calm = graph.copy()
    for pair in fits:
        if pair not in conflict:
            calm.lock(pair)
    return calm, conflict


def _follow(graphs: list[Locked], groups: list[list[Pair]]) -> list[Locked]:
    """Return the graphs after all orders of tied pairs; none where there are too many."""
    work, left = 0, sum(map(len, groups))
    for pairs in groups:
        # graphs never become fewer, and each looks at all pairs that are left
        if work + len(graphs) * left > WORK_LIMIT:
            return []
        left -= len(pairs)
        by_key: dict[tuple[int, ...], Locked] = {}
        for graph in graphs:
            calm, conflict = _lock_together(graph, pairs)
            if len(conflict) > CONFLICT_LIMIT:
                return []
            branches, looked_at = _all_orders(calm, sorted(conflict))
            work += len(pairs) + looked_at
            if work > WORK_LIMIT:
                return []
            by_key.update((g.key(), g) for g in branches)
        graphs = list(by_key.values())
        if len(graphs) > GRAPH_LIMIT:
            return []
    return graphs


def _conflicts(graph: Locked, pairs: list[Pair]) -> set[Pair]:
    """Return the pairs that lie on a cycle of the locked graph with all of ``pairs``."""
    edges = _matrix(graph.below)
    for x, y in pairs:
        edges[x, y] = True
    _, label = connected_components(edges, directed=True, connection='strong')
    return {(x, y) for x, y in pairs if label[x] == label[y]}


def _all_orders(graph: Locked, pairs: list[Pair]) -> tuple[list[Locked], int]:
    """Return every graph that locking ``pairs`` in some order leads to, and the work."""
    pending = [(graph, 0, tuple(enumerate(pairs)))]
    seen, ends, work = {0}, list[Locked](), len(pairs)
    while pending:
        now, taken, left = pending.pop()
        left = tuple((k, p) for k, p in left if not now.closes_a_cycle(p))
        work += len(left) * (len(left) - 1)
        if not left:
            ends.append(now)
        for k, pair in left:
            # the pairs taken so far, whatever their order, say which graph it is
            if taken | 1 << k in seen:
                continue
            seen.add(taken | 1 << k)
            after = now.copy()
            after.lock(pair)
            pending.append((after, taken | 1 << k, tuple(o for o in left if o[0] != k)))
    return ends, work
