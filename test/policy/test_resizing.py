"""What a policy is shown: which cameras, under which names, at which size."""

from dataclasses import replace

import numpy as np
import PIL.Image
import pytest
from policy_samples import Noted, observation, photograph

from arena_robot.core.errors import PolicyRefused
from arena_robot.core.observation import VIEWS, DepthImage
from arena_robot.policy.base import PolicySpec, check_observation
from arena_robot.policy.grpc import wire
from arena_robot.policy.resizing import Resizing, exact, fast, shown
from arena_robot.server.relay.routes import turned

SIZES = [(224, 224), (180, 320), (256, 256), (288, 512), (336, 336), (96, 128)]
WANTED_DB = 35.0


def psnr(first, second):
    error = np.mean((first.astype(float) - second.astype(float)) ** 2)
    return np.inf if error == 0.0 else 10.0 * np.log10(255.0 ** 2 / error)


def reference(pixels, height, width):
    """What the reference client does, written down once more."""
    small = PIL.Image.fromarray(pixels).resize((512, 288), PIL.Image.LANCZOS)
    return np.asarray(small.resize((width, height), PIL.Image.LANCZOS))


@pytest.mark.parametrize('size', SIZES)
def test_exact_is_the_reference_bit_for_bit(size):
    pixels = photograph(seed=3)
    assert np.array_equal(exact(pixels, *size), reference(pixels, *size))


@pytest.mark.parametrize('size', SIZES)
@pytest.mark.parametrize('exponent', [1.1, 1.3])
def test_fast_is_close_to_the_reference_on_photographs(size, exponent):
    pixels = photograph(seed=5, exponent=exponent)
    assert psnr(fast(pixels, *size), reference(pixels, *size)) >= WANTED_DB


def test_fast_is_close_on_a_real_photograph():
    cbook = pytest.importorskip('matplotlib.cbook', reason='matplotlib holds the photograph')
    with cbook.get_sample_data('grace_hopper.jpg') as file, PIL.Image.open(file) as image:
        face = np.asarray(image.convert('RGB'))
    pixels = np.ascontiguousarray(np.tile(face, (2, 3, 1))[:720, :1280])
    for size in SIZES:
        assert psnr(fast(pixels, *size), reference(pixels, *size)) >= WANTED_DB


@pytest.mark.parametrize('source', [(360, 640), (480, 640), (288, 512), (721, 1283), (100, 100)])
def test_other_cameras_are_resized_too(source):
    pixels = photograph(*source, seed=1)
    made = fast(pixels, 224, 224)
    assert made.shape == (224, 224, 3)
    assert made.dtype == np.uint8
    assert psnr(made, reference(pixels, 224, 224)) >= 30.0


def test_a_uniform_image_keeps_its_colour():
    pixels = np.full((720, 1280, 3), (10, 200, 77), np.uint8)
    assert np.all(fast(pixels, 224, 224) == (10, 200, 77))


@pytest.mark.parametrize(('spec', 'views'), [
    (PolicySpec(), ('left_left', 'wrist_left')),
    (PolicySpec(external_cameras=2), ('left_left', 'right_left', 'wrist_left')),
    (PolicySpec(external_cameras=0), ('wrist_left',)),
    (PolicySpec(external_cameras=1, stereo=True, wrist_camera=False),
     ('left_left', 'left_right')),
    (PolicySpec(external_cameras=2, stereo=True), VIEWS),
    (PolicySpec(external_cameras=0, wrist_camera=False), ()),
])
def test_only_the_wanted_images_are_shown(spec, views, frames):
    made = shown(observation(frames), spec)
    assert tuple(made.images) == views
    assert all(image.pixels.shape == (224, 224, 3) for image in made.images.values())
    assert all(image.stamp_ns == 100 for image in made.images.values())


def test_one_external_camera_is_the_chosen_one(frames):
    made = shown(replace(observation(frames), third_person='right'), PolicySpec(resize='exact'))
    assert np.array_equal(made.images['left_left'].pixels,
                          reference(frames['right_left'], 224, 224))


