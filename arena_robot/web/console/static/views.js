// Live pictures, and their comparison with the start photographs.

import {byId, el} from './dom.js';

const PERIOD_MS = 150;
const COMPARED = ['reset', 'start_photographed'];
let lights = {green: 1, amber: 1};
let loaded = '';

export function build(options) {
  lights = options.lights;
  for (const view of options.views) {
    const live = el('img', {class: 'live', alt: `live view ${view}`});
    const start = el('img', {class: 'start', alt: `start of ${view}`});
    const match = el('span', {class: 'light'});
    byId('views').append(el('figure', {'data-view': view},
      el('div', {class: 'pictures'}, live, start),
      el('figcaption', {}, el('span', {}, view.split('_')[0]), match)));
    follow(live, view);
  }
  for (const button of byId('modes').querySelectorAll('button')) {
    button.addEventListener('click', () => choose(button.dataset.mode));
  }
  byId('share').addEventListener('input', (event) => {
    byId('cameras').style.setProperty('--share', event.target.value / 100);
  });
  choose('side');
}

function choose(mode) {
  const place = byId('cameras').classList;
  place.remove('side', 'blend', 'difference');
  place.add(mode);
  byId('share').hidden = mode !== 'blend';
  for (const button of byId('modes').querySelectorAll('button')) {
    button.classList.toggle('chosen', button.dataset.mode === mode);
  }
}

async function follow(image, view) {
  for (;;) {
    try {
      const response = await fetch(`/api/frame/${view}`, {signal: AbortSignal.timeout(3000)});
      if (response.ok) {
        const before = image.src;
        image.src = URL.createObjectURL(await response.blob());
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
  for (const figure of byId('views').children) {
    const {view} = figure.dataset;
    const score = compared ? state.matches[view] : undefined;
    const shown = figure.querySelector('.light');
    shown.className = score === undefined ? 'light' : `light ${light(score)}`;
    shown.hidden = score === undefined;
    shown.textContent = score === undefined ? '' : `${Math.round(100 * score)} % like the start`;
    if (compared && loaded !== wanted) {
      const start = figure.querySelector('.start');
      start.onerror = () => { loaded = ''; };
      start.src = `/api/reference/${view}?of=${wanted}-${Date.now()}`;
    }
  }
  if (compared) loaded = wanted;
}
