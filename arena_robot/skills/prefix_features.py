"""
What the verifier sees of a prefix: named features of its meaning, and hashed text.

Meaning is what the code does in made-up scenes (`code_facts`). It is crossed with the task's verb
and compared with the specification: whether names exist, whether the joint is one the task speaks
of, whether the goal is where the joint already is, whether the grasp is of the link that moves.
The name of the task itself is not a feature.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from arena_robot.core.observation import Floats
from arena_robot.skills.base import SkillJoint, SkillObject, Solution, TaskSpec
from arena_robot.skills.code_facts import (
    JOINT,
    LOWER,
    MIDDLE,
    PRIMITIVES,
    UPPER,
    CodeFacts,
    facts_of,
)
from arena_robot.skills.embedding import HashedNgrams
from arena_robot.skills.generator import words

PARTICLES = ('on', 'off', 'up', 'down', 'left', 'right')
HALF, HALVES = 'half', ('half', 'halfway', 'middle', 'center', 'partial', 'partially')
TEXT = HashedNgrams(128)
KEPT = 20000
TOLERANCES = (0.03, 0.08, 0.15, 0.25, 0.4)
STANDS = 0.15    # of a joint's range: its start so near the goal is at the goal
Named = dict[str, float]


def verb_of(spec: TaskSpec) -> str:
    """Return the first word of the task's name, and its particle."""
    return ' '.join([*words(spec.name)[:1], *particle_of(spec)])


def particle_of(spec: TaskSpec) -> list[str]:
    """Return half, or the first word such as on or left; nothing where there is none."""
    tokens = [*words(spec.name), *words(spec.description)]
    if any(word in HALVES for word in tokens):
        return [HALF]
    return [word for word in tokens if word in PARTICLES][:1]


def meaning(spec: TaskSpec, solution: Solution, length: int) -> Named:
    """Return the named features of the first ``length`` subtasks."""
    facts = [facts_of(subtask, spec.objects) for subtask in solution.subtasks[:length]]
    features: Counter[str] = Counter()
    verb = verb_of(spec)
    wanted = joints_meant(spec)
    features.update({f'length {min(length, 6)}', f'last {_kind(facts[-1])}',
                     f'{verb}: last {_kind(facts[-1])}'})
    for place, fact in enumerate(facts):
        features.update(set(_of_names(spec, fact)))
        features.update(set(_of_goal(spec, fact, verb, wanted)))
        if _kind(fact) == 'motion':
            grasps = [names for before in facts[:place]
                      for names in before.names('grasp_object', 'grasp_object_link')]
            features.update(set(_of_grasp(spec, fact, grasps, verb, wanted)))
    goals = [fact.goal or 'place' for fact in facts if _kind(fact) == 'motion']
    features.update({f'motions {min(len(goals), 3)}', f'{verb}: motions {min(len(goals), 3)}'})
    return {name: min(float(times), 2.0) for name, times in features.items()}


def text_rows(spec: TaskSpec, solution: Solution, length: int) -> Floats:
    """Return (256,) hashed text: of all subtasks' names, and of the last one's code."""
    names = ' '.join(subtask.name for subtask in solution.subtasks[:length])
    return np.concatenate([_row(names), _row(solution.subtasks[length - 1].code)])


def task_words(spec: TaskSpec) -> Named:
    """Return what a filter sees that knows only the task's name."""
    return {f'name {word}': 1.0 for word in words(spec.name)}


@lru_cache(maxsize=KEPT)
def _row(text: str) -> Floats:
    return np.asarray(TEXT.embed([text])[0])


def _kind(facts: CodeFacts) -> str:
    for name in PRIMITIVES:
        if facts.names(name):
            return 'release' if name == 'release_grasp' else 'grasp'
    if facts.problem:
        return 'broken'
    return {'joint': 'motion', 'place': 'motion', 'gripper': 'near'}.get(facts.about, 'other')


def joints_meant(spec: TaskSpec) -> set[tuple[str, str]]:
    """Return the (object, joint) whose words the task's name and description have most of."""
    tokens = {*words(spec.name), *words(spec.description)}
    scores = {(o.name, j.name): _overlap(o, j, tokens) for o in spec.objects for j in o.joints}
    best = max(scores.values(), default=0)
    return {pair for pair, score in scores.items() if score == best}