def test_two_external_cameras_keep_their_places(frames):
    made = shown(replace(observation(frames), third_person='right'),
                 PolicySpec(external_cameras=2, resize='exact'))
    assert np.array_equal(made.images['left_left'].pixels,
                          reference(frames['left_left'], 224, 224))


def test_native_images_are_passed_on_untouched(frames):
    whole = observation(frames)
    made = shown(whole, PolicySpec(image_size=None))
    assert made.images['left_left'] is whole.images['left_left']


def test_images_that_fit_are_not_touched():
    whole = observation({name: np.zeros((224, 224, 3), np.uint8) for name in VIEWS})
    assert shown(whole, PolicySpec()).images['wrist_left'] is whole.images['wrist_left']


def test_a_camera_the_station_lacks_is_named(frames):
    station = {name: pixels for name, pixels in frames.items() if 'wrist' not in name}
    with pytest.raises(PolicyRefused, match="wants camera view 'wrist_left', this station shows"):
        shown(observation(station), PolicySpec())


def test_depth_reaches_a_policy_that_asks_for_it_and_no_other(frames):
    depths = {name: DepthImage(np.full((720, 1280), mm, np.uint16), 100)
              for name, mm in (('right_depth', 700), ('wrist_depth', 300))}
    depths['wrist_depth'].millimetres[:, 640:] = 60_000
    whole = replace(observation(frames), depths=depths, third_person='right')
    assert shown(whole, PolicySpec()).depths == {}
    spec = PolicySpec(depth=True)
    seen = wire.observation_from_bytes(wire.observation_to_bytes(shown(whole, spec), 90))
    check_observation(seen, spec)
    assert {name: (depth.millimetres.shape, set(np.unique(depth.millimetres)), depth.stamp_ns)
            for name, depth in seen.depths.items()} == {
        'left_depth': ((224, 224), {700}, 100),
        'wrist_depth': ((224, 224), {300, 60_000}, 100)}, 'no depth between two'
    assert tuple(seen.images) == spec.views()
    with pytest.raises(PolicyRefused, match="wants the depth 'left_depth', this station shows ri"):
        shown(replace(whole, third_person='left'), spec)
    with pytest.raises(PolicyRefused, match="depth 'left_depth' is missing; found none"):
        check_observation(replace(seen, depths={}), spec)


def test_resizing_is_a_policy(frames):
    inner = Noted()
    policy = Resizing(inner)
    assert policy.spec is inner.spec
    chunk = policy.infer(observation(frames), 'one')
    policy.reset('one')
    asked, episode = inner.asked[0]
    assert len(chunk) == 4
    assert asked.images['wrist_left'].pixels.shape == (24, 32, 3)
    assert (episode, inner.resets) == ('one', ['one'])


def test_channel_flips_and_crops_are_resized_like_copies():
    pixels = photograph(seed=8)
    view_of_it = pixels[10:-10, 5:-5, ::-1]
    assert np.array_equal(fast(view_of_it, 64, 64), fast(view_of_it.copy(), 64, 64))
    assert np.array_equal(exact(view_of_it, 64, 64), exact(view_of_it.copy(), 64, 64))


def test_closing_it_closes_the_inner_policy():
    closed = []
    inner = Noted()
    Resizing(inner).close()    # holds nothing
    inner.close = lambda: closed.append(True)
    Resizing(inner).close()
    assert closed == [True]


@pytest.mark.parametrize(('external', 'chosen', 'seen'), [
    (1, 'right', 'right'), (1, 'left', 'left'), (2, 'right', 'left')])
def test_a_relay_gives_a_policy_with_one_outside_camera_the_chosen_one(frames, external, chosen,
                                                                       seen):
    spec = PolicySpec(external_cameras=external, image_size=None)
    relayed = PolicySpec(external_cameras=2, image_size=(18, 32))
    sent = shown(replace(observation(frames), third_person=chosen), relayed, whole=False)
    message = wire.observation_message(wire.observation_to_bytes(sent))
    assert turned(message, spec) is (seen == 'right')
    [image] = [image for image in message.images if image.view == 'left_left']
    assert np.array_equal(wire.image_from_wire(image).pixels, sent.images[f'{seen}_left'].pixels)
