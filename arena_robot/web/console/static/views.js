// Live pictures, and their comparison with the start photographs.

import {byId, el, setPressed} from './dom.js';

const PERIOD_MS = 150;
const OLD_MS = 350;     // after this a picture is marked as old
const LOOK_MS = 40;
const POLICY_PX = 224;
const takenMs = new Map();    // by view: when the newest picture was taken, in this page's time
const COMPARED = ['reset', 'start_photographed'];
let lights = {green: 1, amber: 1};
let loaded = '';
let large = '';

export function build(options) {
  lights = options.lights;
  for (const view of options.views) {
    const live = el('img', {class: 'live', alt: `live view ${view}`});
    const start = el('img', {class: 'start', alt: `start of ${view}`});
    const match = el('span', {class: 'light'});
    const name = view.split('_')[0];
    const seen = el('canvas', {class: 'seen', width: POLICY_PX, height: POLICY_PX});
    live.addEventListener('load', () => {
      seen.getContext('2d').drawImage(live, 0, 0, POLICY_PX, POLICY_PX);
    });
    byId('views').append(el('figure', {'data-view': view},
      el('div', {class: 'pictures'}, live, seen, start, el('span', {class: 'label one'}, 'now'),
        el('span', {class: 'label two'}, 'start'), el('p', {class: 'age'}),
        el('button', {type: 'button', class: 'swap', 'aria-label': `show the ${name} camera large`,
          onclick: () => show(view)})),
      el('figcaption', {}, el('span', {}, name), match)));
    follow(live, view);
  }
  byId('views').style.setProperty('--others', Math.max(1, options.views.length - 1));
  show(options.views[0]);
  byId('policy-view').addEventListener('click', () => {
    setPressed(byId('policy-view'), byId('cameras').classList.toggle('policy'));
  });
  for (const button of byId('modes').querySelectorAll('button')) {
    button.addEventListener('click', () => choose(button.dataset.mode));
  }
  byId('share').addEventListener('input', (event) => {
    byId('cameras').style.setProperty('--share', event.target.value / 100);
  });
  choose('side');
  setInterval(markOld, LOOK_MS);
}

// A picture that no newer one follows is marked: the scene may have changed since.
function markOld() {
  const now = performance.now();
  for (const figure of byId('views').children) {
    const taken = takenMs.get(figure.dataset.view);
    const old = taken === undefined || now - taken > OLD_MS;
    figure.classList.toggle('old', old);
    const check = document.querySelector(`[data-check="${figure.dataset.view.split('_')[0]} camera"]`);
    check?.classList.toggle('dead', old);
    if (!old) continue;
    const text = taken === undefined ? 'no picture'
      : `OLD: no picture for ${((now - taken) / 1000).toFixed(1)} s`;
    const age = figure.querySelector('.age');
    if (age.textContent !== text) age.textContent = text;
  }
}

// Whether a camera's newest picture is too old to be trusted.
export const isBlind = () => Boolean(byId('views').querySelector('.old'));

// Shows one view large and the others small.
function show(view) {
  large = view;
  for (const figure of byId('views').children) {
    const is = figure.dataset.view === view;
    figure.classList.toggle('large', is);
    figure.querySelector('.swap').disabled = is;
  }
}

export const largeView = () => large;

const LABELS = {side: ['now', 'start'], blend: ['now and start', ''],
  difference: ['difference: black is equal', '']};

function choose(mode) {
  const place = byId('cameras').classList;
  place.remove('side', 'blend', 'difference');
  place.add(mode);
  byId('share').hidden = mode !== 'blend';
  for (const figure of byId('views').children) {
    figure.querySelector('.one').textContent = LABELS[mode][0];
    figure.querySelector('.two').textContent = LABELS[mode][1];
  }
  for (const button of byId('modes').querySelectorAll('button')) {
    setPressed(button, button.dataset.mode === mode);
  }
}

async function follow(image, view) {
  for (;;) {
    try {
      const response = await fetch(`/api/frame/${view}`, {signal: AbortSignal.timeout(3000)});
      if (response.ok) {
        const ageMs = 1000 * Number(response.headers.get('X-Age-S') ?? 0);
        const askedMs = performance.now();
        const before = image.src;
        image.src = URL.createObjectURL(await response.blob());
        takenMs.set(view, askedMs - ageMs);
        if (before) URL.revokeObjectURL(before);
      }
    } catch { /* the next round shows it again; the state poll says what is wrong */ }
    const hidden = document.hidden ? 1000 : PERIOD_MS;
    await new Promise((resolve) => { setTimeout(resolve, hidden); });
  }
}

export function light(score) {
  if (score >= lights.green) return 'green';
  return score >= lights.amber ? 'amber' : 'red';
}

export function update(state) {
  const compared = COMPARED.includes(state.state);
  const wanted = `${state.session_id}-${state.state}`;
  byId('cameras').classList.toggle('compare', compared);
  byId('modes').hidden = !compared;
  byId('looks').hidden = compared;
  for (const figure of byId('views').children) {
    const {view} = figure.dataset;
    const score = compared ? state.matches[view] : undefined;
    const shown = figure.querySelector('.light');
    shown.className = score === undefined ? 'light' : `light ${light(score)}`;
    shown.hidden = score === undefined;
    shown.replaceChildren(...(score === undefined ? []
      : [`${Math.round(100 * score)} %`, el('span', {}, ' like the start')]));
    if (compared && loaded !== wanted) {
      const start = figure.querySelector('.start');
      start.onerror = () => { loaded = ''; };
      start.src = `/api/reference/${view}?of=${wanted}-${Date.now()}`;
    }
  }
  if (compared) loaded = wanted;
}
