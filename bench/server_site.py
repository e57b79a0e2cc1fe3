"""The site with many sessions, as bench_server.py measures it."""

import json
import os
import time
from pathlib import Path

import httpx
import numpy as np
import sqlalchemy as sa

from arena_robot.core.clock import SystemClock
from arena_robot.core.task_categories import CATEGORIES
from arena_robot.reports.policy_report.statements import (
    SECTIONS,
    CheckCounts,
    Citation,
    PolicyReport,
    ReportSection,
    Statement,
    report_to_json,
)
from arena_robot.server.store import log
from arena_robot.server.store.database import Database
from arena_robot.server.store.reports import Reports
from arena_robot.server.store.schema import accounts, policies, sessions, stations

LIMITS = {'assignment p99': 100.0, 'relay overhead p50': 2.0, 'relay overhead p99': 10.0,
          'site p95': 100.0, 'snapshot to leaderboard': 5.0}


def fill(folder, count):
    """Add synthetic finished sessions straight to the database."""
    rng = np.random.default_rng(0)
    words = ('put the cup on the plate', 'open the drawer', 'stack the blocks', 'press the button')
    with Database(f'sqlite:///{folder}/arena.db') as database, database.write() as connection:
        station = connection.execute(sa.select(stations.c.id)).scalars().first()
        base = dict(connection.execute(sa.select(policies)).mappings().first())
        base.pop('id')
        connection.execute(sa.insert(policies), [
            {**base, 'name': f'policy-{k:02}', 'state': 'retired'} for k in range(20)])
        person = dict(connection.execute(sa.select(accounts)).mappings().first())
        person.pop('id')
        connection.execute(sa.insert(accounts), [
            {**person, 'name': f'person {k}', 'person': f'person {k}'} for k in range(200)])
        people = connection.execute(sa.select(accounts.c.id).where(
            accounts.c.name.like('person %'))).scalars().all()
        numbers = connection.execute(sa.select(policies.c.id).where(
            policies.c.state == 'retired')).scalars().all()
        rows = []
        for k in range(count):
            a, b = rng.choice(len(numbers), 2, replace=False)
            win = rng.random() < 1 / (1 + np.exp(-(a - b) / 8))
            rows.append({
                'id': f'{k:036}', 'request': f'fill:{k}', 'station_id': station,
                'evaluator_id': people[k % 200], 'institution': f'lab {k % 12}', 'state': 'done',
                'prompt': f'{words[k % 4]} number {k % 997}', 'category': CATEGORIES[k % 9],
                'policy_a_id': numbers[a], 'policy_b_id': numbers[b], 'probation': False,
                'token_a': f'fill:{k}:a', 'token_b': f'fill:{k}:b', 'rollouts': 2, 'valid': True,
                **dict.fromkeys(('created_ns', 'seen_ns', 'ended_ns', 'accepted_ns'), k * 10**9),
                'revealed_ns': k, 'imported': True,
                'preference': 'TIE' if k % 7 == 0 else 'A' if win else 'B',
                'progress_a': 0.5, 'progress_b': 0.25, 'explanation': 'it was better',
                **dict.fromkeys(('invalid_reason', 'notes', 'notes_a', 'notes_b', 'lighting',
                                 'clutter', 'incomplete', 'conflict', 'nonce', 'commitment'), '')})
        for start_row in range(0, count, 5000):
            connection.execute(sa.insert(sessions), rows[start_row:start_row + 5000])
        log.append(connection, [(row['id'], '{}') for row in rows], 0)


def keep_reports(folder, sessions_each=400):
    """Keep a report on two policies, as long as one of 400 real sessions."""
    cited = iter(range(10**6))
    sections = tuple(ReportSection(title, tuple(
        Statement(f'{title}, statement {k}: it did what was asked.', citations=tuple(
            Citation(f'{next(cited) % 99_000:036}', 'it was better', 1.5) for _ in range(4)))
        for k in range(8))) for title in SECTIONS)
    with Database(f'sqlite:///{folder}/arena.db') as database:
        for name in ('policy-03', 'policy-04'):
            Reports(database, SystemClock()).add(name, sessions_each, 'statistics', json.dumps(
                report_to_json(PolicyReport(name, '2026-01-01', sessions_each, sections,
                                            CheckCounts(citations=288)))))


def processor_s(pid):
    """Return the processor time of a process so far, its threads together."""
    fields = Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def pages(address, rounds, pid):
    """Seconds of page loads, of each page and in turn, with its processor time at the server."""
    paths = ('/', '/matrix', '/evaluations', '/evaluations?text=drawer',
             '/evaluations?text=number+996', '/evaluations?policy=policy-03&outcome=A',
             '/evaluations?institution=lab+3&category=Find+%2F+Search', '/policies/policy-03',
             '/evaluations?before=50000000000000_', '/evaluations?text=nothing+like+this',
             f'/evaluations/{5:036}', '/api/evaluations?limit=100', '/categories/find-search',
             '/by/category', '/by/institution', '/versus?a=policy-03&b=policy-04',
             '/policies/policy-03/reports/1', '/reports/versus?a=policy-03&b=policy-04')
    spent, busy = {path: [] for path in paths}, dict.fromkeys(paths, 0.0)
    with httpx.Client(base_url=address, timeout=60.0) as client:
        for path in paths:
            client.get(path).raise_for_status()
        for path in paths:
            before = processor_s(pid)
            for _ in range(rounds):
                started = time.perf_counter()
                client.get(path).raise_for_status()
                spent[path].append(time.perf_counter() - started)
            busy[path] = (processor_s(pid) - before) / rounds
    return spent, busy


def line(what, value, unit, limit=None):
    mark = '' if limit is None else (
        f'limit {limit:g} {unit}: {"met" if value <= limit else "MISSED"}')
    print(f'{what:34} {value:10.2f} {unit:5} {mark}', flush=True)


def site(args, folder, address, pid):
    fill(folder, args.sessions)
    keep_reports(folder)
    started = time.perf_counter()
    httpx.get(address, timeout=120.0).raise_for_status()
    line(f'first standings of {args.sessions}', time.perf_counter() - started, 's')
    spent, busy = pages(address, 20, pid)
    for path, its in spent.items():
        print(f'{1e3 * float(np.percentile(its, 95)):9.1f} ms p95 {1e3 * busy[path]:8.1f} ms '
              f'processor  {path}')
    every, slow = np.concatenate(list(spent.values())), max(
        float(np.percentile(its, 95)) for its in spent.values())
    line('site p95, all pages', 1e3 * float(np.percentile(every, 95)), 'ms', LIMITS['site p95'])
    line('site p95, slowest page', 1e3 * slow, 'ms', LIMITS['site p95'])
    line('processor, slowest page', 1e3 * max(busy.values()), 'ms')
