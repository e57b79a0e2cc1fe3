"""
What kind of task an instruction asks for, by its words.

RoboArena's categories (a vision-language model assigns them there). An instruction is cut into
its clauses; the verb that begins a clause says of which category it is, unless its object or its
particle says more ("push the door", "push over the block"). Of several steps the first that is
not pick and place decides. The verbs are written from the definitions, with what English has for
them, not from labels.
"""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache

# Who said of which category a task is; a person overrules.
RULES, MODEL, PERSON = 'rules', 'model', 'person'

__all__ = ['CATEGORIES', 'OTHER', 'categorise', 'matched', 'objects']

PICK, MOVE, OPEN = 'Pick and Place', 'Move / Slide', 'Open / Close'
COVER, GROUP, SORT = 'Cover / Drape / Fold', 'Group / Organize / Stack', 'Sorting / Classification'
FIND, KNOCK, TOOL = 'Find / Search', 'Knock Over / Topple', 'Tool Use'
STILL, OTHER = 'Minimal or No Action', 'Object Manipulation'
DEFINITIONS = {
    COVER: 'cloth is folded or draped, or something is covered or uncovered',
    FIND: 'an object is looked for, pointed at or touched',
    GROUP: 'several objects get an order: stacked, gathered (everything), a table set, a tower '
           'undone',
    KNOCK: 'an object is hit or made to fall',
    STILL: 'the arm stays still, or makes one small movement and stops',
    MOVE: 'an object is pushed, pulled along, or "moved" to another place',
    OTHER: 'the pose or state of an object changes where it is: pour, turn, press, pull out, '
           'balance, set upright, plug; and what fits nothing else',
    OPEN: 'something that opens is opened or closed: door, drawer, box, bottle, book, pen',
    PICK: 'an object is taken, or put somewhere; also only one of both',
    SORT: 'all objects of a kind are chosen, or one by what it is not',
    TOOL: 'one object acts on another: wipe, stir, cut, draw'}
CATEGORIES = tuple(sorted(DEFINITIONS))
_VERBS = {
    PICK: 'put place pick pickup drop take transfer throw toss bring grab grasp hand deliver set '
          'get give store return lay leave load unload deposit lift raise hold carry fetch '
          'replace swap exchange switch position rest keep release stow serve relocate hang mount '
          'add remove extract discard dispose stick retrieve dump',
    MOVE: 'move slide push drag shift nudge scoot shove slip',
    OPEN: 'open reopen close shut zip unzip cap uncap screw unscrew lock unlock cork uncork seal '
          'unseal latch unlatch button unbutton',
    COVER: 'cover uncover drape undrape fold unfold refold wrap unwrap spread tuck',
    GROUP: 'stack unstack restack group regroup organize organise reorganize tidy arrange '
           'rearrange gather nest unnest collect line align build rebuild create assemble '
           'construct pile bundle combine cluster',
    SORT: 'sort separate classify categorize categorise match split divide distribute',
    FIND: 'find search look locate identify point touch reach go show detect spot check inspect '
          'indicate seek discover approach hover feel',
    KNOCK: 'knock topple hit strike smash kick punch bump bang overturn slap',
    TOOL: 'wipe erase sweep wash clean scoop stir brush cut slice draw write paint scrub mop dust '
          'rub polish dry mix whisk chop carve stab pierce spear hammer saw drill use play comb '
          'rake shovel ladle peel grate iron staple sign sketch scratch scrape vacuum spray '
          'tighten loosen skewer butter mash color colour',
    STILL: 'stay wait freeze pause stop',
    OTHER: 'pour rotate flip turn twist press roll unroll shake balance insert plug unplug '
           'squeeze pull tilt tip spin swirl empty fill dispense upright straighten stand invert '
           'swing tie untie cross uncross crush tear rip crumple stretch bend break light click '
           'ring toggle dip soak dunk wring wind attach detach hook unhook connect disconnect tap '
           'poke pop unpack activate start'}
VERBS = {verb: name for name, verbs in _VERBS.items() for verb in verbs.split()}
CLOTH = 'cloth|towel|rag|blanket|napkin|shirt|t-shirt|sheet|scarf|handkerchief|tablecloth'
TOOLS = ('spoon|fork|knife|marker|pen|pencil|brush|eraser|broom|sponge|spatula|hammer|stick|'
         'chopsticks?|scissors|tongs|ladle|tool|wiper|whisk|mallet|screwdriver|drumstick')

LIKE = 0.8    # of a misspelled first verb, as difflib counts
_CUT = re.compile(r'[.;,:!?~\n]+|\b(?:and|then|but|so)\b')
_WORD = re.compile(r"[a-z][a-z'-]*")
_NOT = re.compile(r"\b(do not|don't|dont|never|nothing|no action|without)\b")
_THINGS = r'(?:objects?|items?|things?|stuff)'
_ROBOT = r'(?:your |the )(?:\w+ ){0,2}(?:gripper|arm|hand|fingers?|effector)\b'