def _overlap(owner: SkillObject, joint: SkillJoint, tokens: set[str]) -> int:
    own = {*words(joint.name), *words(joint.link)}
    own |= {w for k in owner.links if k.name == joint.link for w in words(k.semantics)}
    return 2 * len(own & tokens) + len({*words(owner.name), *words(owner.category)} & tokens)


def _of_names(spec: TaskSpec, facts: CodeFacts) -> Iterator[str]:
    known = {o.name: {k.name for k in o.links} | {j.name for j in o.joints} for o in spec.objects}
    for _, names in facts.calls:
        if names and names[0] not in known:
            yield 'object unknown'
        elif len(names) > 1 and names[1] not in known[names[0]]:
            yield 'part unknown'
    if facts.problem:
        yield 'cannot run'


def joint_of(spec: TaskSpec, facts: CodeFacts) -> tuple[SkillObject, SkillJoint] | None:
    """Return the joint that decides, with its object; None where there is no such joint."""
    names = facts.of if facts.about == JOINT else ()
    return next(((o, j) for o in spec.objects for j in o.joints if (o.name, j.name) == names),
                None)


def _bucket(value: float | None) -> str:
    return 'none' if value is None else str(int(np.searchsorted(TOLERANCES, value)))


def _of_goal(spec: TaskSpec, facts: CodeFacts, verb: str, wanted: set[tuple[str, str]]
             ) -> Iterator[str]:
    if _kind(facts) != 'motion':
        return
    goal, size = facts.goal or 'place', _bucket(facts.tolerance)
    yield from (f'goal {goal}', f'{verb}: goal {goal}', f'tolerance {size}',
                f'{goal}: tolerance {size}', f'{verb}: tolerance {size}')
    yield from (f'{word}: goal {goal}' for word in particle_of(spec))
    pair = joint_of(spec, facts)
    if pair is None:
        return
    owner, joint = pair
    sense = next((k.semantics for k in owner.links if k.name == joint.link), '') or joint.kind
    meant = 'meant' if (owner.name, joint.name) in wanted else 'other'
    yield from (f'joint {meant}', f'{joint.kind}: goal {goal}', f'{verb}, {joint.kind}: {goal}',
                f'{owner.category}: goal {goal}', f'{verb}, {owner.category}: {goal}',
                f'{verb}, {sense}: {goal}')
    left = way_left(spec, facts)
    if left is not None:
        far = 'there' if left < STANDS else 'away'
        yield from (f'start {far}', f'joint {meant}, start {far}', f'start {far}: {size}')


def way_left(spec: TaskSpec, facts: CodeFacts) -> float | None:
    """Return how far a joint's start is from the goal of the code, a share of its range."""
    pair = joint_of(spec, facts)
    start = spec.initial.get(f'{pair[0].name}/{pair[1].name}') if pair else None
    if start is None:
        return None
    middle = facts.share if facts.goal == MIDDLE else 0.5
    return abs({UPPER: 1.0, LOWER: 0.0}.get(facts.goal, middle) - start)


def moved_links(owner: SkillObject, joint: SkillJoint) -> set[str]:
    """Return the link that a joint moves and what is fixed to it."""
    return {joint.link} | {k.name for k in owner.links if k.parent == joint.link}


def _of_grasp(spec: TaskSpec, facts: CodeFacts, grasps: Sequence[tuple[str, ...]], verb: str,
              wanted: set[tuple[str, str]]) -> Iterator[str]:
    pair = joint_of(spec, facts)
    owner = next(iter(facts.of), '')
    of_joint = moved_links(*pair) if pair else set()
    if not grasps:
        grasped = 'nothing'
    elif grasps[-1][0] != owner:
        grasped = 'another object'
    elif len(grasps[-1]) > 1:
        grasped = 'its link' if grasps[-1][1] in of_joint else 'another link'
    else:
        grasped = 'the object'
    yield from (f'holds {grasped}', f'{verb}: holds {grasped}',
                f'{facts.goal or "place"}: holds {grasped}')
    if pair:
        yield from (f'{pair[0].category}: holds {grasped}', f'{pair[1].kind}: holds {grasped}')
