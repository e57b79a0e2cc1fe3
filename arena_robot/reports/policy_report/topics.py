"""
What evaluators speak of: groups of whole words, the clause in which they stand, and negation.

A group speaks of a piece of text where its words stand in one clause of it, and no negation and no
mere attempt stands before them in that clause: "was not able to pick it up" is no grasp that
succeeded. Groups that are about failing bring their own negation.
"""

import re
from dataclasses import dataclass

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
    found = 0
    for clause in _CLAUSE.split(piece):
        denied, tried = _AGAINST.search(clause), _TRIED.search(clause)
        good = _GOOD.findall(clause)
        bad = [word for word in _BAD.findall(clause)
               if word[:4].lower() not in instruction.lower()]
        if denied:
            found -= 1 + len(bad)
        else:
            found += (0 if tried and not re.search('nearly|almost', clause) else len(good)) \
                - len(bad)
    return found


DOING_WELL, DOING_BADLY = 'doing well', 'doing badly'
TOPICS = {one.title: one for one in (*FOLLOWED, *REASONED, *SKILLS, *SCENES, *FAILURES)}


def speaks_of(topic: str, piece: str, instruction: str = '') -> int | None:
    """Return where a piece about a policy supports a topic, None where it does not."""
    if topic in (DOING_WELL, DOING_BADLY):
        return 0 if favour(piece, instruction) * (1 if topic == DOING_WELL else -1) > 0 else None
    return TOPICS[topic].where(piece, instruction)
