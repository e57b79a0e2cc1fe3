"""Sections 5 to 9 from numbers and the evaluators' words, with the sessions they stand in."""

from collections.abc import Iterable, Sequence

from arena_robot.reports.policy_report.attribution import WordGroup, about, cited, group
from arena_robot.reports.policy_report.checking import ReportChecker
from arena_robot.reports.policy_report.material import ReportSession, compared
from arena_robot.reports.policy_report.means import LEAST, SampleMean
from arena_robot.reports.policy_report.statements import Citation, ReportSection, Statement

CITED = 4
FOLLOWED = (
    group('the wrong object or place', r'wrong|instead of|incorrect|confus|not the (right|correct)'
          r'|another object|different object|mistak|distract'),
    group('the right object or place', r'(correct|right|target|requested) (object|item|\w+)|'
          r'correctly|identified'),
    group('the instruction ignored or misread', r'ignor|misunder|misinter|did ?n.t (understand|'
          r'follow)|not follow|instruction|language|prompt'))
REASONED = (
    group('only a part of the task', r'only (one|pick|put|mov|manag|touch|reach|grab)|part(ial|ly)'
          r'|second (object|item|step|part)|not? (finish|complete)|half'),
    group('the order of steps', r'\border\b|\bfirst\b.*\b(then|before|after)\b|before (it|mov)'),
    group('searching or exploring', r'search|explor|look(s|ed|ing)? (for|around)|\bfind|found'))
_NO_GRASP = (r'(fail|unable|uable|struggl|not|could ?n.t|did ?n.t|tr(y|ied|ies) to)[\w ]*'
             r'(pick|grasp|grab|grip)|miss(ed|es)?\b|slip')
SKILLS = (
    group('a grasp that succeeded', r'pick(s|ed)? (it |the [\w ]+ )?up|grasped|grabbed|managed to '
          r'(pick|grasp|grab)|successful(ly)? (pick|grasp|grab)', f'{_NO_GRASP}|unable|wrong'),
    group('a grasp that failed', _NO_GRASP),
    group('dropping', r'\bdrop'), group('placing', r'\bplac(e|ed|es|ing)\b|\bput(s|ting)?\b'),
    group('smooth or precise motion', r'smooth|precis|accurate|gentl|delicate|careful'),
    group('trying again', r're-?try|retri|again|multiple (attempts|times)|attempts|recover'))
SCENES = (
    group('distracting objects', r'distract|clutter|other (object|item)s'),
    group('camera or occlusion', r'camera|occlu|view|visible|out of (sight|frame)'),
    group('light', r'\b(light|dark|dim|bright|shadow)'))
FAILURES = (
    group('freezing or not moving', r'fr[eo]ze|stuck|did ?n.t move|did not move|not moving|still|'
          r'idle|halt|stopp?ed|nothing|barely moved?'),
    group('missed or failed grasps', _NO_GRASP),
    group('the wrong object or place', FOLLOWED[0].pattern.pattern),
    group('hesitating or being slow', r'hesita|slow|took (a )?long|indecisi|hover|wander|unsure'),
    group('collisions', r'colli[ds]|crash|bump|hit (the|a)|knocked|pushed away|joint limit|'
          r'safety|\bforce'),
    group('dropping', SKILLS[2].pattern.pattern),
    group('not releasing', r'(not|never|n.t|without|fail\w* to) (releas|let(ting)? go|open\w* the '
          r'gripper|drop)'),
    group('running out of time', r'out of time|time (ran|was running) out|time ?out|ran out'))
FORMS = (
    group('instruction with a negation or a condition',
          r"\b(not|don't|no|if|except|without|unless|only)\b"),
    group('instruction with a number or "all"', r'\b(all|each|every|both|two|three|four|\d+)\b'),
    group('instruction with 10 words or more', r'^\s*(\S+\s+){9}\S'),
    group('instruction with fewer than 10 words', r'\S', r'^\s*(\S+\s+){9}\S'))
REASONS = (
    group('instruction with a spatial relation', r'\b(left|right|behind|front|between|next to|'
          r'under|closer|farther|middle|top|bottom|beside|near)\b'),
    group('instruction with a colour', r'\b(red|green|blue|yellow|orange|purple|pink|black|white|'
          r'brown|gr[ae]y|silver)\b'),
    group('instruction with several steps', r'\b(then|after|before|and (put|place|move|drop|use|'
          r'close|open|pour))\b|\.\s+\w+'))
VERBS = (
    group('picking and placing', r'\b(pick|put|place)\b'),
    group('opening or closing', r'\b(open|close|shut)\b'), group('pouring', r'\bpour'),
    group('stacking', r'\b(stack|tower|pyramid)'),
    group('pushing or sliding', r'\b(push|slide|move)\b'),
    group('cloth', r'\b(cloth|towel|rag|fold|drape)'),
    group('wiping or other tools', r'\b(wipe|erase|sweep|stir|clean)'))


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
        found = []
        for name in sorted({key for s in self.sessions for key in s.scene()} | {'institution'}):
            rows: dict[str, list[ReportSession]] = {}
            for s in self.sessions:
                if value := s.institution if name == 'institution' else s.scene().get(name, ''):
                    rows.setdefault(value, []).append(s)
            found += [one for value, some in sorted(rows.items()) if len(rows) > 1
                      and (one := self._progress(f'{name} {value}', some))]
        return ReportSection('Robustness to Scene Variations', tuple(
            found + self._spoken(SCENES)) or self._nothing())

    def failure_modes(self) -> ReportSection:
        """Return what evaluators say of rollouts that were not finished, most frequent first."""
        failed = [(s, k) for s, k in self._mine if s.score(self.policy) != 1.0]
        found = [(len(hits), one, hits) for one in FAILURES if (hits := cited(failed, one))]
        found.sort(key=lambda row: -row[0])
        said = len(_with_words(failed))
        return ReportSection('Common Failure Modes', tuple(
            Statement(f'{_upper(one.title)}: in {count} of {said} unfinished rollouts with words '
                      'about it.', citations=tuple(hits[:CITED])) for count, one, hits in found)
            or self._nothing())

    def _section(self, title: str, forms: Sequence[WordGroup], words: Sequence[WordGroup],
                 ) -> ReportSection:
        lines = [one for form in forms if (one := self._progress(form.title, [
            s for s in self.sessions if form.where(s.instruction) is not None]))]
        return ReportSection(title, tuple(lines + self._spoken(words)) or self._nothing())

    def _progress(self, title: str, sessions: Sequence[ReportSession]) -> Statement | None:
        pairs = [pair for s in sessions for pair in compared(s, self.policy)]
        if len(pairs) < LEAST:
            return None
        mine, gap = SampleMean.of([a for a, _ in pairs]), SampleMean.of([a - b for a, b in pairs])
        told = 'clearly different' if gap.clear else 'not clearly different'
        return Statement(f'{_upper(title)}: mean progress {mine.words()}, of 100; against the '
                         f'other policy of the same session {gap.words(signed=True)}: {told}.')

    def _spoken(self, words: Iterable[WordGroup]) -> list[Statement]:
        found = []
        for one in words:
            hits = cited(self._mine, one)
            if hits:
                others = len(cited(self._others, one))
                found.append(Statement(
                    f'Evaluators speak of {one.title}: in {_of(len(hits), self._said[True])} '
                    f'sessions with words about {self.policy}; about the other policy in '
                    f'{_of(others, self._said[False])}.', citations=_newest(hits)))
        return found

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
