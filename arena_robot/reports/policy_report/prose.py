"""
What a model may write in a statement, so that no evaluator's text can speak through it.

A statement needs evidence; one that compares needs a claim, and its words go in the claim's
direction; it has no numbers, no addresses, no markup and no other policy's name; and it repeats no
run of ``RUN`` words of an evaluator, which is what quotes are for.
"""

import re
from collections.abc import Iterable

from arena_robot.reports.policy_report.checking import ReportChecker
from arena_robot.reports.policy_report.material import flat
from arena_robot.reports.policy_report.prompts import MOST_CHARS
from arena_robot.reports.policy_report.statements import Relation, Statement

RUN = 6
_WORD = re.compile(r"[\w']+")
_MARKUP = re.compile(r'[<>{}\[\]`|\\]|https?:|www\.|@|[\x00-\x1f]')
_NUMBER = re.compile(r'\d|\b(percent|per cent|hundred|thousand)\b', re.I)
_BETTER = re.compile(r'\b(better|best|outperform\w*|superior|stronger|strongest|ahead of|beats?|'
                     r'surpass\w*|excels?|exceed\w*|champion|more (often|reliabl\w*|successful\w*|'
                     r'capable)|unmatched|perfect\w*|state.of.the.art|flawless\w*|recommend\w*|'
                     r'praise\w*|great\w*|excellent|outstanding|always succeed\w*)\b', re.I)
_WORSE = re.compile(r'\b(worse|worst|underperform\w*|inferior|weaker|weakest|(lag|fall)\w* behind|'
                    r'los(es|t|ing) (to|against)|less (often|reliabl\w*|successful\w*|capable)|'
                    r'useless|dangerous|disqualif\w*|terrible|awful)\b', re.I)
_EQUAL = re.compile(r'\b(equally|equal to|as well as|as good as|on par|similarly well|'
                    r'comparabl\w*|no difference)\b', re.I)
_COMPARES = re.compile(r'\b(prefer\w*|than|wins?|winn\w*|won|opponents?|rivals?|competitor\w*|'
                       r'other polic\w*|ranks?|ranked|first place)\b', re.I)


class ProseRules:
    """Checks statements of one report; the evaluators' words are read once."""

    def __init__(self, checker: ReportChecker, policies: Iterable[str]) -> None:
        self._policy = _name(checker.policy)
        self._others = [_name(name) for name in policies if name != checker.policy]
        self._runs = {run for s in checker.sessions for text in (*s.texts(), s.instruction)
                      for run in _runs(text)}

    def problem(self, statement: Statement) -> str:
        """Return why a statement cannot stand, '' when it can."""
        text = statement.text
        if not text.strip() or len(text) > MOST_CHARS:
            return f'a statement has 1 to {MOST_CHARS} characters'
        bare = self._policy.sub(' ', flat(text))
        if _MARKUP.search(text):
            return 'it has markup or an address'
        if not statement.claim and not statement.citations:
            return 'it has no claim and no citation'
        if any(name.search(bare) for name in self._others):
            return 'it names another policy; the opponents stand in the claim'
        if _NUMBER.search(bare):
            return 'it has a number; numbers are added by the check'
        if any(run in self._runs for run in _runs(text)):
            return f'it repeats {RUN} or more words of an evaluator outside a quote'
        return _direction(bare, statement.claim.relation if statement.claim else None)


def _direction(text: str, relation: Relation | None) -> str:
    """Return what is wrong with the comparing words of a text, '' when nothing is."""
    said = [one for one, words in ((Relation.BETTER, _BETTER), (Relation.WORSE, _WORSE),
                                   (Relation.EQUAL, _EQUAL)) if words.search(text)]
    if relation is None:
        return 'it compares without a claim' if said or _COMPARES.search(text) else ''
    if any(one is not relation for one in said):
        return f'its words do not say "{relation.value}" as its claim does'
    return ''


def _name(policy: str) -> re.Pattern[str]:
    return re.compile(rf'(?<!\w){re.escape(flat(policy))}(?!\w)')


def _runs(text: str) -> Iterable[str]:
    words = _WORD.findall(flat(text))
    return (' '.join(words[k:k + RUN]) for k in range(len(words) - RUN + 1))
