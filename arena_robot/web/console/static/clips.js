// The last rollouts as clips that loop in step, from pictures that the console kept.

import {pictures} from './api.js';
import {byId, el} from './dom.js';

const HZ = 10;         // twice as fast as the pictures were kept
const REST = 10;       // how long the last picture stays
const SHOWN = {scoring_a: ['A'], scoring_b: ['B'], preference: ['A', 'B'], review: ['A', 'B'],
  submitting: ['A', 'B'], done: ['A', 'B']};
let shown = '';
let playing = [];
let index = 0;

export function buildClips() {
  setInterval(() => {
    const longest = Math.max(0, ...playing.map((clip) => clip.urls.length));
    index = longest ? (index + 1) % (longest + REST) : 0;
    for (const {image, urls} of playing) {
      const url = urls[Math.min(index, urls.length - 1)];
      if (url && image.src !== url) image.src = url;
    }
  }, 1000 / HZ);
}

// Shows the clips that belong to the state, of the view that is large.
export function updateClips(state, view) {
  const slots = (SHOWN[state.state] ?? []).filter((slot) => state.slots.some(
    (rollout) => rollout.slot === slot && rollout.end));
  const wanted = JSON.stringify([state.session_id, state.slots, slots, view]);
  if (wanted !== shown) replace(wanted, slots, view);
  for (const figure of byId('clips').children) {
    const score = state.draft[`progress_${figure.dataset.slot.toLowerCase()}`];
    figure.querySelector('.score').textContent = score === null ? ''
      : `${Math.round(100 * score)} of 100`;
  }
}

function replace(wanted, slots, view) {
  shown = wanted;
  byId('clips').hidden = slots.length === 0;
  for (const {urls} of playing) urls.forEach((url) => URL.revokeObjectURL(url));
  playing = [];
  byId('clips').replaceChildren(...slots.map((slot) => clip(slot, view)));
}

function clip(slot, view) {
  const image = el('img', {alt: `rollout of ${slot}, ${view.split('_')[0]} camera`});
  const words = el('span', {class: 'ended'});
  load(slot, view, image, words).catch(() => { words.textContent = 'its pictures cannot be read'; });
  return el('figure', {'data-slot': slot}, el('div', {class: 'pictures'}, image),
    el('figcaption', {}, el('b', {}, slot), words, el('span', {class: 'score'})));
}

async function load(slot, view, image, words) {
  const wanted = shown;
  const urls = (await pictures(`clip/${slot}/${view}`)).map((picture) => URL.createObjectURL(picture));
  if (wanted !== shown) return;
  words.textContent = urls.length ? '2 ×' : 'no pictures: the console was restarted';
  playing.push({image, urls});
}
