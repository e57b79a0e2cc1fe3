"""
The words of RoboArena's eleven categories of tasks: what each is, and the verbs that mean it.

The verbs are written from the definitions, with what English has for them, not from labels.
"""

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


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


FILLERS = _set('please pls kindly just only now first finally next also carefully gently '
               'slowly quickly then and you should can could must try to robot hey ok okay '
               'finish start begin completely simply')
STATEMENTS = _set('a an the there it they this that these those if when i my your his her '
                  'its is are no not dont never without while in on at')
CLOTH = 'cloth|towel|rag|blanket|napkin|shirt|t-shirt|sheet|scarf|handkerchief|tablecloth'
TOOLS = ('spoon|fork|knife|marker|pen|pencil|brush|eraser|broom|sponge|spatula|hammer|stick|'
         'chopsticks?|scissors|tongs|ladle|tool|wiper|whisk|mallet|screwdriver|drumstick')
