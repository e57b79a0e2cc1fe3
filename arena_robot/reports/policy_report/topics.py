"""
What evaluators speak of: groups of whole words, the clause in which they stand, and negation.

A group speaks of a piece of text where its words stand in one clause of it, and no negation and no
mere attempt stands before them in that clause: "was not able to pick it up" is no grasp that
succeeded. Groups that are about failing bring their own negation.

Words belong to a slot by the letters that name it: the pieces of a text that speak of policy A, of
policy B, or of both.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from arena_robot.reports.policy_report.material import ReportSession, flat
from arena_robot.reports.policy_report.statements import Citation

_CLAUSE = re.compile(
    r'[,;:.!?()]+|\b(?:but|while|whereas|al?though|though|however|then|because|since|so)\b', re.I)
_NOT = re.compile(
    r"\b(?:not|never|no|neither|nor|none|nobody|without|unable|uable|cannot|barely|hardly|rather "
    r'than|instead of|lack\w*|fail\w*|far from|(?:d(?:o|oes|id)|is|are|was|were|c(?:a|aa|ould)|wo|'
    r"would|should|ha(?:s|ve|d))n['’]?t)\b", re.I)
_TRIED = re.compile(
    r'\b(?:(?:tr(?:y|ies|ied|ying)|attempt\w*|struggl\w*|want\w*|hesitat\w*|about|going|motion\w*|'
    r'seem\w*|appear\w*|approach\w*) (?:\w+ )?(?:to|and|like)|looked like|asked|supposed|meant|'
    r'should|would|could have|almost|nearly)\b', re.I)
_NEARLY = re.compile(r'\b(?:almost|nearly)\b', re.I)
_GRASP = r'(?:pick|grasp|grab|grip|lift|hold)(?:s|ed|bed|ped|ing|bing|ping)?'
_CANNOT = (r"(?:fail\w*|unable|uable|not|never|n['’]?t|unsuccessful\w*|struggl\w*|without|trouble|"
           r'difficult\w*|neither)')
LONGEST = 160    # characters of a quote: a sentence or two
_SENTENCE = re.compile(r'[^.!?;\n]+[.!?;\n]*')
_MENTION = re.compile(
    r'(?i:\b(?:policy|model|robot)\s+(?P<named>[ab])\b)|(?P<bare>\b[AB]\b)(?!\s(?:few|bit|lot|'
    r'little|good|better|very|small|large|third|second)\b)|(?i:(?:^\s*|[,;]\s*)(?P<every>both|neither)\b|\b(?P<both>both|neither)\s'
    r'(?=(?:of )?(?:the )?(?:polic|model|robot|them|trial)))')
_OBJECT = re.compile(r'(?i)\b(than|of|as|to|with|from|like|unlike|over|by|against)\s+$')
_PAIR = re.compile(r'(?i)\b(neither|both)\s+$')
_JOINED = re.compile(r'(?i)\s*(,|and|n?or|&|/)\s*')
_ON = re.compile(r'(?i)\s*(it|this policy|the policy|then)\b')
_TAIL = re.compile(r'(?i)[\s,]*\b(and|but|while|whereas|so|or|then)?[\s,]*$')
_ORDER = re.compile(
    r'(?i)\b(ignore|disregard|forget|override)\s+(all|any|the|every|everything|previous|prior|above|'
    r'your|these|this|what)\b|\b(system|developer)\s+(prompt|message|note)|\b(assistant|chatgpt|'
    r'language model|llm|json|schema)\b|\b(you|please)\s+(must|should|are|will|have to|now|write|'
    r'say|report|rank)\b|\b(praise|recommend|rate|rank|cite|declare|report|write|say|claim)\s+'
    r'(this|that|policy|the|it|only|a|b|as)\b|\bas an?\s+ai\b|===|<\W?\w+>|\binstructions?\s*:|'
    r'\bnew (instructions?|rules?|task)\b|https?:')


@dataclass(frozen=True)
class WordGroup:
    """
    Words that evaluators use for one thing; ``title`` is shown.

    A piece of text that has ``unless`` as well does not speak of it, nor does one on an
    instruction that has ``unless_asked``: what was asked for is no failure. ``denied`` are the
    words before them in the clause that take them back.
    """

    title: str
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None = None
    unless_asked: re.Pattern[str] | None = None
    denied: tuple[re.Pattern[str], ...] = ()

    def where(self, piece: str, instruction: str = '') -> int | None:
        """Return where a piece of text speaks of it, None where it does not."""
        if (self.unless and self.unless.search(piece)) or (
                self.unless_asked and self.unless_asked.search(instruction)):
            return None
        for hit in self.pattern.finditer(piece):
            before = _CLAUSE.split(piece[:hit.start()])[-1]
            if not any(words.search(before) for words in self.denied):
                return hit.start()
        return None


def group(title: str, words: str, unless: str = '', asked: str = '',
          denied: tuple[re.Pattern[str], ...] = ()) -> WordGroup:
    """Return a group of whole words given as regular expressions without case."""
    return WordGroup(title, re.compile(rf'\b(?:{words})(?!\w)', re.IGNORECASE),
                     re.compile(unless, re.IGNORECASE) if unless else None,
                     re.compile(asked, re.IGNORECASE) if asked else None, denied)


def _done(title: str, words: str, unless: str = '') -> WordGroup:
    """Return a group of what was done, neither denied nor only tried."""
    return group(title, words, unless, denied=(_NOT, _TRIED))


def _seen(title: str, words: str, unless: str = '', asked: str = '') -> WordGroup:
    """Return a group of what was seen, neither denied nor nearly so."""
    return group(title, words, unless, asked, denied=(_NOT, _NEARLY))


WRONG_OBJECT = _seen(
    'the wrong object or place',
    r'wrong(?:ly)?(?! (?:direction|way|order|time))|incorrect\w*|(?:another|different) (?:object|'
    r'item|place)|mist(?:ook|aken)|not the (?:right|correct)|instead of (?:the |a )?(?!\w+ing\b|'
    r'clos|open|pick|plac|put|mov|pour)\w+|(?:pick|grab|grasp|went|plac|put|touch|reach|point)\w*'
    r'(?:(?!\bbut\b)[^,.;])* instead(?=\s*$|[.,])')
NO_GRASP = group(
    'a grasp that failed',
    rf'{_CANNOT}(?: [\w/\']+){{0,4}}? {_GRASP}|(?:tr(?:y|ied|ies|ying)|attempt\w*) to '
    rf'(?:[\w/]+ )?{_GRASP}(?=.*\b(?:but|al?though|unable|unsuccessful\w*|fail\w*|miss\w*)\b)|'
    r'miss(?:ed|es)(?! (?:the|correct|its target))|miss(?:ed|es) the grasp|'
    r'slip(?:s|ped)?|failed grasps?|unsuccessful grasps?',
    r'whether or not|have time|not (?:\w+ ){0,2}attempt|approach picking')
DROPPED = _seen('something dropped', r'drop(?:s|ped|ping)?|droped')
FOLLOWED = (
    WRONG_OBJECT,
    _done('the right object or place', r'(?:correct|target\w*|requested|specified)(?! (?:order|'
          r'direction|way|goal))(?: \w+)?|correctly|identifie[sd]|right (?:object|'
          r'item|place|spot|one)',
          r'wrong|incorrect|confus|distract|miss'),
    group('the instruction ignored or misread', r'ignor(?:es|ed)|misunder\w+|misinterpret\w*|'
          rf'misread|{_CANNOT}(?: completely)?(?: to)?(?: \w+)? (?:understand\w*|follow\w*|'
          r'adher\w*|obey\w*)'))
REASONED = (
    group('only a part of the task', r'only (?:one|half|pick\w*|put|plac\w*|manag\w*|'
          r'grab\w*|clos\w*|complet\w*)|partial(?:ly)?(?! observ)|partly|(?:first|'
          r'second|remaining|one) half|half (?:of|the|way)|halfway',
          r'command|asked'),
    group('the order of the steps', r'(?<!in )(?:order|sequence)(?! to\b)'),
    _seen('searching or finding', r'search\w*|explor\w*|look(?:s|ed|ing)? (?:for|around)|'
          rf'(?:{_CANNOT}(?: to)? )?(?:find|finds|found|finding) (?:the|it|its target)(?! grasp)'))
SKILLS = (
    _done('a grasp that succeeded', r'pick(?:s|ed)(?: \w+){0,4}? up|picked|(?:grasp|grab|gripp|'
          r'lift)(?:b?ed|s)|(?:managed|able) to (?:pick|grasp|grab|lift)\w*|pick up|successful\w* '
          r'(?:pick|grasp|grab)\w*|pickup', r'neither'),
    NO_GRASP, DROPPED,
    _done('something placed', r'(?<!was )(?<!were )(?<!is )(?<!be )plac(?:ed|es|ing)|'
          r'place (?:the|it|them)|put(?:s|ting)?', r'neither'),
    _done('smooth or precise motion', r'smooth\w*|precise\w*|precision|accurate\w*|gentl[ey]|'
          r'delicate\w*|careful\w*'),
    _seen('trying again', r're-?tr(?:y|ies|ied|ying)|re-?grasp\w*|again|(?:multiple|several|many|'
          r'few|more|repeated|second|third|2nd|3rd) (?:attempts?|tries|times|try)|each attempt|'
          r'ma(?:de|king)(?: \w+)? attempts|'
          r'recover(?:s|ed|ing)?|(?:keeps?|kept)(?: on)? (?:trying|attempting|picking|dropping)'))
SCENES = (
    _seen('being distracted', r'distract(?:ed|ors?|ions?|ing)'),
    group('camera or occlusion', r'cameras?|occlu\w+|out of (?:sight|frame|view)|(?:not |in)visibl'
          r'\w*|(?:point|field) of view'),
    group('light', r'lighting|light conditions?|dark|dim|bright\w*|shadows?'))
FAILURES = (
    _seen('freezing or not moving', r"fr[eo]ze\w*|frozen|froze|stuck\w*|(?:did ?n['’]?o?t|never|"
          r'not|without)(?: do)?(?: any| really| even)? (?:mov(?:e|ing|ement\w*)'
          r'(?! (?:\w+ )?(?:toward|to |close))|attempt the task|'
          r'do anything|take any action)|stationary|standstill|motionless|'
          r'(?:stay|stand|remain)\w* (?:still|frozen|in (?:place|the same)|at (?:the )?same|'
          r'stalled)|idle|(?<!\bi )halt(?:ed|s)?|stop(?:s|ped)|'
          r'd(?:id|oes|o|oing) nothing|barely moved?|stall(?:ed|s)?',
          r'(?:mov|look)\w+ (?:\w+ ){0,3}around|in regard|of doing nothing|nothing else'),
    NO_GRASP, WRONG_OBJECT,
    _seen('hesitating or being slow', r'hesita\w*|slow(?:ly|er|ed|ing)?|took (?:a |some |very |'
          r'too )?(?:long|significant|lot of)? ?time|took (?:too |very )?long|indecisi\w*|'
          r'hover\w*|wander\w*|unsure|no decisive'),
    _seen('collisions', r'colli[sd]\w*|crash\w*|bump\w*|hit(?:s|ting)? (?:the|a|its)(?! button)|'
          r'knock(?:s|ed|ing)?(?: \w+){0,4}? (?:over|down|off)|push\w* away|joint limits?', '',
          r'\b(?:knock|topple|hit|push)'),
    DROPPED,
    group('not releasing', rf'{_CANNOT}(?: to| able)*(?: \w+)? (?:releas\w*|let(?:ting)?(?: it)? '
          r'go|open\w* (?:the|its) gripper|relax\w*|drop(?: it| them)? (?:in|into|onto))'),
    group('running out of time', r'out of time|time (?:ran|was running|had run|had) (?:out|ended)|'
          r'tim(?:e|ed) ?out|ran out'))
_GOOD = re.compile(
    rf'\b(?:success\w*|succeed\w*|complet(?:ed?|es|ing)|finish\w*|solv\w*|perfect\w*|better|best|great|good|'
    rf'nice\w*|correct\w*|right|smooth\w*|confiden\w*|fast\w*|quick\w*|immediate\w*|direct\w*|'
    rf'straight|did (?:it|the task|well)|able to|managed?|{_GRASP}|pickup|plac\w*|put|touch\w*|'
    rf'mov\w+ (?:closer|towards?)|reach\w*|nearly|almost|right idea|got|intelligent\w*|accura\w*|'
    rf'wiping|open\w*|clos\w*|pour\w*|found|clean\w*|precis\w*|understood|identif\w*)\b', re.I)
_BAD = re.compile(
    r'\b(?:wrong\w*|incorrect\w*|confus\w*|stuck\w*|fr[eo]ze\w*|frozen|drop\w*|knock\w*|'
    r'colli\w*|crash\w*|ignor\w*|slow\w*|hesitat\w*|struggl\w*|stop\w*|stall\w*|stationary|still|'
    r'nothing|only|just|clumsy|miss\w*|bad\w*|worse|worst|wander\w*|sporat?\w*|random\w*|'
    r'problem\w*|distract\w*|aimless\w*|away|off|weird\w*|instead|idle|halt\w*|standstill)\b',
    re.I)
_AGAINST = re.compile(rf'{_NOT.pattern}|\b(?:wrong|incorrect)', re.I)


def favour(piece: str, instruction: str = '') -> int:
    """
    Return how far a piece of text speaks for the policy: good words less bad and denied ones.

    A bad word that the instruction has is no bad word: what was asked for is to be knocked off.
    """
    points = 0
    for clause in _CLAUSE.split(piece):
        denied, tried = _AGAINST.search(clause), _TRIED.search(clause)
        good = _GOOD.findall(clause)
        bad = [word for word in _BAD.findall(clause)
               if word[:4].lower() not in instruction.lower()]
        if denied:
            points -= 1 + len(bad)
        else:
            points += (0 if tried and not re.search('nearly|almost', clause) else len(good)) \
                - len(bad)
    return points


DOING_WELL, DOING_BADLY = 'doing well', 'doing badly'
TOPICS = {group.title: group for group in (*FOLLOWED, *REASONED, *SKILLS, *SCENES, *FAILURES)}


def speaks_of(topic: str, piece: str, instruction: str = '') -> int | None:
    """Return where a piece about a policy supports a topic, None where it does not."""
    if topic in (DOING_WELL, DOING_BADLY):
        return 0 if favour(piece, instruction) * (1 if topic == DOING_WELL else -1) > 0 else None
    return TOPICS[topic].where(piece, instruction)


@lru_cache(maxsize=50_000)
def speaks_to_a_reader(text: str) -> bool:
    """
    Tell whether a text gives orders to whoever makes a report of it.

    Such a text is never quoted: it does not speak of a rollout.
    """
    return _ORDER.search(text) is not None


def about(session: ReportSession, slot: str) -> list[str]:
    """Return the pieces of the evaluator's words that are about a slot, as they stand there."""
    pieces = [note] if (note := session.note(slot)) else []
    for text in session.words:
        pieces += [piece for slots, piece in _pieces(text) if slot in slots]
    return [piece for text in pieces if (piece := text.strip()) and not speaks_to_a_reader(piece)]


