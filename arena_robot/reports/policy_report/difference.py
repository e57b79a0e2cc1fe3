"""What changed between two reports on the same policy."""

import re
from dataclasses import dataclass

from arena_robot.core.errors import DataError
from arena_robot.reports.policy_report.statements import PolicyReport, Statement

_NUMBERS = re.compile(r'[:.]|\d')
_Key = tuple[tuple[str, ...], str]


@dataclass(frozen=True)
class ReportChange:
    """One claim that is new, gone or other; ``before`` or ``after`` is '' where there is none."""

    about: str
    before: str
    after: str


@dataclass(frozen=True)
class ReportDifference:
    """Two reports of a policy: sessions, claims that changed, statements that are new or gone."""

    policy: str
    sessions: tuple[int, int]
    claims: tuple[ReportChange, ...]
    new: tuple[str, ...]
    gone: tuple[str, ...]

    def words(self) -> str:
        """Return the difference as text."""
        lines = [f'{self.policy}: {self.sessions[0]} sessions, then {self.sessions[1]}.']
        lines += [f'{one.about}: {one.before or "no claim"} → {one.after or "no claim"}'
                  for one in self.claims] or ['No claim changed.']
        lines += [f'+ {one}' for one in self.new] + [f'− {one}' for one in self.gone]
        return '\n'.join(lines)


def difference_of(before: PolicyReport, after: PolicyReport) -> ReportDifference:
    """Return what changed; DataError for reports on two policies."""
    if before.policy != after.policy:
        raise DataError(f'one report is on {before.policy}, the other on {after.policy}; name '
                        'two reports on one policy')
    old, new = _claims(before), _claims(after)
    changes = [ReportChange(_about(key), _told(old.get(key)), _told(new.get(key)))
               for key in sorted({*old, *new})
               if _relation(old.get(key)) != _relation(new.get(key))]
    one, other = _texts(before), _texts(after)
    return ReportDifference(
        before.policy, (before.sessions, after.sessions), tuple(changes),
        tuple(x for x in other if x not in one), tuple(x for x in one if x not in other))


def _claims(report: PolicyReport) -> dict[_Key, Statement]:
    return {(tuple(sorted(one.claim.opponents)), one.claim.category): one
            for section in report.sections for one in section.statements if one.claim}


def _texts(report: PolicyReport) -> dict[str, None]:
    # Numbers change with every session: a statement is the same where its words before them are.
    return {f'{section.title}: {_NUMBERS.split(one.text)[0].strip(" :")}': None
            for section in report.sections for one in section.statements if not one.claim}


def _relation(one: Statement | None) -> object:
    return (one.claim.relation, one.finding and one.finding.verdict) \
        if one is not None and one.claim else None


def _told(one: Statement | None) -> str:
    if one is None or one.claim is None:
        return ''
    found = one.finding
    return one.claim.relation.value + (f' ({found.verdict.value}; {found.words()})'
                                       if found else '')


def _about(key: _Key) -> str:
    opponents, category = key
    whom = opponents[0] if len(opponents) == 1 else f'{len(opponents)} others'
    return f'{category or "all categories"}, against {whom}'
