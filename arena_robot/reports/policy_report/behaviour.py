"""Sections 5 to 9 from numbers and the evaluators' words, with the sessions they stand in."""

import re
from collections.abc import Iterable, Mapping, Sequence

from arena_robot.reports.policy_report.checking import ReportChecker
from arena_robot.reports.policy_report.material import LEAST, ReportSession, SampleMean, compared
from arena_robot.reports.policy_report.statements import Citation, ReportSection, Statement
from arena_robot.reports.policy_report.topics import (
    FAILURES,
    FOLLOWED,
    REASONED,
    SCENES,
    SKILLS,
    WordGroup,
    about,
    cited,
)

CITED = 4    # of a statement, so that a reader can open each session
# Kinds of instructions by title: a regular expression without case.
FORMS = {
    'instruction with a negation or a condition':
        r"\b(not|don't|no|if|except|without|unless|only)\b",
    'instruction with a number or "all"': r'\b(all|each|every|both|two|three|four|\d+)\b',
    'instruction with 10 words or more': r'^\s*(\S+\s+){9}\S',
    'instruction with fewer than 10 words': r'^(?!\s*(\S+\s+){9}\S).*\S'}
REASONS = {
    'instruction with a spatial relation': r'\b(left|right|behind|front|between|next to|under|'
        r'closer|farther|middle|top|bottom|beside|near)\b',
    'instruction with a colour': r'\b(red|green|blue|yellow|orange|purple|pink|black|white|'
        r'brown|gr[ae]y|silver)\b',
    'instruction with several steps': r'\b(then|after|before|and (put|place|move|drop|use|'
        r'close|open|pour))\b|\.\s+\w+'}
VERBS = {
    'picking and placing': r'\b(pick|put|place)\b',
    'opening or closing': r'\b(open|close|shut)\b', 'pouring': r'\bpour',
    'stacking': r'\b(stack|tower|pyramid)', 'pushing or sliding': r'\b(push|slide|move)\b',
    'cloth': r'\b(cloth|towel|rag|fold|drape)',
    'wiping or other tools': r'\b(wipe|erase|sweep|stir|clean)'}


class BehaviourSections:
    """Writes the sections of one policy."""

    def __init__(self, checker: ReportChecker) -> None:
        self.policy, self.sessions = checker.policy, checker.sessions
        self._mine = [(s, s.slot(self.policy)) for s in self.sessions]
        self._others = [(s, s.slot(s.opponent(self.policy))) for s in self.sessions]
        self._said = {True: _with_words(self._mine), False: _with_words(self._others)}

    def instruction_following(self) -> ReportSection:
        """Return progress by the form of the instruction, and what evaluators say of it."""
        return self._section('Instruction Following', FORMS, FOLLOWED)

    def reasoning(self) -> ReportSection:
        """Return progress where the instruction needs relations, colours or steps."""
        return self._section('Reasoning', REASONS, REASONED)

    def manipulation(self) -> ReportSection:
        """Return progress by what is to be done, and what evaluators say of hand and arm."""
        return self._section('Manipulation Skills', VERBS, SKILLS)

    def robustness(self) -> ReportSection:
        """Return progress by camera, light, clutter and institution."""
        statements = []
        for name in sorted({key for s in self.sessions for key in s.scene()} | {'institution'}):
            rows: dict[str, list[ReportSession]] = {}
            for s in self.sessions:
                if value := s.institution if name == 'institution' else s.scene().get(name, ''):
                    rows.setdefault(value, []).append(s)
            statements += [statement for value, chosen in sorted(rows.items()) if len(rows) > 1
                           and (statement := self._progress(f'{name} {value}', chosen))]
        return ReportSection('Robustness to Scene Variations', tuple(
            statements + self._spoken(SCENES)) or self._nothing())

    def failure_modes(self) -> ReportSection:
        """Return what evaluators say of rollouts that were not finished, most frequent first."""
        failed = [(s, k) for s, k in self._mine if s.score(self.policy) != 1.0]
        modes = [(len(hits), failure.title, hits) for failure in FAILURES
                 if (hits := cited(failed, failure.title))]
        modes.sort(key=lambda row: -row[0])
        spoken = len(_with_words(failed))
        return ReportSection('Common Failure Modes', tuple(
            Statement(f'{_upper(title)}: in {count} of {spoken} unfinished rollouts with words '
                      'about it.', citations=tuple(hits[:CITED]), topic=title,
                      short=f'{title} ({count} of {spoken})')
            for count, title, hits in modes)
            or self._nothing())

    def _section(self, title: str, forms: Mapping[str, str], words: Sequence[WordGroup],
                 ) -> ReportSection:
        progress = [self._progress(form, [s for s in self.sessions if re.search(
            pattern, s.instruction, re.IGNORECASE)]) for form, pattern in forms.items()]
        statements = [statement for statement in progress if statement] + self._spoken(words)
        return ReportSection(title, tuple(statements) or self._nothing())

    def _progress(self, title: str, sessions: Sequence[ReportSession]) -> Statement | None:
        pairs = [pair for s in sessions for pair in compared(s, self.policy)]
        if len(pairs) < LEAST:
            return None
        mine, gap = SampleMean.of([a for a, _ in pairs]), SampleMean.of([a - b for a, b in pairs])
        verdict = 'clearly different' if gap.clear else 'not clearly different'
        return Statement(
            f'{_upper(title)}: mean progress {mine.words()}, of 100; against the other policy of '
            f'the same session {gap.words(signed=True)}: {verdict}.',
            short=f'{title}: progress {100 * gap.mean:+.0f}' if gap.clear else '')

    def _spoken(self, words: Iterable[WordGroup]) -> list[Statement]:
        """Return a statement for each topic that is spoken of, the most frequent first."""
        statements = []
        for title in (group.title for group in words):
            if hits := cited(self._mine, title):
                count = _of(len(hits), self._said[True])
                elsewhere = len(cited(self._others, title))
                statements.append((len(hits), Statement(
                    f'Evaluators speak of {title}: in {count} sessions with words about '
                    f'{self.policy}; about the other policy in '
                    f'{_of(elsewhere, self._said[False])}.', citations=_newest(hits), topic=title,
                    short=f'{title} ({count})')))
        return [statement for _, statement in sorted(statements, key=lambda row: -row[0])]

    def _nothing(self) -> tuple[Statement, ...]:
        return (Statement('These sessions are too few to tell anything here.'),)


def _newest(hits: Sequence[Citation]) -> tuple[Citation, ...]:
    return tuple(hits[::-1][:CITED])


def _with_words(rows: Iterable[tuple[ReportSession, str]]) -> list[str]:
    return [s.session_id for s, slot in rows if about(s, slot)]


def _of(count: int, rows: Sequence[str]) -> str:
    share = f' ({100 * count / len(rows):.0f} %)' if rows else ''
    return f'{count} of {len(rows)}{share}'


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
