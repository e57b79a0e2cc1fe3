// After the verdict: how far a judge saw A and B get, beside the preference.

import {get} from './api.js';
import {el} from './dom.js';

const AGAIN_MS = 3000;
const [WIDTH, HEIGHT] = [300, 80];
const NAMES = {A: 'A', B: 'B', TIE: 'a tie'};

// A box that fills itself once the audit of the finished session is there.
export function auditBox(state) {
  const box = el('section', {id: 'audit', 'aria-label': 'Audit', hidden: true});
  const look = async () => {
    if (box.dataset.seen && !box.isConnected) return;
    if (box.isConnected) box.dataset.seen = 'yes';
    const found = await get('audit').catch(() => ({}));
    if (found.session_id === state.session_id) fill(box, found);
    else setTimeout(look, AGAIN_MS);
  };
  setTimeout(look, 0);
  return box;
}

function fill(box, found) {
  box.replaceChildren(el('h3', {}, `Audit by the judge ${found.judge}`),
    ...Object.entries(found.slots).map(([slot, one]) => el('p', {}, `${slot}: ${words(one)}`)),
    curves(found), el('p', {class: 'hint'}, verdict(found)));
  box.hidden = false;
}

const percent = (share) => `${Math.round(100 * share)} %`;

function words(one) {
  if (!one.curve.length) return `not judged: ${one.detail}`;
  const falls = one.falls.length ? `, fell back ${one.falls.length} ×` : '';
  const still = one.still.length ? `, stood still ${one.still.length} ×` : '';
  return `${percent(one.last)} at the end, ${percent(one.best)} at best${falls}${still}`;
}

function verdict(found) {
  if (!found.calibrated) return 'The judge is not calibrated for this scene: do not compare its numbers.';
  if (!found.audit) return '';
  if (found.audit === found.preference) return 'The audit agrees with the preference.';
  return `The audit prefers ${NAMES[found.audit]}, the evaluator preferred ${NAMES[found.preference] ?? 'nothing'}. `
    + 'A judge errs too: it changes no result.';
}

function curves(found) {
  const node = (tag, attributes) => {
    const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const svg = node('svg', {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', class: 'audit',
    'aria-label': 'Progress over time: A solid, B dashed'});
  const end = Math.max(1, ...Object.values(found.slots).flatMap((one) => one.curve.map(([t]) => t)));
  for (const [slot, one] of Object.entries(found.slots)) {
    svg.append(node('polyline', {class: slot, points: one.curve.map(
      ([t, p]) => `${(WIDTH * t / end).toFixed(1)},${(HEIGHT - 2 - (HEIGHT - 4) * p).toFixed(1)}`).join(' ')}));
  }
  return svg;
}
