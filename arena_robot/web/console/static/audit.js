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
    const audit = await get('audit').catch(() => ({}));
    if (audit.session_id === state.session_id) fill(box, audit);
    else setTimeout(look, AGAIN_MS);
  };
  setTimeout(look, 0);
  return box;
}

function fill(box, audit) {
  box.replaceChildren(el('h3', {}, `Audit by the judge ${audit.judge}`),
    ...Object.entries(audit.slots).map(([slot, judged]) => el('p', {}, `${slot}: ${words(judged)}`)),
    curves(audit), el('p', {class: 'hint'}, verdict(audit)));
  box.hidden = false;
}

const percent = (share) => `${Math.round(100 * share)} %`;

function words(judged) {
  if (!judged.curve.length) return `not judged: ${judged.detail}`;
  const falls = judged.falls.length ? `, fell back ${judged.falls.length} ×` : '';
  const still = judged.still.length ? `, stood still ${judged.still.length} ×` : '';
  return `${percent(judged.last)} at the end, ${percent(judged.best)} at best${falls}${still}`;
}

function verdict(audit) {
  if (!audit.calibrated) return 'The judge is not calibrated for this scene: do not compare its numbers.';
  if (audit.untrusted) return `Not compared with the preference: ${audit.untrusted}.`;
  if (!audit.audit) return '';
  if (audit.audit === audit.preference) return 'The audit agrees with the preference.';
  return `The audit prefers ${NAMES[audit.audit]}, the evaluator preferred ${NAMES[audit.preference] ?? 'nothing'}. `
    + 'A judge errs too: it changes no result.';
}

function curves(audit) {
  const node = (tag, attributes) => {
    const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  const svg = node('svg', {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', class: 'audit',
    'aria-label': 'Progress over time: A solid, B dashed'});
  const end = Math.max(1, ...Object.values(audit.slots).flatMap((slot) => slot.curve.map(([t]) => t)));
  for (const [slot, judged] of Object.entries(audit.slots)) {
    svg.append(node('polyline', {class: slot, points: judged.curve.map(
      ([t, p]) => `${(WIDTH * t / end).toFixed(1)},${(HEIGHT - 2 - (HEIGHT - 4) * p).toFixed(1)}`).join(' ')}));
  }
  return svg;
}
