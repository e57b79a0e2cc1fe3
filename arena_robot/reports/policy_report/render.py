"""
A policy report as Markdown, as an HTML page, and against an earlier one.

The page has no external files.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import jinja2

import arena_robot
from arena_robot.core.errors import DataError
from arena_robot.reports.policy_report.statements import PolicyReport, Statement

TEMPLATES = Path(__file__).parents[1] / 'templates'
_SPECIAL = re.compile(r'([\\`*_\[\]<>#|~])')
HOW = ('A claim is supported where the 95 % interval of the share won, ties half, leaves one half '
       'out on its side; intervals are those of the ranking. Of 100 claims on equal policies '
       'about 5 pass. A policy is "equal" where the interval lies between 35 and 65 %. Quotes are '
       "pieces of the evaluators' words on the policy's letter, found by rules.")
_NUMBERS = re.compile(r'[:.]|\d')
_Key = tuple[tuple[str, ...], str]


def as_markdown(report: PolicyReport, site: str = '') -> str:
    """Return a report as Markdown; sessions link to ``site`` where it is given."""
    lines = [f'# {_plain(report.policy)}', '', _plain(head_words(report)), '',
             _plain(report.counts.words()), '',
             *(f'- **{title}**: {_plain(words)}' for title, words in report.summary()), '']
    for number, section in enumerate(report.sections, 1):
        lines += [f'## {number}. {section.title}', '']
        lines += [f'- {_statement(one, site)}' for one in section.statements] + ['']
    if report.dropped:
        lines += ['## Dropped', '', *(f'- {one.section}: {_plain(one.text)} ({_plain(one.why)})'
                                      for one in report.dropped), '']
    return '\n'.join([*lines, _plain(HOW), ''])


def as_html(report: PolicyReport, site: str = '') -> str:
    """Return a report as a page; sessions link to ``site`` where it is given."""
    made = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True,
                              undefined=jinja2.StrictUndefined, trim_blocks=True,
                              lstrip_blocks=True)
    return made.get_template('policy_report.html').render(
        report=report, site=site.rstrip('/'), head=head_words(report), how=HOW,
        version=arena_robot.__version__)


def head_words(report: PolicyReport) -> str:
    """Return when, of what and how a report was made."""
    since = f' since {report.since}' if report.since else ''
    newest = f', the newest of {report.newest[:10]}' if report.newest else ''
    return (f'Made {report.made[:16].replace("T", " ")} UTC by {report.method} from '
            f'{report.sessions} sessions{since}{newest}.')


def _statement(one: Statement, site: str) -> str:
    text = _plain(one.text)
    if one.finding is not None:
        text += f' **{one.finding.verdict.value}**: {_plain(one.finding.words())}.'
    for cited in one.citations:
        where = f'[{cited.session_id[:8]}]({site.rstrip("/")}/evaluations/{cited.place})' \
            if site else f'`{cited.session_id}`'
        text += f'\n  - {where}' + (f': “{_plain(cited.quote)}”' if cited.quote else '')
    return text


def _plain(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return _SPECIAL.sub(r'\\\1', ' '.join(text.split()))


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
