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
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

ENOUGH = 10
Row = dict[str, str]


def rows(path: Path) -> list[Row]:
    """Return the rows of a CSV file."""
    with path.open(encoding='utf-8', newline='') as file:
        return list(csv.DictReader(file))


def preferences(sessions: Iterable[Row], names: list[str]) -> dict[str, Any]:
    """Return the profile with a ballot of two policies per counted verdict."""
    votes = []
    for row in sessions:
        a, b = row['policy_a'], row['policy_b']
        if row['valid'] != '1' or {a, b} - set(names) or a == b:
            continue
        ranking = {'A': [a, b], 'B': [b, a], 'TIE': [[a, b]]}.get(row['preference'])
        if ranking:
            votes.append({'ranking': ranking})
    return {'alternatives': names, 'votes': votes}


def by_session(episodes: Iterable[Row], names: list[str]) -> dict[str, Any]:
    """Return the profile with a ballot per session, equal progress being a tie."""
    scores: dict[str, dict[str, float]] = defaultdict(dict)
    for row in episodes:
        if row['policy'] in names and row['partial_success']:
            scores[row['session_uuid']][row['policy']] = float(row['partial_success'])
    votes = []
    for found in scores.values():
        levels = sorted(set(found.values()), reverse=True)
        ranking = [[p for p in names if found.get(p) == level] for level in levels]
        if len(found) > 1:
            votes.append({'ranking': ranking})
    return {'alternatives': names, 'votes': votes}


def by_category(episodes: Iterable[Row], categories: Iterable[Row],
                names: list[str]) -> dict[str, Any]:
    """Return mean partial success per policy and category, where all have ``ENOUGH`` rollouts."""
    member = defaultdict(set)
    for row in categories:
        if row['is_member'] == '1':
            member[row['instruction'].strip().lower()].add(row['category'])
    scores = defaultdict(list)
    for row in episodes:
        for category in member[row['instruction'].strip().lower()]:
            if row['partial_success']:
                scores[row['policy'], category].append(float(row['partial_success']))
    tasks = sorted({c for found in member.values() for c in found})
    tasks = [t for t in tasks if all(len(scores[p, t]) >= ENOUGH for p in names)]
    return {'models': names, 'tasks': tasks, 'kind': 'model_vs_model_vs_task',
            'scores': [[fmean(scores[p, t]) for t in tasks] for p in names]}


def main(tables: Path, out: Path) -> None:
    """Read the tables and write the three files."""
    sessions, episodes = rows(tables / 'sessions.csv'), rows(tables / 'episodes.csv')
    ran = Counter(policy for policy, _ in {(r['policy'], r['session_uuid']) for r in episodes})
    total = len({r['session_uuid'] for r in episodes})
    names = sorted(policy for policy, count in ran.items() if count >= total / 10)
    made = {
        'preferences': preferences(sessions, names), 'sessions': by_session(episodes, names),
        'categories': by_category(episodes, rows(tables / 'task_categories.csv'), names)}
    out.mkdir(parents=True, exist_ok=True)
    for name, data in made.items():
        (out / f'{name}.json').write_text(json.dumps(data, indent=1), encoding='utf-8')


if __name__ == '__main__':
    main(Path(sys.argv[1]), Path(sys.argv[2]))
