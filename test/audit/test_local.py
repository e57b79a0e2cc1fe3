"""The local judge: instructions, training, the picture test, the shipped model."""

import dataclasses
import json
import re

import numpy as np
import pytest

from arena_robot.audit.base import Pair, refusals
from arena_robot.audit.judges import make_judge
from arena_robot.audit.local import train as train_module
from arena_robot.audit.local.features import (
    colour_maps,
    colours_in,
    counterfactual,
    table,
    trunk_features,
)
from arena_robot.audit.local.judge import SURE, LocalJudge, TaskMatcher, shipped
from arena_robot.audit.local.model import (
    BARS,
    METRIC_BARS,
    FrameFeatures,
    Scale,
    forward,
    frame_features,
    read_model,
    with_past,
    write_model,
)
from arena_robot.audit.local.train import (
    Learned,
    backward,
    initial,
    learned,
    pooled_head,
    shown,
    train,
)
from arena_robot.cli.main import main
from arena_robot.core.errors import DataError
from arena_robot.core.jpeg import to_jpeg
from arena_robot.drivers.sim.station import SimStation, make_task
from arena_robot.drivers.sim.tasks import TASKS
from arena_robot.records.clip import (
    SUFFIX,
    Clip,
    ClipSource,
    LabelledClip,
    read_clip,
    write_clip,
)

rng = np.random.default_rng(0)
BACKGROUND = rng.integers(60, 120, (9, 16, 3)).astype(np.uint8).repeat(16, 0).repeat(16, 1)


def picture(share):
    """Return a table on which a red block is carried to the right."""
    pixels = BACKGROUND.copy()
    x = round(10 + 200 * share)
    pixels[60:90, x:x + 30] = (204, 33, 31)
    return pixels


def made(seed, phi):
    source = ClipSource(f'c{seed}', 'carry the red block to the right', 'carry', seed,
                        success=bool(phi[-1] > 0.9))
    jpegs = [to_jpeg(picture(p)) for p in phi]
    return LabelledClip(source, np.arange(len(phi)) * 0.2, np.array(phi),
                        {'left': jpegs, 'right': jpegs})


@pytest.fixture(scope='module')
def clips():
    random = np.random.default_rng(1)
    return [made(k, np.clip(np.linspace(0, end, 12) + random.normal(0, .02, 12), 0, 1)
                 * np.r_[0, np.ones(11)])
            for k, end in enumerate((1, 1, .5, .7, 1, .2))]


def test_training_writing_and_judging(clips, tmp_path, capsys):
    for clip in clips[:5]:
        write_clip(tmp_path / f'{clip.source.name}{SUFFIX}', clip)
    path = tmp_path / 'model.npz'
    assert main(['judge', 'train', str(tmp_path), '--scenes', '0', '--out', str(path),
                 '--json']) == 0
    card = json.loads(capsys.readouterr().out)
    assert card['episodes'] == 5
    assert list(card['seconds']) == ['making clips', 'features', 'networks']
    assert card['seconds']['networks']['processor'] > 0.1
    assert card['quality']['error'] < 0.15
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_module, 'LEAST_BATCHES', 3)
        assert main(['judge', 'train', str(tmp_path), '--scenes', '0', '--out',
                     str(tmp_path / 'short.npz')]) == 0
    assert re.search(r'making clips 0 s \(\d+ s of processor\); features \d+ s .*; networks .*; '
                     r'training without the clips \d+ s', capsys.readouterr().out)
    judge = make_judge('local', {'model': str(path)})
    back = made(9, [0, .2, .4, .6, .8, 1, .8, .6, .4, .2, .1])
    trace = judge.progress(back.clip())
    assert trace.valid
    assert trace.calibrated, trace.detail
    assert np.abs(trace.phi - back.phi).mean() < 0.15
    assert trace.phi[-1] < trace.phi[5] - 0.3
    pair = Pair('carry the red block to the right', *(
        {v: picture(p) for v in ('left', 'right')} for p in (0.2, 0.8)))
    assert judge.compare(pair) > 0.2


def test_training_is_decided_by_the_clips_and_the_seed(clips, tmp_path, monkeypatch):
    monkeypatch.setattr(train_module, 'LEAST_BATCHES', 3)
    rows = [learned(clip) for clip in clips]
    first, two = train(rows, 3, 1), train(rows, 3, 1)
    for one, other in zip(first.networks, two.networks, strict=True):
        for name, weights in one.weights.items():
            assert np.array_equal(weights, other.weights[name]), name
    assert first.card == two.card
    write_model(tmp_path / 'm.npz', first)
    stored = read_model(tmp_path / 'm.npz')
    assert stored.views == first.views
    with pytest.raises(DataError, match='two episodes'):
        train(rows[:1])
    (tmp_path / 'm.npz').write_bytes(b'PK not a model')
    with pytest.raises(DataError, match='no model'):
        read_model(tmp_path / 'm.npz')


