"""
The page of a study that has ended: what may be said, then everything that it rests on.

It needs no other files but the clips of the trials, which lie in the study's folder.
"""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

import arena_robot
from arena_robot.blind.compare import points, signed
from arena_robot.blind.results import (
    LEAST_EVALUATORS,
    Contrast,
    StudyResult,
    contrast,
    matched_blocks,
)
from arena_robot.blind.study import DecisionRule, Stopping, Unit
from arena_robot.blind.trials import StudyRecord, TrialResult
from arena_robot.core.clock import to_iso
from arena_robot.core.errors import DataError
from arena_robot.core.files import write_text
from arena_robot.core.wilson import wilson

TEMPLATES = Path(__file__).parent / 'templates'
HUMAN = 'a person, by hand'
NOT_HIDDEN = ('What nobody can hide: whoever has the seed, or watches the GPU machines, their '
              'network or the time of their answers, can tell the policies apart; and a person at '
              'the robot may recognise a policy by how it moves.')


def write_study_report(result: StudyResult, path: Path, folder: Path | None = None) -> Path:
    """
    Write the page and return its path. Raises DataError when it cannot be written.

    ``folder`` is that of the study with its clips; the page's own if None.
    """
    made = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True,
                              undefined=jinja2.StrictUndefined, trim_blocks=True,
                              lstrip_blocks=True)
    made.filters.update(signed=signed, percent=lambda x: f'{100 * x:.0f}', place=_place)
    page = made.get_template('study_report.html').render(
        study=result.study,
        sentences=[_emphasised(words, result.study.name) for words in result.sentences()],
        rows=interval_rows(result),
        tables=share_tables(result), arms=arm_rows(result),
        trials=trial_rows(result, folder or path.parent, path.parent),
        deviations=deviations(result), blind=blind_words(result.record),
        version=arena_robot.__version__, sha256=result.record.versions[-1].sha256,
        many=len(result.study.contrasts()) > 1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, page)
    except OSError as error:
        raise DataError(f'the report cannot be written to {path}: {error}') from error
    return path


def _emphasised(sentence: str, name: str) -> Markup:
    """Return a sentence as HTML; the study's name between asterisks is set in italics."""
    return escape(sentence).replace(f'*{escape(name)}*', Markup('<em>{}</em>').format(name))


def _place(share: float) -> str:
    """Return where a difference from -1 to 1 stands on a scale of 400 pixels."""
    return f'{200 + 200 * max(-1.0, min(1.0, share)):.1f}'


def interval_rows(result: StudyResult) -> list[dict[str, Any]]:
    """Return a row for each contrast, and below it one for each of its start conditions."""
    study, rows = result.study, []
    plain = DecisionRule(study.decision.measure, level=study.decision.level)
    for c in result.contrasts:
        rows.append(_interval_row(f'{c.first} − {c.second}', c, result, True))
        for condition in study.conditions if len(study.conditions) > 1 else ():
            blocks = matched_blocks([r for r in result.results if r.condition == condition.name],
                                    c.first, c.second, plain.measure)
            part = contrast(blocks, c.first, c.second, plain, plain.level)
            rows.append(_interval_row(condition.name, part, result, False, part.first != c.first))
    return rows


def _interval_row(label: str, c: Contrast, result: StudyResult, main: bool,
                  turned: bool = False) -> dict[str, Any]:
    sign = -1 if turned else 1
    interval = c.interval and (c.interval if not turned else (-c.interval[1], -c.interval[0]))
    counts = c.counts(result.study.decision.measure)
    return {'label': label, 'main': main, 'blocks': len(c.blocks), 'interval': interval,
            'difference': sign * c.difference, 'words': points(*interval) if interval else
            'no interval', 'counts': f'{c.first}: {counts}' if turned else counts,
            'p': f'{c.p_value:.3g}' if main else ''}


