"""Categories against the labels of people: accuracy with interval, confusion table, left-out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from arena_robot.core.errors import DataError
from arena_robot.core.task_categories import CATEGORIES, OTHER, matched
from arena_robot.core.wilson import wilson
from arena_robot.records.roboarena_files import rows_of

STEM = 4


@dataclass(frozen=True)
class TaskLabel:
    """An instruction with the category that a person gave it."""

    instruction: str
    category: str


@dataclass(frozen=True)
class LabelAgreement:
    """How many labels are met; ``table`` counts (person, said)."""

    count: int
    right: int
    table: Mapping[tuple[str, str], int]

    @property
    def interval(self) -> tuple[float, float]:
        """Return the accuracy's 95 % interval (Wilson)."""
        return wilson(self.right, self.count)

    def words(self) -> str:
        """Return accuracy, interval and what was confused, and the whole table."""
        low, high = self.interval
        lines = [f'{self.right} of {self.count} as the person said: accuracy '
                 f'{self.right / self.count:.3f} (95 % interval {low:.3f} to {high:.3f})', '']
        known = [c for c in CATEGORIES if any(c in pair for pair in self.table)]
        lines += [f'{n:>3}  {name}' for n, name in enumerate(known, 1)]
        lines += ['', 'person \\ said' + ''.join(f'{n:>4}' for n in range(1, len(known) + 1))]
        return '\n'.join(lines + [f'{n:>13}' + ''.join(
            f'{self.table.get((row, column), 0) or ".":>4}' for column in known)
            for n, row in enumerate(known, 1)])


def read_labels(path: Path) -> list[TaskLabel]:
    """
    Return the labels of a table with columns ``instruction`` and ``category``.

    Rows whose ``is_member`` is 0 say what an instruction is not, and are left out. DataError when
    nothing is left, or for an unknown category.
    """
    rows = [row for _, row in rows_of(path, ('instruction', 'category'))
            if row.get('is_member', '1') == '1']
    unknown = sorted({row['category'] for row in rows} - set(CATEGORIES))
    if unknown or not rows:
        raise DataError(f"{path}: {', '.join(unknown) if unknown else 'no label'}; categories: "
                        f"{', '.join(CATEGORIES)}")
    return [TaskLabel(row['instruction'], row['category']) for row in rows]


def membership(path: Path, said: Mapping[str, str]) -> tuple[int, int]:
    """
    Return (right, count) of the yes and no of ``is_member``: is it of this category or not.

    ``said`` is the category by instruction. This is how RoboArena counts its own model.
    """
    rows = [row for _, row in rows_of(path, ('instruction', 'category')) if 'is_member' in row]
    return sum((said[row['instruction']] == row['category']) is (row['is_member'] == '1')
               for row in rows if row['instruction'] in said), len(rows)


def agreement(labels: Sequence[TaskLabel], said: Sequence[str]) -> LabelAgreement:
    """Return how far what was said agrees with the labels."""
    pairs = list(zip(labels, said, strict=True))
    return LabelAgreement(len(pairs), sum(one.category == word for one, word in pairs),
                          Counter((one.category, word) for one, word in pairs))


def left_out(labels: Sequence[TaskLabel], others: Sequence[TaskLabel] = ()) -> list[str]:
    """
    Return what the rules say of each label when only the other labels have shaped them.

    A word of the rules counts for an instruction only where it decided another label of its
    category, of these or of ``others``: a word that no other label has is left out, as if the
    rules had been learnt from the other labels alone. What a category is stays as it is written.
    """
    hits = [{(name, word[:STEM]) for name, word in matched(one.instruction)}
            for one in (*labels, *others)]
    right = Counter(hit for one, found in zip((*labels, *others), hits, strict=True)
                    for hit in found if hit[0] == one.category)
    return [next((name for name, word in matched(one.instruction)
                  if right[name, word[:STEM]] > (name == one.category)), OTHER) for one in labels]
