"""Which evaluators may not judge which policies: conflict of interest."""

from collections.abc import Collection

from arena_robot.core.config import nearest
from arena_robot.core.errors import ConfigError
from arena_robot.server.base import Account

# By rule: what the evaluator and the owner of a policy have in common.
RULES = {
    'owner': 'evaluator and owner are the same account',
    'person': 'evaluator and owner are accounts of the same person',
    'institution': 'evaluator and owner are of the same institution',
}


def check_rules(rules: Collection[str]) -> None:
    """Raise ConfigError when a rule is not one."""
    for rule in rules:
        if rule not in RULES:
            raise ConfigError(f"conflicts: there is no rule '{rule}'.{nearest(rule, RULES)}")


def conflict(evaluator: Account, owner: Account, rules: Collection[str]) -> str:
    """Return the first rule that keeps ``evaluator`` from judging the owner's policies, or ''."""
    holds = {'owner': evaluator.id == owner.id,
             'person': _same(evaluator.person, owner.person),
             'institution': _same(evaluator.institution, owner.institution)}
    return next((rule for rule in RULES if rule in rules and holds[rule]), '')


def same_institution(a: str, b: str) -> bool:
    """Tell whether two names are of the same institution."""
    return _same(a, b)


def _same(a: str, b: str) -> bool:
    return bool(a) and ' '.join(a.casefold().split()) == ' '.join(b.casefold().split())