def arm_rows(result: StudyResult) -> list[dict[str, Any]]:
    """Return what became of each arm's trials, and of a person's."""
    rows = []
    for name in [*(arm.name for arm in result.study.arms), HUMAN]:
        trials = [r for r in result.results if not r.void
                  and (r.human if name == HUMAN else not r.human and r.arm == name)]
        if trials:
            times = sorted(r.time_to_success_s for r in trials if r.time_to_success_s is not None)
            progress = [r.progress for r in trials if r.progress is not None]
            rows.append({
                'name': name, 'human': name == HUMAN, **_share(trials),
                'progress': math.fsum(progress) / len(progress) if progress else None,
                'time': times[len(times) // 2] if times else None,
                'interventions': sum(r.interventions for r in trials),
                'intervention_s': math.fsum(r.intervention_s for r in trials),
                'stages': _counts(r.stage for r in trials),
                'tags': _counts(tag for r in trials for tag in r.failure_tags)})
    return rows


def _counts(words: Iterable[str]) -> str:
    return ', '.join(f'{word} {n}' for word, n in Counter(filter(None, words)).most_common())


def _share(trials: list[TrialResult]) -> dict[str, Any]:
    """Return trials, successes and Wilson's interval of the success rate."""
    judged = [r for r in trials if r.success is not None]
    successes = sum(bool(r.success) for r in judged)
    low, high = wilson(successes, len(judged))
    return {'trials': len(judged), 'successes': successes, 'low': low, 'high': high}


def share_tables(result: StudyResult) -> list[dict[str, Any]]:
    """Return success rates by evaluator, slot and half of the study, over all policies."""
    counted = [r for r in result.results if r.counts]
    late = {id(r) for r in counted[len(counted) // 2:]}
    groupings: dict[str, Callable[[TrialResult], str]] = {
        'evaluator': lambda r: r.evaluator or 'no name', 'slot': lambda r: r.slot,
        'half of the study': lambda r: 'second' if id(r) in late else 'first'}
    return [{'title': title, 'rows': [
        {'name': name, **_share([r for r in counted if key(r) == name])}
        for name in sorted({key(r) for r in counted})]} for title, key in groupings.items()]


def trial_rows(result: StudyResult, folder: Path, page: Path) -> list[dict[str, Any]]:
    """Return every trial, those that do not count too, with its clip's path from the page."""
    return [{'r': r, 'arm': HUMAN if r.human else r.arm,
             'when': to_iso(r.started_ns)[:16].replace('T', ' ') if r.started_ns else '',
             'success': {None: '–', True: 'yes', False: 'no'}[r.success],
             'preference': r.preference.value if r.preference else '',
             'words': '; '.join(filter(None, (
                 f'void: {r.void}' if r.void else '', *r.failure_tags, r.reason,
                 f'interventions: {r.interventions}' if r.interventions else ''))),
             'clip': Path(os.path.relpath(folder / r.clip, page)).as_posix()
             if r.clip and (folder / r.clip).is_file() else ''}
            for r in result.results]


def deviations(result: StudyResult) -> list[str]:
    """Return in words what was not done as it was declared; an empty list is a good study."""
    record, rule, words = result.record, result.study.decision, []
    if not record.sealed_first:
        words.append('Study and seed were not in the journal before the first trial.')
    if record.fits() is False:
        words.append('The revealed seed is not the one whose hash is in the journal.')
    if record.ended_early:
        words.append(f'The study ended before its last trial: {record.ended_early}.')
    if record.after_reveal:
        words.append(f'Results that were entered after the reveal: {record.after_reveal}.')
    words += [f'Version {k} was declared after {v.trials} trials: {v.reason}'
              for k, v in enumerate(record.versions[1:], 2)]
    void = [r for r in record.results if r.void and not r.human]
    if void:
        words.append(f'Trials that were void and run again: {len(void)} '
                     f'({_counts(r.void for r in void)}).')
    if record.undone:
        words.append(f'Results that were taken back and entered again: {len(record.undone)}.')
    order = [(r.version, r.trial) for r in record.results if r.counts]
    if order != sorted(order):
        words.append('The trials were not run in the order of the schedule.')
    planned = result.study.blocks_per_contrast()
    for c in result.contrasts:
        ended = rule.stopping is Stopping.SEQUENTIAL and c.decided_after
        if len(c.blocks) < planned and not ended:
            words.append(f'{len(c.blocks)} of {planned} blocks of {c.first} and {c.second} count; '
                         'the stated level holds only if the end did not depend on the results.')
    people = {r.evaluator for r in record.results if r.counts}
    if rule.unit is Unit.EVALUATOR and len(people) < LEAST_EVALUATORS:
        words.append(f'Evaluators who took part: {len(people)}; with fewer than '
                     f'{LEAST_EVALUATORS} no result by evaluator can reach a level of 5 %.')
    return words


def blind_words(record: StudyRecord) -> list[str]:
    """Return in words what was blind, and what was not."""
    sealed = 'before the first trial' if record.sealed_first else 'too late'
    fits = {True: 'the revealed seed fits it', False: 'the revealed seed does not fit it',
            None: 'it was not revealed'}[record.fits()]
    by_hand = sum(r.human and not r.void for r in record.results)
    words = [f'Trials that a person ran by hand: {by_hand}. They were not blind, and are in no '
             'comparison.'] if by_hand else []
    return ['The journal of the trials names slots; which policy was in a slot follows from the '
            'seed, which was revealed at the end.',
            f'The hash of the seed was fixed {sealed}, and {fits}. The order of the trials can be '
            'made again from study and seed.', *words, NOT_HIDDEN]