def test_hops_of_a_new_task_are_learned_from_other_tasks():
    """Progress looks alike in all tasks; something else drifts with time in each episode."""
    random = np.random.default_rng(0)
    progress, drift = random.normal(size=(2, 60))

    def episode(task):
        phi = np.clip(np.cumsum(random.normal(.02, .08, 40)), 0, 1)
        seen = (np.outer(phi, progress) + np.outer(random.normal(0, 3) * np.arange(40) / 40, drift)
                + random.normal(0, .1, (40, 60))).astype(np.float32)[:, None, None]
        nothing = np.zeros((40, 1, 1, 0), np.float32)
        features = FrameFeatures(seen, nothing, nothing, (seen[:1], nothing[:1], nothing[:1]))
        return Learned(task, task, None, phi, features, {}, np.arange(40) * 0.4)
    rows = [episode(task) for task in 'abcd' for _ in range(5)]
    head, quality = pooled_head(rows[5:])
    assert min(quality['falls'], quality['rises']) > 0.7
    for row in rows[:5]:
        values = row.features.hops() @ head.weights + head.bias
        assert np.corrcoef(values, row.phi)[0, 1] > 0.95
    repeated, _ = pooled_head(rows[5:])
    assert np.array_equal(head.weights, repeated.weights)
    assert pooled_head(rows[:5])[1] == {}, 'one task leaves none to measure on'


def test_clips_survive_the_disk(clips, tmp_path):
    write_clip(tmp_path / 'a.clip.npz', clips[0])
    read = read_clip(tmp_path / 'a.clip.npz')
    assert read.source == clips[0].source
    assert read.pictures == clips[0].pictures
    assert np.array_equal(read.phi, clips[0].phi)
    (tmp_path / 'a.clip.npz').write_bytes(b'')
    with pytest.raises(DataError, match='not a clip'):
        read_clip(tmp_path / 'a.clip.npz')


def test_instructions_find_their_task():
    instructions = {name: [make_task(name, seed).setup.instruction for seed in range(24)]
                    for name in TASKS.built_in}
    matcher = TaskMatcher(instructions)
    for task in TASKS.built_in:
        for seed in range(100, 110):
            assert matcher.find(make_task(task, seed).setup.instruction)[0] == task
    assert matcher.find('put the red cube into the white bowl')[0] == 'cube_in_bowl'
    for unknown in ('fold the towel', 'pour water into the glass', 'touch the red cube',
                    'put the bowl in the red cube', 'do not put the red cube in the bowl',
                    'never press the button', 'put the plate on the cup',
                    'pick up the red cube and put it in the bowl', '', '???'):
        assert matcher.find(unknown)[1] < SURE, unknown


def test_colours():
    assert colours_in('Put the RED cube on the blue tray, the red one') == ['red', 'blue']
    looked_at = [table(picture(share), 'wrist') for share in (0.0, 1.0)]
    maps = colour_maps(looked_at, 'carry the red block')
    assert maps.shape == (2, 252, 2)
    where = maps[..., 0].reshape(2, 14, 18).sum(axis=1).argmax(axis=1)
    assert where[0] < 5
    assert where[1] > 12
    assert not maps[..., 1].any()
    assert [seen.shape for seen in trunk_features(looked_at)] == [(2, 63, 112), (2, 252, 40)]


def test_an_instruction_for_something_else():
    pixels = picture(0.0).copy()
    pixels[20:40, 150:180] = (31, 77, 191)
    seen = table(pixels, 'wrist')
    assert counterfactual('Lift the RED block', seen) == 'lift the blue block'
    assert counterfactual('put the red cube on the pink block', seen) \
        == 'put the pink cube on the red block'
    assert counterfactual('the red cube is under the pink cup', seen) == ''
    assert counterfactual('lift the red block', table(picture(0.0), 'wrist')) == ''
    assert counterfactual('the red cube on the red tray, the blue one on the blue', seen) == ''


def test_the_gradient_is_that_of_the_network():
    random = np.random.default_rng(4)
    weights = {name: block.astype(np.float64) for name, block in initial(2, 2, random).items()}
    shapes = (63, 112), (252, 40), (252, 2)
    now, start = ([random.normal(0, 4, (n, 2, *shape)) for shape in shapes]
                  for n in (4, 2))
    owner, task, kept = np.array([0, 0, 1, 1]), np.array([1, 0]), random.random((4, 192))
    wanted = random.random((4, 2))

    def loss():
        return ((forward(weights, now, start, task, owner, kept).out - wanted) ** 2).sum() / 2
    seen = forward(weights, now, start, task, owner, kept)
    gradient = backward(weights, seen, seen.out - wanted, now, start, task, owner, kept)
    assert set(gradient) == set(weights)
    for name, slope in gradient.items():
        place = np.unravel_index(np.abs(slope).argmax(), slope.shape)
        value, step = weights[name][place], 1e-5
        sides = []
        for weights[name][place] in (value - step, value + step):
            sides.append(loss())
        weights[name][place] = value
        assert (sides[1] - sides[0]) / (2 * step) == pytest.approx(slope[place], rel=1e-2), name


