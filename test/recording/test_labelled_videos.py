"""Labels of real episodes: published videos, a lab's own table, its page, and training on it."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import numpy as np
import pytest
from sample_episodes import SampleEpisode, SampleMaker
from scipy.stats import spearmanr
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from arena_robot.audit.bench import JudgedEnd, end_scores
from arena_robot.audit.local import labelled as labelled_module
from arena_robot.audit.local.judge import LocalJudge
from arena_robot.audit.local.labelled import LeftOut, left_out_numbers
from arena_robot.audit.local.model import LABEL_BARS, FrameFeatures, read_model
from arena_robot.audit.local.train import Learned
from arena_robot.cli.main import main
from arena_robot.core.clock import SystemClock
from arena_robot.core.errors import Conflict, DataError
from arena_robot.core.jpeg import to_jpeg
from arena_robot.recording.episode.clip import read_clip
from arena_robot.recording.episode.frames import rgb_frame, write_video
from arena_robot.recording.formats.labelled_videos import MOST_FRAMES, read_labelled_videos
from arena_robot.records.clip import EpisodeLabel, StageMark, read_labels, write_labels
from arena_robot.trials.labelled import LabelledEpisode, record
from arena_robot.web.label_page import LabelDesk, create_page
from arena_robot.web.page_server import PageServer

GREY = np.full((48, 64, 3), 90, np.uint8)
TASK, PAGE_S = 'carry the red block to the right', 20.0
LONG = pytest.mark.skipif('ARENA_TEST_WALKS' not in os.environ,
                          reason='takes minutes: make walks')


def video(path, frames, fps=10):
    path.parent.mkdir(parents=True, exist_ok=True)
    write_video(path, [(round(k * 1e9 / fps), rgb_frame(frame)) for k, frame in enumerate(frames)],
                fps)
    return path


def test_labels_of_a_table_of_names_and_of_step_metrics(tmp_path):
    video(tmp_path / 'a.mp4', [GREY] * 5)
    (tmp_path / 'labels.csv').write_text('file,instruction,label\na.mp4,open it,suboptimal\n')
    video(tmp_path / 'put_the_cup_down_success.mp4', [GREY] * 5)
    video(tmp_path / 'nobody_said_how_it_went.mp4', [GREY] * 5)
    for name, done in (('Stack cube', 1), ('Hang mug', 0)):
        video(tmp_path / 'x' / name / 'episode.mp4', [GREY] * 5)
        (tmp_path / 'x' / name / 'step_metrics.csv').write_text(
            f'Step,StepProgress,EpisodeSuccess\n1,0.1,{done}\n2,0.7,{done}\n')
    found = {v.name: (v.instruction, v.label, v.published.tolist())
             for v in read_labelled_videos(tmp_path)}
    assert found == {
        'a': ('open it', 'suboptimal', []),
        'put_the_cup_down_success': ('put the cup down', 'success', []),
        'Stack cube': ('Stack cube', 'success', [0.1, 0.7]),
        'Hang mug': ('Hang mug', 'failure', [0.1, 0.7])}


def test_pictures_are_taken_at_even_times_and_the_last_one_always(tmp_path):
    frames = [np.full((48, 64, 3), 5 * k, np.uint8) for k in range(32)]
    video(tmp_path / 'go_success.mp4', frames)
    clip = read_labelled_videos(tmp_path)[0].clip(1.0)
    assert clip.times_s.tolist() == pytest.approx([0.0, 1.0, 2.0, 3.0, 3.1])
    assert [int(frame.mean()) for frame in clip.frames['left']] == pytest.approx(
        [0, 50, 100, 150, 155], abs=3)
    video(tmp_path / 'long_failure.mp4', [GREY] * (3 * MOST_FRAMES))
    long = next(v for v in read_labelled_videos(tmp_path) if v.label == 'failure').clip(0.1)
    assert MOST_FRAMES / 2 < len(long) <= MOST_FRAMES + 1
    assert long.times_s[-1] == pytest.approx((3 * MOST_FRAMES - 1) / 10)


def test_of_a_drawing_the_cameras_picture_is_taken(tmp_path):
    drawing = np.full((70, 400, 3), 255, np.uint8)
    drawing[8:64, 60:110] = (30, 120, 40)
    drawing[2:5, 60:110:4] = 0        # a title
    for left in (150, 250, 350):      # axes of curves
        drawing[5:65, left] = 0
        drawing[40, left:left + 40] = (200, 0, 0)
    video(tmp_path / 'go_success.mp4', [drawing] * 3)
    picture = read_labelled_videos(tmp_path)[0].clip(0.1).frames['left'][0]
    assert abs(picture.shape[0] - 56) <= 5    # the codec blurs edges
    assert abs(picture.shape[1] - 50) <= 5
    assert picture[:, :, 1].mean() > 100


@pytest.mark.parametrize(('files', 'words'), [
    ({}, 'no labelled videos'), ({'labels.csv': 'file,label\n'}, 'no column instruction'),
    ({'labels.csv': 'file,instruction,label\nb.mp4,x,success\n'}, 'is missing'),
    ({'labels.csv': 'file,instruction,label\nb.mp4,x,fine\n'}, "the label 'fine'"),
    ({'step_metrics.csv': 'StepProgress,EpisodeSuccess\n'}, 'no episode.mp4')])
def test_what_a_folder_lacks_is_said(tmp_path, files, words):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=words):
        read_labelled_videos(tmp_path)
    with pytest.raises(DataError, match='no folder'):
        read_labelled_videos(tmp_path / 'none')


def test_scores_of_ends_are_those_of_all_pairs():
    rng = np.random.default_rng(3)
    rows = [JudgedEnd(f'task {k % 5}', int(rng.integers(3)), rng.random(9).round(1), True,
                      rng.random(6)) for k in range(40)]
    rows += [JudgedEnd('task 0', 2, np.zeros(0))]
    scores = {score.bin: score for score in end_scores(rows)}
    for name, asked in (('successes', lambda a, b: a.label == 2 and b.label < 2), (
            'same task', lambda a, b: a.label > b.label and a.instruction == b.instruction)):
        wins = [1.0 if a.phi[-1] > b.phi[-1] else 0.5 if a.phi[-1] == b.phi[-1] else 0.0
                for a in rows[:-1] for b in rows[:-1] if asked(a, b)]
        assert scores[name].accuracy == pytest.approx(np.mean(wins))
        assert scores[name].count == len(wins)
        assert scores[name].low < scores[name].accuracy < scores[name].high
    at = np.linspace(0, 1, 6)
    assert scores['curves'].accuracy == pytest.approx(np.mean([
        spearmanr(np.interp(at, np.linspace(0, 1, 9), row.phi), row.published).statistic
        for row in rows[:-1]]))


def test_a_judge_is_measured_on_labelled_videos(tmp_path, capsys):
    rng = np.random.default_rng(0)
    still = rng.integers(0, 255, (48, 64, 3), np.uint8)
    for task in ('open_it', 'close_it'):
        moved = np.roll(still, 20, axis=1)
        video(tmp_path / f'{task}_success.mp4', [still] * 5 + [moved] * 5)
        video(tmp_path / f'{task}_failure.mp4', [still] * 10)
    words = ['judge', 'bench', '--real', str(tmp_path), '--judge', 'start_distance']
    assert main([*words, '--json']) == 0
    report = json.loads(capsys.readouterr().out)
    assert report['labels'] == {'failure': 2, 'suboptimal': 0, 'success': 2}
    rows = {row['judge']: row for row in report['rows']}
    assert rows['start_distance']['scores']['same task']['accuracy'] == 1.0
    assert rows['elapsed']['scores']['same task']['accuracy'] == 0.5
    assert len(rows['goal_distance']['silent']) == 4
    assert main(words) == 0
    assert 'silent 4, the first: ' in capsys.readouterr().out
    assert main([*words, '--pulse', 'x.json']) == 2
    assert 'give one of' in capsys.readouterr().err


class Filmed(SampleMaker):
    """A sample episode whose JPEGs, a tick each, are given by camera."""

    def __init__(self, prompt, jpegs, folders):
        super().__init__(SampleEpisode(steps=len(jpegs['left']), rate_hz=5.0, state_hz=20,
                                       prompt=prompt), folders)
        self.jpegs = jpegs

    def _jpeg(self, k, view):
        return np.frombuffer(self.jpegs[view.rsplit('_', 1)[0]][k], np.uint8)


def carried(shares):
    """Return JPEGs of a table on which a red block is carried to the right."""
    grain = np.random.default_rng(0).integers(60, 120, (9, 16, 3)).astype(np.uint8)
    table = grain.repeat(16, 0).repeat(16, 1)
    jpegs = []
    for share in shares:
        pixels = table.copy()
        x = round(10 + 200 * share)
        pixels[60:90, x:x + 30] = (204, 33, 31)
        jpegs.append(to_jpeg(pixels))
    return dict.fromkeys(('left', 'right', 'wrist'), jpegs)


@pytest.fixture
def episodes(tmp_path, message_folders):
    """Two sessions: in A the block is carried to the right, in B half way and back again."""
    rise = np.linspace(0, 1, 11)
    for session in ('s1', 's2'):
        for slot, shares in (('A', rise), ('B', np.r_[rise[:6], rise[4::-1]])):
            Filmed(TASK, carried(shares), message_folders).write(
                tmp_path / 'lab' / session / slot)
    return tmp_path / 'lab'


class Labeller:
    """A person who labels with nothing but the keyboard."""

    def __init__(self, browser, url):
        self.browser = browser
        browser.get(url)

    def keys(self, *keys):
        ActionChains(self.browser).send_keys(*keys).perform()

    def until(self, script, wanted):
        try:
            WebDriverWait(self.browser, PAGE_S, 0.05).until(
                lambda _: self.browser.execute_script(f'return {script}') == wanted)
        except Exception as error:
            found = self.browser.execute_script(f'return {script}')
            raise AssertionError(f'{script} is {found!r}, not {wanted!r}') from error

    def text(self, name):
        return self.browser.execute_script(f"return document.getElementById('{name}').textContent")

    def says(self, name, words):
        self.until(f"document.getElementById('{name}').textContent.includes("
                   f'{json.dumps(words)})', True)

    def opened(self, file):
        """Wait until an episode can be labelled: its videos have pictures."""
        self.says('file', file)
        self.until("document.querySelectorAll('video').length > 0 && [...document."
                   "querySelectorAll('video')].every((one) => one.readyState > 1)", True)

    def mark(self, time_s, key):
        """Go to an instant by steps of 1 s and 0.2 s, and press a key."""
        now = self.browser.execute_script('return Number(document.getElementById("time").value)')
        steps = round((time_s - now) / 0.2)
        way = Keys.ARROW_RIGHT if steps > 0 else Keys.ARROW_LEFT
        chain = ActionChains(self.browser).key_down(Keys.SHIFT)
        for _ in range(abs(steps) // 5):
            chain.send_keys(way)
        chain.key_up(Keys.SHIFT)
        for _ in range(abs(steps) % 5):
            chain.send_keys(way)
        chain.perform()
        before = self.marks()
        self.keys(key)
        self.until('document.querySelectorAll("#marks span").length', before + 1)

    def marks(self):
        return self.browser.execute_script(
            'return document.querySelectorAll("#marks span").length')


@contextmanager
def page(folder, browser):
    with LabelDesk(folder, SystemClock()) as desk, PageServer(
            lambda token, hosts: create_page(desk, token, hosts), '127.0.0.1', 0) as server:
        yield Labeller(browser, server.url)
        browser.get('about:blank')


def label_first_session(person):
    """Label s1 with errors that are refused or taken back; the second time with the next stage."""
    person.opened('1: s1/A')
    assert TASK in person.text('instruction')
    person.until('document.activeElement.id', 'stages')
    person.keys(Keys.ESCAPE, 't', 'carry it', Keys.ENTER)
    person.keys('e', 'half way, there', Keys.ENTER)
    person.says('now', 'next: half way')
    person.keys('s')
    person.says('problem', "'there' has no time yet")
    person.mark(1.0, Keys.ENTER)
    person.mark(1.8, '2')
    person.keys('s')
    person.says('count', '1 of 4 labelled')
    person.keys('u')
    person.says('count', '0 of 4 labelled')
    person.keys('u')
    person.until('document.querySelectorAll("#marks span").length', 1)
    person.mark(1.8, Keys.ENTER)
    person.keys('s')
    person.says('count', '1 of 4 labelled, ')
    assert 'an hour' in person.text('count')
    person.keys('c', 'table by the window', Keys.ENTER)
    person.keys('n')
    person.opened('2: s1/B')
    person.until('document.getElementById("scene").value', 'table by the window')
    person.until('document.getElementById("stages").value', '')
    person.keys(Keys.ESCAPE, 't', 'carry it', Keys.ENTER)
    person.until('document.getElementById("stages").value', 'half way, there')
    label_return(person)
    person.says('count', '2 of 4 labelled')


def label_return(person):
    person.mark(1.0, '1')
    person.mark(1.8, '0')
    person.keys('f')


def test_a_lab_labels_by_keys_and_goes_on_after_a_restart(episodes, browser):
    with page(episodes, browser) as person:
        label_first_session(person)
    kept = read_labels(episodes)
    assert kept['s1/A'] == EpisodeLabel(
        's1/A', TASK, 'success', 'table by the window', 'carry it', ('half way', 'there'),
        (StageMark(1.0, 1), StageMark(1.8, 2)))
    assert kept['s1/B'].label == 'failure'
    with page(episodes, browser) as person:
        person.opened('3: s2/A')
        person.says('count', '2 of 4 labelled')
        person.keys(Keys.ESCAPE, 't', 'carry it', Keys.ENTER)
        person.until('document.getElementById("stages").value', 'half way, there')
        person.keys(' ')
        person.until("document.querySelector('video').currentTime > 0.3", True)
        person.keys(' ')
        person.mark(1.0, Keys.ENTER)
        person.mark(1.8, Keys.ENTER)
        person.keys('s', 'n')
        person.opened('4: s2/B')
        person.keys(Keys.ESCAPE, 't', 'carry it', Keys.ENTER)
        person.until('document.getElementById("stages").value', 'half way, there')
        label_return(person)
        person.says('count', '4 of 4 labelled')
    assert {row.scene for row in read_labels(episodes).values()} == {
        'table by the window', 'sample 2026-09-21'}


def test_a_judge_is_trained_on_labels_and_shows_its_scenes_left_out(
        episodes, capsys, monkeypatch):
    marks = {'A': (StageMark(1.0, 1), StageMark(1.8, 2)), 'B': (StageMark(1.0, 1),
                                                                StageMark(1.8, 0))}
    write_labels(episodes, {file: EpisodeLabel(
        file, TASK, 'success' if file[-1] == 'A' else 'failure', file[:2], '',
        ('half way', 'there'), marks[file[-1]]) for file in ('s1/A', 's1/B', 's2/A', 's2/B')})
    monkeypatch.setattr(labelled_module, 'BEGUN_STEPS', 10)
    model = episodes / 'model.npz'
    words = ['judge', 'train', '--labels', str(episodes), '--out', str(model)]
    assert main(words) == 0
    said = capsys.readouterr().out
    for text in ('4 episodes of 2 scenes, each scene judged by networks that did not see it',
                  'last Φ of 2 successes', 'last Φ of 2 failures', 'AUC of success', 'rises seen',
                  'in the interval of 90 %', 'not calibrated here', 'scenes 2 of 5'):
        assert text in said, said
    trace = LocalJudge(str(model)).progress(read_clip(episodes / 's1' / 'A'))
    assert trace.valid
    assert not trace.calibrated
    assert 'its labels showed too little' in trace.detail
    assert main(['judge', 'bench', '--real', str(episodes), '--json']) == 0
    assert json.loads(capsys.readouterr().out)['labels']['success'] == 2
    assert main([*words, '--whole', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['left_out']['scenes'] == 2
    assert read_model(model).card.whole
    whole = LocalJudge(str(model)).progress(read_clip(episodes / 's1' / 'A'))
    assert np.abs(whole.phi - trace.phi).max() > 0.001, 'it looks at other pixels'
    assert main(['judge', 'train', 'clips', '--whole', '--out', str(model)]) == 2
    assert '--whole goes with --labels' in capsys.readouterr().err
    assert main(['judge', 'train', '--out', str(model)]) == 2
    assert 'give one of FOLDER' in capsys.readouterr().err
    (episodes / 'labels.csv').unlink()
    assert main(['judge', 'train', '--labels', str(episodes), '--out', str(model)]) == 2
    assert 'begin with `arena judge label`' in capsys.readouterr().err


KINDS = {'cube_in_bowl': ('grasped', 'in the bowl', 'expert', 'stop', 'expert', 'undo', 'expert'),
         'open_drawer': ('half open', 'open', 'stop', 'expert', 'undo', 'expert', 'stop')}


def label_by_truth(person, clip, stages):
    """Label an episode as somebody who sees when half and all of the task is done, or undone."""
    person.keys(Keys.ESCAPE, 't', clip.source.task, Keys.ENTER)
    person.until('[document.getElementById("task").value, document.activeElement.tagName]', [
        clip.source.task, 'BODY'])
    if not person.browser.execute_script('return document.getElementById("stages").value'):
        person.keys('e', ', '.join(stages), Keys.ENTER)
    person.says('now', f'next: {stages[0]}')
    stage = 0
    for time_s, phi in zip(clip.times_s, clip.phi, strict=True):
        seen = 2 if phi > 0.99 else 1 if phi > (0.25 if stage else 0.5) else 0
        if seen != stage:
            person.mark(time_s, str(seen))
        stage = seen
    person.keys('s' if stage == 2 else 'f')
    return stage


@LONG
def test_ten_simulated_episodes_are_labelled_and_trained_on_within_an_hour(
        tmp_path, message_folders, browser, capsys):
    begun, clips = time.monotonic(), {}
    for scene in range(5):
        for slot, (task, (_, _, *kinds)) in zip('AB', KINDS.items(), strict=True):
            clip = record(LabelledEpisode(task, 950 + scene, kinds[scene]))
            clips[f'scene{scene}/{slot}'] = clip
            Filmed(clip.source.instruction, clip.pictures, message_folders).write(
                tmp_path / f'scene{scene}' / slot)
    made = time.monotonic()
    with page(tmp_path, browser) as person:
        for number, (file, clip) in enumerate(clips.items(), 1):
            person.opened(f'{number}: {file}')
            label_by_truth(person, clip, KINDS[clip.source.task][:2])
            person.keys('c', file.split('/')[0], Keys.ENTER)
            person.says('count', f'{number} of 10 labelled')
            person.keys('n')
    labelled = time.monotonic()
    labels = read_labels(tmp_path)
    for file, clip in clips.items():
        assert (labels[file].label == 'success') == clip.source.success
        assert np.abs(labels[file].progress(clip.times_s) - clip.phi).mean() < 0.25
    words = ['judge', 'train', '--labels', str(tmp_path), '--out', str(tmp_path / 'm.npz')]
    assert main(words) == 0
    over = time.monotonic()
    said = capsys.readouterr().out
    assert '10 episodes of 5 scenes' in said
    with capsys.disabled():
        sys.stdout.write(f'\n{said}made in {made - begun:.0f} s, labelled in '
                         f'{labelled - made:.0f} s, trained in {over - labelled:.0f} s\n')
    assert over - begun < 3600.0


def test_the_verb_serves_the_page_until_a_signal(episodes, tmp_path):
    command = [sys.executable, '-m', 'arena_robot.cli.main', 'judge', 'label', str(episodes)]
    with subprocess.Popen([*command, '--port', '0'], stdout=subprocess.PIPE, text=True) as process:
        try:
            said = process.stdout.readline()
            assert said.startswith('4 episodes; the page: http://localhost:')
            with urllib.request.urlopen(f'{said.split()[-1]}api/state', timeout=PAGE_S) as answer:
                assert json.load(answer)['total'] == 4
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(PAGE_S) == 0
    with pytest.raises(DataError, match='has no episodes'):
        LabelDesk(tmp_path / 'none', SystemClock())


def test_the_progress_of_a_label_rises_to_each_stage_and_falls_where_it_was_lost():
    label = EpisodeLabel('e', 'x', stages=('a', 'b'), marks=(
        StageMark(2.0, 1), StageMark(4.0, 2), StageMark(6.0, 0)))
    at = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.5, 5.75, 6.0, 9.0])
    assert label.progress(at).tolist() == [0, .25, .5, .75, 1, 1, .5, 0, 0]
    assert not EpisodeLabel('e', 'x', stages=('a',)).progress(at).any()
    with pytest.raises(DataError, match='have no names'):
        EpisodeLabel('e', 'x').progress(at)
    for press, words in (('success', 'has no time yet'), ('fine', 'none of failure')):
        with pytest.raises(Conflict, match=words):
            label.judged(press)
    with pytest.raises(Conflict, match='is reached at the end'):
        dataclasses.replace(label, marks=label.marks[:2]).judged('failure')
    with pytest.raises(Conflict, match='0 to 2, not 3'):
        label.marked(1.0, 3)
    assert label.marked(2.0, 2).marks[0] == StageMark(2.0, 2)


@pytest.mark.parametrize(('row', 'words'), [
    ('e,x,success,,a;b,1.0', 'SECONDS:STAGE'), ('e,x,success,,a;b,1.0:3', 'none of the 2 stages'),
    ('f,x,success,,,', 'is missing')])
def test_a_table_of_labels_that_cannot_be_read_names_the_line(tmp_path, row, words):
    (tmp_path / 'e').mkdir()
    (tmp_path / 'labels.csv').write_text(f'file,instruction,label,scene,stages,marks\n{row}\n')
    with pytest.raises(DataError, match=f'line 2: .*{words}'):
        read_labels(tmp_path)


def test_labels_survive_the_disk(tmp_path):
    (tmp_path / 'e').mkdir()
    label = EpisodeLabel('e', '=put it, "there"', '', 'a, b', 'put', ('on it', 'in it'), (
        StageMark(1.25, 1), StageMark(3.5, 2)))
    write_labels(tmp_path, {'e': label})
    assert read_labels(tmp_path) == {'e': label}


def said_of(scene, phi, said, success):
    """Return what networks said of an episode; nothing but its numbers is looked at."""
    block = np.zeros((len(phi), 1, 1, 1), np.float32)
    clip = Learned('t', 't', success, np.array(phi), FrameFeatures(
        block, block, block, (block[:1],) * 3), {}, np.arange(len(phi)) * 0.4, scene)
    return LeftOut(clip, np.array(said), (float(scene),))


def test_the_numbers_of_scenes_left_out_are_those_of_every_frame():
    rise, flat = np.linspace(0, 1, 8), np.zeros(8)
    seen = [said_of(0, rise, rise, True), said_of(1, rise, 0.4 * rise, True),
            said_of(2, flat, flat + 0.3, False), said_of(3, flat, flat + 0.45, False)]
    numbers = left_out_numbers(seen)
    assert (numbers['scenes'], numbers['successes'], numbers['failures']) == (4, 2, 2)
    assert numbers['auc'] == 0.75, 'one success ends above both failures, one above one of them'
    assert numbers['rises'] == pytest.approx(11 / 12), 'what is scaled above 1 rises no more'
    assert numbers['rises_count'] == 12
    assert numbers['falls_count'] == 0
    assert 0.25 < numbers['error'] < 0.35
    assert numbers['familiar'] == 0.75, 'the last one is farther away than the others'
    assert numbers['clock_error'] == pytest.approx(0.25)
    assert 0.5 <= numbers['coverage'] < 1.0
    assert left_out_numbers([])['episodes'] == 0


def test_a_model_of_labels_is_calibrated_once_every_bar_is_reached():
    shipped = LocalJudge().model.card
    assert shipped.lacking == []
    every = {**LABEL_BARS, 'error': 0.1}
    assert dataclasses.replace(shipped, left_out=every).lacking == []
    for name in LABEL_BARS:
        (why,) = dataclasses.replace(shipped, left_out={**every, name: 0.5}).lacking
        assert f'{name} 0.5 of' in why
    (why,) = dataclasses.replace(shipped, left_out={**every, 'error': 0.3}).lacking
    assert 'error 0.3' in why
