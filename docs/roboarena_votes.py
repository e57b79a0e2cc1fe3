"""
Turn the RoboArena tables into inputs of `arena vote` and `arena game`.

  python docs/roboarena_votes.py TABLES OUT

TABLES holds sessions.csv, episodes.csv and task_categories.csv. Written to OUT are
preferences.json (a ballot of two policies per verdict), sessions.json (a ballot per session over
all policies that ran in it, by partial success) and categories.json (mean partial success per
policy and category of task, of categories in which every policy has ten rollouts). The policies
are those that ran in at least a tenth of the sessions.
"""

import csv
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from arena_robot.core.episode import Preference
from arena_robot.records.roboarena import RoboArenaData, RoboArenaSession
from arena_robot.records.roboarena_files import read_folder

ENOUGH = 10


def preferences(data: RoboArenaData, names: Sequence[str]) -> dict[str, Any]:
    """Return the profile with a ballot of two policies per counted verdict."""
    votes = []
    for found in data.comparisons():
        a, b = found.a, found.b
        if not {a, b} - set(names):
            votes.append({'ranking': {Preference.A: [a, b], Preference.B: [b, a],
                                      Preference.TIE: [[a, b]]}[found.preference]})
    return {'alternatives': names, 'votes': votes}


def by_session(sessions: Sequence[RoboArenaSession], names: Sequence[str]) -> dict[str, Any]:
    """Return the profile with a ballot per session, equal progress being a tie."""
    votes = []
    for session in sessions:
        found = {r.policy: r.progress for r in session.rollouts
                 if r.policy in names and r.progress is not None}
        levels = sorted(set(found.values()), reverse=True)
        ranking = [[p for p in names if found.get(p) == level] for level in levels]
        if len(found) > 1:
            votes.append({'ranking': ranking})
    return {'alternatives': names, 'votes': votes}


def by_category(sessions: Sequence[RoboArenaSession], member: dict[str, set[str]],
                names: Sequence[str]) -> dict[str, Any]:
    """Return mean partial success per policy and category, where all have ``ENOUGH`` rollouts."""
    scores = defaultdict(list)
    for rollout in (r for session in sessions for r in session.rollouts):
        for category in member[rollout.prompt.strip().lower()]:
            if rollout.progress is not None:
                scores[rollout.policy, category].append(rollout.progress)
    tasks = sorted({c for found in member.values() for c in found})
    tasks = [t for t in tasks if all(len(scores[p, t]) >= ENOUGH for p in names)]
    return {'models': names, 'tasks': tasks, 'kind': 'model_vs_model_vs_task',
            'scores': [[fmean(scores[p, t]) for t in tasks] for p in names]}


def categories(path: Path) -> dict[str, set[str]]:
    """Return the categories of each instruction."""
    member: dict[str, set[str]] = defaultdict(set)
    with path.open(encoding='utf-8', newline='') as file:
        for row in csv.DictReader(file):
            if row['is_member'] == '1':
                member[row['instruction'].strip().lower()].add(row['category'])
    return member


def main(tables: Path, out: Path) -> None:
    """Read the tables and write the three files."""
    data = read_folder(tables)
    ran = Counter(p for s in data.sessions for p in {r.policy for r in s.rollouts})
    total = sum(bool(s.rollouts) for s in data.sessions)
    names = sorted(policy for policy, count in ran.items() if count >= total / 10)
    made = {
        'preferences': preferences(data, names), 'sessions': by_session(data.sessions, names),
        'categories': by_category(data.sessions, categories(tables / 'task_categories.csv'),
                                  names)}
    out.mkdir(parents=True, exist_ok=True)
    for name, data in made.items():
        (out / f'{name}.json').write_text(json.dumps(data, indent=1), encoding='utf-8')


if __name__ == '__main__':
    main(Path(sys.argv[1]), Path(sys.argv[2]))