def test_what_no_picture_shows_comes_from_the_frames_before():
    times = np.arange(0.0, 8.0)
    pressed = shown('press_button', np.array([0, .4, 1, 1, 1, 1, 1, 1]), times * 0.3)
    assert pressed[2:4].tolist() == [[1, 1], [1, 1]]
    assert np.isnan(pressed[4:]).all()
    values = np.array([[.1, 0], [.3, .1], [.9, .8], [.2, .1], [.1, 0], [.1, 0], [.1, 0], [.1, 0]])
    assert with_past(values, 'press_button', times)[:, 0].tolist() == [.1, .3, 1, 1, 1, 1, 1, 1]
    still = np.ones((8, 2))
    assert with_past(still, 'do_not_move', times)[:, 0].tolist() == pytest.approx(
        [0, .2, .4, .6, .8, 1, 1, 1])
    still[3, 0] = 0.1
    assert not with_past(still, 'do_not_move', times)[3:].any()
    assert np.array_equal(with_past(values, 'lift_cube', times), values)


def test_a_model_is_trusted_with_what_the_bench_measured():
    card = LocalJudge().model.card
    every = {**BARS, **METRIC_BARS}
    for measured, trusted in (({}, ()), (every, ('evaluators', 'mc', 'str', 'sqs')),
                              ({**every, 'home': 0.5}, ('mc', 'str', 'sqs')),
                              ({**every, 'str': 0.1}, ('evaluators', 'mc'))):
        assert dataclasses.replace(card, measured=measured).trusted == trusted


def test_a_success_reaches_1_and_the_uncertainty_is_that_of_its_class():
    scale = Scale(0.75, (0.1, 0.4, 0.3, 0.2))
    assert scale.phi(np.array([0.2, 0.5, 0.75, 0.9])).tolist() == pytest.approx([.2, .5, 1., 1.])
    assert scale.half_width(np.array([0.0, 0.3, 1.0])).tolist() == [0.1, 0.4, 0.2]


def test_start_pictures_may_come_from_elsewhere():
    frames = {'wrist': [picture(p) for p in (0.2, 0.4)]}
    without_start = frame_features(frames, 'x', ['wrist'])
    with_start = frame_features(frames, 'x', ['wrist'], {'wrist': picture(0.0)})
    assert not without_start.hops()[0].any()
    assert with_start.hops()[0].any()
    assert np.array_equal(without_start.pooled(), with_start.pooled())


def test_the_shipped_model_says_what_it_does_not_know():
    judge = LocalJudge()
    assert shipped().stat().st_size < 20e6
    assert set(judge.model.card.tasks) == set(TASKS.built_in)
    views = {view: [picture(p) for p in np.linspace(0, 1, 6)] for view in ('left', 'right')}
    trace = judge.progress(Clip('put the red cube in the bowl', np.arange(6.0), views))
    assert trace.valid
    assert not trace.calibrated
    assert 'unlike those of its training' in trace.detail
    noise = {view: [rng.integers(0, 255, (144, 256, 3)).astype(np.uint8)] * 6 for view in views}
    assert not judge.progress(Clip('lift the red block', np.arange(6.0), noise)).calibrated
    assert 'needs the view' in judge.progress(
        Clip('x', np.arange(6.0), {'right': views['right']})).detail


def looked(station, steps=6):
    """Return the clip of a new rollout's first steps."""
    frames = {role: [] for role in station.cameras}
    for _ in range(steps):
        for role, camera in station.cameras.items():
            frames[role].append(camera.frame(5.0).left.pixels.copy())
        station.step(0.2)
    return Clip(station.instruction, np.arange(steps) * 0.2, frames)


def test_another_camera_pose_and_noise_are_not_calibrated():
    judge = LocalJudge()
    with SimStation.make('lift_cube', 300, cameras=('left', 'right'), size=(320, 180),
                         rate_hz=5.0, eyes=('left',)) as station:
        same = looked(station)
        assert judge.progress(same).calibrated, judge.progress(same).detail
        station.reset('lift_cube', 300)
        station.world.model.body('camera_right').pos += (0.15, 0.0, 0.2)
        moved = judge.progress(looked(station))
    assert not moved.calibrated
    assert 'has the camera moved?' in moved.detail
    noise = np.random.default_rng(3).normal(0.0, 60.0, (6, 180, 320, 3))
    spoilt = judge.progress(Clip(same.instruction, same.times_s, {role: [
        np.clip(p + n, 0, 255).astype(np.uint8) for p, n in zip(pictures, noise, strict=True)]
        for role, pictures in same.frames.items()}))
    assert not spoilt.calibrated
    assert 'unlike those of its training' in spoilt.detail
    for trace in (moved, spoilt):
        assert {'mp', 'mc', 'ppl'} <= set(refusals(judge.capabilities, trace))
