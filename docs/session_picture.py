"""
Draw a finished session as an animated picture: A and B side by side, then verdict and reveal.

  python docs/session_picture.py ~/arena/sessions/ID docs/img/session.webp
  python docs/session_picture.py ~/arena/sessions/ID strip.png --strip 6

The films must have been made (`arena episode derive`). With --strip N, N instants of the session
stand in one still picture instead.
"""

import argparse
import sys
from pathlib import Path

import av
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from arena_robot.reports.tournament_records import Record, RolloutRow, read_record

WIDTH, HEIGHT, GAP, HEAD, FOOT = 448, 252, 8, 40, 76
FRAMES_PER_S, FASTER = 7.5, 3.0
LAST_S = 4.5
PAPER, INK, PALE = (250, 250, 248), (30, 32, 36), (120, 124, 130)
COLOURS = {'A': (31, 110, 190), 'B': (200, 95, 30)}
FILM_HZ = 15.0


def film(rollout: RolloutRow, view: str) -> list[Image.Image]:
    """Return a rollout's frames at FRAMES_PER_S of the picture, FASTER than they were taken."""
    step = round(FILM_HZ * FASTER / FRAMES_PER_S)
    with av.open(str(rollout.videos[view])) as file:
        frames = [frame.to_ndarray(format='rgb24') for i, frame in
                  enumerate(file.decode(video=0)) if i % step == 0]
    return [Image.fromarray(frame).resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
            for frame in frames]


def text(draw: ImageDraw.ImageDraw, at: tuple[float, float], words: str, size: int,
         colour: tuple[int, int, int] = INK, anchor: str = 'lm') -> None:
    """Write ``words``."""
    draw.text(at, words, fill=colour, font=ImageFont.load_default(size), anchor=anchor)


def shortened(words: str, longest: int) -> str:
    """Return ``words`` cut at ``longest`` characters."""
    return words if len(words) <= longest else words[:longest - 1].rstrip() + '…'


def picture(record: Record, films: dict[str, list[Image.Image]], index: int,
            verdict: bool) -> Image.Image:
    """Return the picture of one instant; with scores, preference and names when ``verdict``."""
    page = Image.new('RGB', (2 * WIDTH + 3 * GAP, HEAD + HEIGHT + FOOT), PAPER)
    draw = ImageDraw.Draw(page)
    text(draw, (GAP, HEAD / 2), f'“{record.session.prompt}”', 20)
    text(draw, (page.width - GAP, HEAD / 2),
         f'double blind · commitment {record.session.commitment[:12]}', 14, PALE, 'rm')
    for i, rollout in enumerate(record.rollouts):
        left, frames = GAP + i * (WIDTH + GAP), films[rollout.slot]
        page.paste(frames[min(index, len(frames) - 1)], (left, HEAD))
        colour = COLOURS[rollout.slot]
        draw.rectangle((left, HEAD, left + 34, HEAD + 30), fill=colour)
        text(draw, (left + 17, HEAD + 15), rollout.slot, 20, (255, 255, 255), 'mm')
        over = index >= len(frames) - 1
        now_s = min(index * FASTER / FRAMES_PER_S, rollout.steps / FILM_HZ)
        below = HEAD + HEIGHT
        draw.rectangle((left, below, left + WIDTH, below + 5), fill=(225, 225, 222))
        longest = max(one.steps for one in record.rollouts)
        share = (rollout.progress or 0.0) if verdict else now_s * FILM_HZ / longest
        draw.rectangle((left, below, left + WIDTH * min(share, 1.0), below + 5),
                       fill=colour if verdict else PALE)
        words = f'{now_s:4.1f} s' + (f' · {rollout.end}' if over else ' · running')
        if verdict:
            words = f'scored {100 * (rollout.progress or 0.0):.0f} · it was {rollout.policy}'
        text(draw, (left, below + 22), words, 17, INK if verdict else PALE)
    if verdict:
        what = {'A': 'A preferred', 'B': 'B preferred', 'TIE': 'no preference'}
        text(draw, (GAP, HEAD + HEIGHT + 54),
             shortened(f'{what[record.verdict.preference.value]}: '
                       f'“{record.session.verdict.explanation}”', 80), 15)
        text(draw, (page.width - GAP, HEAD + HEIGHT + 54),
             'pair verified' if record.verified else 'PAIR NOT VERIFIED', 15, PALE, 'rm')
    return page


def main() -> None:
    """Read the session, draw it, say how large it became."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('session', type=Path, help='folder of a finished session')
    parser.add_argument('out', type=Path, help='what to write: .webp or .gif, .png with --strip')
    parser.add_argument('--view', default='left', help='camera: left, right or wrist')
    parser.add_argument('--strip', type=int, metavar='N', help='N instants in one still picture')
    args = parser.parse_args()
    record = read_record(args.session)
    films = {rollout.slot: film(rollout, args.view) for rollout in record.rollouts}
    longest = max(map(len, films.values()))
    last = picture(record, films, longest, verdict=True)
    if args.strip:
        at = np.linspace(0, longest - 1, args.strip - 1).round().astype(int)
        pages = [*(picture(record, films, int(i), verdict=False) for i in at), last]
        strip = Image.new('RGB', (last.width, last.height * len(pages)), PAPER)
        for i, page in enumerate(pages):
            strip.paste(page, (0, i * last.height))
        strip.save(args.out)
    else:
        pages = [picture(record, films, i, verdict=False) for i in range(longest)] + [last]
        still = round(1000 / FRAMES_PER_S)
        pages[0].save(args.out, save_all=True, append_images=pages[1:], loop=0, quality=72,
                      method=6, duration=[still] * longest + [round(1000 * LAST_S)])
    size_mb = args.out.stat().st_size / 1e6
    sys.stdout.write(f'{args.out}: {size_mb:.2f} MB, {len(pages)} pictures\n')


if __name__ == '__main__':
    main()