# (verbs or their categories, what the rest of the clause says, the category that it is then)
_MORE: tuple[tuple[frozenset[str], re.Pattern[str], str], ...] = tuple(
    (frozenset(verbs.split('|')), re.compile(rest), name) for verbs, rest, name in (
        (f'{FIND}|{OPEN}|{MOVE}|{OTHER}|lift|raise|lay', rf'^(?:up |down )?{_ROBOT}', STILL),
        ('move', r'^(?:to the )?(?:left|right|up|down|forwards?|backwards?|back)$', STILL),
        ('hold|keep|remain|be', r'^(?:still|quiet|your position)\b', STILL),
        (f'{PICK}|{MOVE}|{FIND}', r'\b(?:non-\w+|not \w+|except|different|odd one)\b', SORT),
        (f'{PICK}|{MOVE}|{OTHER}', r'\bby (?:colou?r|size|shape|type|kind)\b|\b(?:matching|'
                                   r'corresponding|respective)\b', SORT),
        (f'{PICK}|move', r'\beverything\b|\btogether\b|\b(?:in|into) a (?:row|line|circle|pile|'
                         r'stack)\b', GROUP),
        (PICK, rf'\ball (?:of )?(?:the |these |those )?{_THINGS}\b', GROUP),
        (f'{PICK}|{MOVE}', r'\b(?:all|each|every)\b', SORT),
        ('set|setting|clear', r'^the (?:\w+ )?table\b', GROUP),
        ('make', r'\b(?:tower|pyramid|stack|pile|line|circle|row|structure|square)\b', GROUP),
        (PICK, rf'^(?:the |a )?(?:\w+ )?(?:{CLOTH})\b.* over\b', COVER),
        ('hang|lay|throw', rf'^(?:the |a )?(?:\w+ )?(?:{CLOTH})\b.*\b(?:rack|hook|chair|line)\b',
         COVER),
        ('pull|push|slide|slam', r'^(?:the )?(?:\w+ ){0,2}(?:doors?|drawers?)\b', OPEN),
        ('pull|push|slide|flip|swing', r'\b(?:open|shut|closed)$', OPEN),
        ('push|tip|flick|blow', r'^over\b|\bover$', KNOCK),
        ('push', r'^down\b|\bbuttons?\b', OTHER),
        ('pull|roll', r'\b(?:to|towards?|closer|across|along|left|right)\b', MOVE),
        (f'{OTHER}|{KNOCK}|{MOVE}', rf'\b(?:with|using) (?:the |a )?(?:\w+ )?(?:{TOOLS})$', TOOL),
        (PICK, rf'\busing (?:the |a )?(?:\w+ )?(?:{TOOLS})$', TOOL),
        (PICK, r'\b(?:upside down|right side up|upright|on its side|face (?:up|down))\b', OTHER),
        ('take|pick|remove|lift|get', r'^(?:off )?(?:the )?(?:\w+ )?lid(?: off\b|$)', OTHER),
        ('switch', r'^(?:on|off)\b|\b(?:on|off)$', OTHER)))


def matched(instruction: str) -> list[tuple[str, str]]:
    """Return (category, the verb that says it) of every step, those not pick and place first."""
    text = instruction.lower().replace('\u2019', "'")
    clauses = [' '.join(_WORD.findall(clause)) for clause in _CUT.split(text)]
    steps = list(_steps([clause for clause in clauses if clause]))
    if not steps and _NOT.search(text):
        return [(STILL, _NOT.findall(text)[0])]
    still = [step for step in steps if step[0] == STILL]
    return still + sorted((step for step in steps if step[0] != STILL),
                          key=lambda step: step[0] == PICK)


@lru_cache(maxsize=4096)
def categorise(instruction: str) -> str:
    """Return the category of an instruction, '' for an empty one."""
    if not instruction.strip():
        return ''
    return next((name for name, _ in matched(instruction)), OTHER)


@lru_cache(maxsize=4096)
def objects(instruction: str) -> tuple[str, ...]:
    """Return the nouns that an article introduces, as written: 'put the red cup on a plate'."""
    found = (match[1].split()[-1] for match in _NOUN.finditer(instruction.lower()))
    return tuple(dict.fromkeys(noun for noun in found if noun not in PLACES))


def _steps(clauses: list[str]) -> Iterator[tuple[str, str]]:
    """Yield (category, verb) of each clause that asks for something."""
    for clause in clauses:
        words = clause.split()
        while words and words[0] in FILLERS:
            words = words[1:]
        if not words or words[0] in STATEMENTS or _NOT.match(' '.join(words[:2])):
            continue
        verb, rest = words[0], ' '.join(words[1:])
        name = _more(verb, rest) or VERBS.get(verb)
        if name is None and clause == clauses[0]:
            close = get_close_matches(verb, VERBS, 1, LIKE)
            verb = close[0] if close else ''
            name = _more(verb, rest) or VERBS.get(verb)
        if name is not None:
            yield name, verb


def _more(verb: str, rest: str) -> str | None:
    """Return the category that the rest of the clause decides; None where the verb does."""
    category = VERBS.get(verb, '')
    return next((name for verbs, words, name in _MORE
                 if (verb in verbs or category in verbs) and words.search(rest)), None)


# An article, up to three adjectives, the noun; a preposition or the end of a clause is behind it.
_NOUN = re.compile(
    r"\b(?:the|a|an|this|that|all|every|each|both) ((?:[a-z][a-z'-]* ){0,3}?[a-z][a-z'-]*)"
    r'(?= (?:in|inside|into|on|onto|from|to|of|with|using|and|then|at|by|under|over|off|out|up|'
    r'down|next|behind|near|is|that|which|for|away|around|between|towards?|through|closer|against|'
    r'together|so)\b|[.,;:!?]| \d| ?$)')


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


FILLERS = _set('please pls kindly just only now first finally next also carefully gently '
               'slowly quickly then and you should can could must try to robot hey ok okay '
               'finish start begin completely simply')
# What an article introduces and is no object.
PLACES = _set('left right top bottom middle center centre side end front back edge corner same '
              'other rest way one')
STATEMENTS = _set('a an the there it they this that these those if when i my your his her '
                  'its is are no not dont never without while in on at')
