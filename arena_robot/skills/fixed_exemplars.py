"""Two exemplars that stand in every prompt of the condition `fixed`; no task is like them."""

from arena_robot.skills.base import SkillJoint, SkillLink, SkillObject, Solution, TaskSpec
from arena_robot.skills.subtask_lines import expand, parse_lines

_HATCH = TaskSpec(
    'Unlatch Roof Hatch', 'The arm takes the bar of the roof hatch and swings the hatch outwards.',
    'fixed', (SkillObject('hatch', 'hatch', (
        SkillLink('hatch_frame'), SkillLink('hatch_flap', 'hatch_frame', 'bar')), (
            SkillJoint('hatch_swing', 'hinge', 0.0, 1.2, 'hatch_flap'),)),),
    {'hatch/hatch_swing': 0.0})
_APPLE = TaskSpec(
    'Put Apple on Plate', 'The arm takes the apple and puts it on the plate.', 'fixed',
    (SkillObject('apple', 'fruit', (SkillLink('apple'),)),
     SkillObject('plate', 'dish', (SkillLink('plate'),))), {})
_LINES = (
    (_HATCH, 'reach hatch\ngrasp hatch hatch_flap\njoint hatch hatch_swing upper 0.3\nrelease'),
    (_APPLE, 'reach apple\ngrasp apple\nmove apple plate 0.06\nrelease'))


def fixed_exemplars() -> tuple[tuple[TaskSpec, Solution], ...]:
    """Return the two exemplars."""
    return tuple((spec, _solution(spec, text)) for spec, text in _LINES)


def _solution(spec: TaskSpec, text: str) -> Solution:
    scene: dict[str, object] = {'objects': [o.name for o in spec.objects],
                                'joints': dict(spec.initial)}
    return Solution(spec.name, scene, tuple(expand(s, spec) for s in parse_lines(text)), 'by hand')
