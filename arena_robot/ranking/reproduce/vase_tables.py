"""
Tables 5 to 7 of "Evaluating Agents using Social Choice Theory" (Lanctot et al. 2023), as printed.

Names are those of the table of scores that open_spiel keeps.
"""

_NAMES = {'rain': 'rainbow', 'dist': 'distrib-dqn', 'prio': 'prior-ddqn', 'duel': 'dueling-ddqn',
          'noisy': 'noisy-dqn'}


def _table(text: str) -> dict[str, float]:
    words = text.split()
    return {_NAMES.get(name, name): float(score)
            for name, score in zip(words[::2], words[1::2], strict=True)}


ELO = {
    8: _table('rain 424 dist 325 prio 274 duel 238 a3c 213 ddqn 162 noisy 92 dqn 0'),
    10: _table('rain 1049 dist 953 prio 912 duel 880 a3c 855 human 849 ddqn 810 noisy 748 '
               'dqn 658 random 0')}
VOTES = {
    8: {name: _table(text) for name, text in {
        'approval': 'rain 41 dist 35 prio 23 a3c 22 duel 19 ddqn 11 noisy 8 dqn 3',
        'borda': 'rain 295 dist 247 prio 222 duel 201 a3c 187 ddqn 159 noisy 122 dqn 79',
        'copeland': 'rain 7 dist 6 prio 5 duel 3.5 a3c 3.5 ddqn 2 noisy 1 dqn 0',
        'kemeny_young': 'rain 295 dist 232 prio 188 a3c 125 duel 123 ddqn 78 noisy 36 dqn 0',
        'iterative_maximal_lotteries':
            'rain 7 dist 6 prio 5 a3c 3.98 duel 3.02 ddqn 3 noisy 2 dqn 1',
        'plurality': 'rain 19 a3c 12 dist 8 prio 6 duel 5 noisy 2 ddqn 2 dqn 0',
        'ranked_pairs': 'rain 642 dist 430 prio 292 duel 152 a3c 102 ddqn 68 noisy 20 dqn 0',
        'schulze': 'rain 241 dist 204 prio 168 a3c 137 duel 110 ddqn 73 noisy 36 dqn 0',
        'stv': 'rain 16.19 dist 15.14 a3c 14.16 duel 8.12 prio 7.6 noisy 6.3 ddqn 5.2 dqn 4',
    }.items()},
    10: {name: _table(text) for name, text in {
        'approval': 'rain 38 dist 29 human 23 prio 20 a3c 20 duel 13 noisy 8 ddqn 8 dqn 3 '
                    'random 0',
        'borda': 'rain 384 dist 331 prio 304 duel 284 a3c 268 human 264 ddqn 239 noisy 200 '
                 'dqn 152 random 4',
        'copeland': 'rain 9 dist 8 prio 7 duel 5.5 a3c 5.5 ddqn 4 human 3 noisy 2 dqn 1 random 0',
        'kemeny_young': 'rain 384 dist 314 prio 271 a3c 206 duel 206 ddqn 158 human 119 noisy 90 '
                        'dqn 54 random 0',
        'iterative_maximal_lotteries': 'rain 9 dist 8 prio 7 duel 5.83 a3c 5.17 ddqn 5 human 4 '
                                       'noisy 3 dqn 2 random 1',
        'plurality': 'human 19 rain 11 a3c 9 dist 5 duel 5 prio 3 ddqn 2 random 0 noisy 0 dqn 0',
        'ranked_pairs': 'rain 1172 dist 890 prio 696 duel 444 a3c 390 ddqn 302 human 202 '
                        'noisy 126 dqn 54 random 0',
        'schulze': 'rain 315 dist 278 prio 242 a3c 211 duel 184 ddqn 147 human 119 noisy 90 '
                   'dqn 54 random 0',
        'stv': 'human 20.19 rain 19.14 a3c 18.14 dist 10.12 duel 9.6 prio 8.5 ddqn 7.2 random 6 '
               'noisy 5 dqn 4',
    }.items()}}
# Why a rule's scores differ where the order is the same; docs/ranking_voting_games.md.
WHY = {
    'schulze': 'the printed scores add only neighbours of the order, the text of the paper all '
               'lower ones',
    'iterative_maximal_lotteries': 'a level whose lottery is not unique gets no score here, and '
                                   "the solver's there",
    'stv': 'surplus votes are transferred as fractions here, and whole ballots there'}
