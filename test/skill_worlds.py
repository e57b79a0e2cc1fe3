"""Tasks with opposite goals, and an executor that decides by structure alone."""

from zlib import crc32

from arena_robot.skills.base import (
    Execution,
    SkillJoint,
    SkillLink,
    SkillObject,
    SubtaskResult,
    TaskSpec,
)
from arena_robot.skills.code_facts import facts_of

CUBE = SkillObject('cube', 'block', (SkillLink('cube'),))
FAMILIES = {
    'drawer': ('slide', 'tray', 'handle', ('Open', 'Close')),
    'box': ('hinge', 'lid', 'cover', ('Open', 'Close')),
    'cabinet': ('hinge', 'door', 'door', ('Open', 'Shut')),
    'heater': ('hinge', 'dial', 'knob', ('Turn up', 'Turn down')),
    'lamp': ('hinge', 'switch', 'switch', ('Turn on', 'Turn off')),
    'mixer': ('slide', 'fader', 'slider', ('Slide right', 'Slide left')),
}


def thing(name):
    kind, part, semantics, _ = FAMILIES[name]
    link = f'{name}_{part}'
    return SkillObject(name, name, (SkillLink(name), SkillLink(link, name, semantics)),
                       (SkillJoint(f'{link}_joint', kind, 0.0, 1.0, link),))


def spec_of(name, number, way):
    """Return the task of a family: ``way`` 0 goes to the upper limit, 1 to the lower."""
    verb = FAMILIES[name][3][way]
    others = sorted(set(FAMILIES) - {name})
    distractor = others[number % len(others)]
    words = f'the {name} {FAMILIES[name][1]}'
    return TaskSpec(f'{verb} {words}' + (f' near the {distractor}' if number else ''),
                    f'The robot arm should {verb.lower()} {words}.', name,
                    (thing(name), thing(distractor), CUBE),
                    {f'{part}/{thing(part).joints[0].name}': (0.0, 1.0)[way if part == name else 0]
                     for part in (name, distractor)})


def all_specs(variants=2):
    return [spec_of(name, number, way) for name in FAMILIES for number in range(variants)
            for way in (0, 1)]


class StructuralExecutor:
    """Success needs the right joint and way, a sensible tolerance, and a grasp for sliders."""

    def __init__(self, spec=None):
        self.solutions = []

    def execute(self, spec, solution, seed):
        self.solutions.append(solution)
        target = spec.objects[0]
        joint = target.joints[0]
        where = dict(spec.initial)
        goal = 1.0 - where[f'{target.name}/{joint.name}']
        grasped, results = '', []
        for place, step in enumerate(solution.subtasks):
            ok, grasped = self.subtask(spec, facts_of(step, spec.objects), grasped, where,
                                       crc32(f'{solution.task}{place}{step.code}{seed}'.encode()))
            results.append(SubtaskResult(ok, 10, 0.0, '' if ok else 'failed'))
            if not ok:
                break
        claimed = len(results) == len(solution.subtasks) and all(r.success for r in results)
        return Execution(tuple(results), claimed,
                         abs(where[f'{target.name}/{joint.name}'] - goal) < 0.36)

    def subtask(self, spec, facts, held, where, luck):
        parts = {o.name: {k.name for k in (*o.links, *o.joints)} for o in spec.objects}
        if any(n and (n[0] not in parts or (len(n) > 1 and n[1] not in parts[n[0]]))
               for _, n in facts.calls):
            return False, held
        if grasped := facts.names('grasp_object', 'grasp_object_link'):
            return True, grasped[0][-1]
        if facts.about != 'joint':
            return True, '' if facts.names('release_grasp') else held
        name, joint = facts.of
        goal, now = {'upper': 1.0, 'lower': 0.0}.get(facts.goal, 0.5), where[f'{name}/{joint}']
        if abs(now - goal) < facts.tolerance:
            return True, held
        moved = next(j for o in spec.objects for j in o.joints if j.name == joint)
        wrong = held not in ('', moved.link) or (moved.kind == 'slide' and not held)
        if wrong or (facts.tolerance < 0.05 and luck % 10 < 7):
            return False, held
        where[f'{name}/{joint}'] = goal + (0.9 if goal < 0.5 else -0.9) * facts.tolerance
        return True, held
