"""Table of the voting rules by name, and :func:`vote`."""

from collections.abc import Callable

from arena_robot.core.errors import DataError
from arena_robot.ranking.lotteries import iterative_maximal_lotteries, maximal_lottery_vote
from arena_robot.ranking.voting.condorcet import copeland, schulze
from arena_robot.ranking.voting.kemeny import kemeny_young
from arena_robot.ranking.voting.profile import Profile
from arena_robot.ranking.voting.ranked_pairs import ranked_pairs
from arena_robot.ranking.voting.result import VoteResult
from arena_robot.ranking.voting.scoring import approval, borda, plurality
from arena_robot.ranking.voting.stv import stv

Rule = Callable[[Profile, int | None, int | None], VoteResult]

RULES: dict[str, Rule] = {
    'approval': lambda profile, k, _: approval(profile, min(3, len(profile.names) - 1)
                                               if k is None else k),
    'borda': lambda profile, _k, _w: borda(profile),
    'plurality': lambda profile, _k, _w: plurality(profile),
    'stv': lambda profile, _, winners: stv(profile, winners),
    'copeland': lambda profile, _k, _w: copeland(profile),
    'kemeny_young': lambda profile, _k, _w: kemeny_young(profile),
    'schulze': lambda profile, _k, _w: schulze(profile),
    'ranked_pairs': lambda profile, _k, _w: ranked_pairs(profile),
    'maximal_lottery': lambda profile, _k, _w: maximal_lottery_vote(profile),
    'iterative_maximal_lotteries': lambda profile, _k, _w: iterative_maximal_lotteries(profile),
}


def vote(profile: Profile, method: str, k: int | None = None,
         winners: int | None = None) -> VoteResult:
    """
    Run one rule by name.

    k: how many places approval counts (default 3, or m − 1 if fewer). winners: the seats of STV
    (default ⌊m/2⌋). Raises DataError for an unknown name, and what the rule raises.
    """
    if method not in RULES:
        raise DataError(f'there is no voting rule {method!r}; choose from {", ".join(RULES)}')
    return RULES[method](profile, k, winners)
