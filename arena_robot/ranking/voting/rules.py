"""Table of the voting rules by name, and :func:`vote`."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from arena_robot.core.errors import ConfigError, DataError
from arena_robot.core.extensions import Table
from arena_robot.ranking.voting.kemeny import kemeny_young, soft_condorcet
from arena_robot.ranking.voting.lotteries import iterative_maximal_lotteries, maximal_lottery_vote
from arena_robot.ranking.voting.profile import Profile
from arena_robot.ranking.voting.ranked_pairs import ranked_pairs
from arena_robot.ranking.voting.scoring import (
    VoteResult,
    approval,
    borda,
    copeland,
    plurality,
    schulze,
)
from arena_robot.ranking.voting.stv import stv, stv_by_whole_ballots

Count = Callable[[Profile, int | None, int | None], VoteResult]


@dataclass(frozen=True)
class VotingRule:
    """
    Everything known about a rule; a rule of another package is one of these too.

    ``count`` gets the profile, the places that approval counts and the seats; both may be None.
    """

    count: Count
    summary: str


def _checked(entry: object, name: str) -> VotingRule:
    if not isinstance(entry, VotingRule):
        raise ConfigError(f"the voting rule '{name}' is not an "
                          f'arena_robot.ranking.voting.rules.VotingRule, found {entry!r}')
    return entry


def _plain(rule: Callable[[Profile], VoteResult], summary: str) -> VotingRule:
    return VotingRule(lambda profile, _k, _winners: rule(profile), summary)


RULES: Table[VotingRule] = Table('voting rule', 'arena_robot.voting_rules', {
    'approval': VotingRule(
        lambda profile, k, _: approval(profile, min(3, len(profile.names) - 1)
                                       if k is None else k),
        'one point for each of the first k places (--k)'),
    'borda': _plain(borda, 'one point for each alternative ranked lower'),
    'plurality': _plain(plurality, 'one point for the first place'),
    'stv': VotingRule(lambda profile, _, winners: stv(profile, winners),
                      'single transferable vote for several seats (--winners)'),
    'copeland': _plain(copeland, 'pairwise majorities won minus lost'),
    'kemeny_young': _plain(kemeny_young, 'the ranking closest to all ballots'),
    'soft_condorcet': _plain(soft_condorcet, 'ratings whose order is close to all ballots'),
    'schulze': _plain(schulze, 'strongest paths of pairwise majorities'),
    'ranked_pairs': _plain(ranked_pairs, 'pairwise majorities locked in, largest first'),
    'maximal_lottery': _plain(maximal_lottery_vote,
                              'chances that no other lottery beats by majority'),
    'iterative_maximal_lotteries': _plain(iterative_maximal_lotteries,
                                          'maximal lotteries, level by level'),
}, _checked, DataError)

# Where the tables of Lanctot et al. 2023 follow another convention than we do.
AS_PRINTED: dict[str, Count] = {
    'stv': lambda profile, _, winners: stv_by_whole_ballots(profile, winners),
    'schulze': lambda profile, _k, _winners: schulze(profile, neighbours=True)}


def vote(profile: Profile, method: str, k: int | None = None,
         winners: int | None = None, *, as_printed: bool = False) -> VoteResult:
    """
    Run one rule by name.

    k: how many places approval counts (default 3, or m − 1 if fewer). winners: the seats of STV
    (default ⌊m/2⌋). as_printed: count by ``AS_PRINTED`` where it has the rule. Raises DataError
    for an unknown name, and what the rule raises.
    """
    count = RULES.find(method).count
    rule = AS_PRINTED.get(method, count) if as_printed else count
    return replace(rule(profile, k, winners), names=profile.names)