def support(session: ReportSession, slot: str, topic: str) -> str:
    """Return the first words about a slot that support a topic, shortened; '' without any."""
    for piece in about(session, slot):
        at = speaks_of(topic, piece, session.instruction)
        if at is not None and not quote_problem(session, slot, quote := shortened(piece, at),
                                                topic):
            return quote
    return ''


def cited(sessions: Iterable[tuple[ReportSession, str]], topic: str) -> list[Citation]:
    """Return a citation of each (session, slot) where words about that slot support a topic."""
    return [Citation(session.session_id, quote) for session, slot in sessions
            if (quote := support(session, slot, topic))]


def quote_problem(session: ReportSession, slot: str, quote: str, topic: str) -> str:
    """Return why a quote does not support a topic ('' for none) of a slot, '' when it does."""
    pieces = [piece for piece in about(session, slot) if flat(quote) in flat(piece)]
    if not pieces:
        return 'the words quoted are not about this policy'
    if topic and not any(speaks_of(topic, piece, session.instruction) is not None
                         and speaks_of(topic, quote, session.instruction) is not None
                         for piece in pieces):
        return f'by the rules the words do not say "{topic}"'
    return ''


def shortened(piece: str, at: int = 0) -> str:
    """Return up to 160 characters of a piece around ``at``, cut between words."""
    if len(piece) > LONGEST:
        start = max(0, min(at - LONGEST // 3, len(piece) - LONGEST))
        start = start and piece.find(' ', start) + 1
        end = piece.rfind(' ', start, start + LONGEST)
        piece = piece[start:end if end > start else start + LONGEST]
    return _TAIL.sub('', piece).strip()


@lru_cache(maxsize=20_000)
def _pieces(text: str) -> tuple[tuple[str, str], ...]:
    pieces: list[tuple[str, str]] = []
    last = ''
    for sentence in _SENTENCE.findall(text):
        mentions = _mentions(sentence)
        if not mentions:
            if last and _ON.match(sentence):
                pieces.append((last, sentence))
            continue
        ends = [start for start, _, _ in mentions[1:]] + [len(sentence)]
        pieces += [(slots, sentence[start:end])
                   for (start, _, slots), end in zip(mentions, ends, strict=True)]
        last = mentions[-1][2]
    return tuple(pieces)


def _mentions(sentence: str) -> list[tuple[int, int, str]]:
    """Return (start, end, slots) of the mentions that begin something about slots."""
    mentions: list[tuple[int, int, str]] = []
    for hit in _MENTION.finditer(sentence):
        if _OBJECT.search(sentence[:hit.start()]):
            continue
        both = hit['both'] or hit['every']
        slots = 'AB' if both else (hit['named'] or hit['bare']).upper()
        if mentions and _JOINED.fullmatch(sentence[mentions[-1][1]:hit.start()]):
            start, _, before = mentions[-1]
            mentions[-1] = start, hit.end(), ''.join(sorted({*before, *slots}))
        elif not (mentions and both and len(mentions[-1][2]) == 2):
            start = hit.start('every') if hit['every'] else hit.start()
            if pair := _PAIR.search(sentence[:start]):
                start = pair.start()
            mentions.append((start, hit.end(), slots))
    return mentions
