"""A policy report as Markdown and as an HTML page without external files."""

import re
from pathlib import Path

import jinja2

import arena_robot
from arena_robot.reports.policy_report.statements import PolicyReport, Statement

TEMPLATES = Path(__file__).parents[1] / 'templates'
_SPECIAL = re.compile(r'([\\`*_\[\]<>#|~])')
HOW = ('A claim is supported where the 95 % interval of the share won, ties half, leaves one half '
       'out on its side; intervals are those of the ranking. Of 100 claims on equal policies '
       'about 5 pass. A policy is "equal" where the interval lies between 35 and 65 %. Quotes are '
       "pieces of the evaluators' words on the policy's letter, found by rules.")


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
