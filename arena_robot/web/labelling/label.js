// The page on which a lab labels its episodes: every step is a key.

import {get, post} from '/static/api.js';
import {byId, el, say} from '/static/dom.js';

const STEP_S = 0.2;       // the time between two pictures that a judge looks at
const LONG_STEP_S = 1;
const POLL_MS = 500;      // while videos are written
const SYNC_MS = 200;
const APART_S = 0.12;     // views farther apart than this are brought together
let state = null;
let opened = '';
let waits = null;
let pressed = Promise.resolve();

const boxes = () => document.querySelectorAll('input[type=text]');
const typedBefore = (box) => (box.id === 'stages' ? state.stages.join(', ') : state[box.id]);
const videos = () => [...document.querySelectorAll('#videos video')];
const ahead = (video) => Number(video.dataset.ahead);
const playing = () => videos().some((video) => !video.paused);

// The time in the episode's clip, which is the judge's.
function now() {
  const [first] = videos();
  return first ? Math.min(Math.max(first.currentTime - ahead(first), 0), state.duration_s) : 0;
}

function goTo(time) {
  const at = Math.min(Math.max(time, 0), state.duration_s);
  for (const video of videos()) video.currentTime = at + ahead(video);
  byId('time').value = at;
}

function tell(text) {
  say(byId('problem'), text);
  byId('problem').hidden = !text;
}

async function look() {
  try {
    show(await get('state', 5000));
  } catch (error) {
    tell(`The program does not answer (${error.message}). What was pressed before is in labels.csv.`);
    waits = setTimeout(look, POLL_MS);
  }
}

// Keys take effect one after the other, each for the episode that was shown when it was pressed.
function press(key, words = {}) {
  const wanted = {key, file: state.file, ...words};
  pressed = pressed.then(async () => {
    try {
      tell('');
      show(await post('press', wanted));
    } catch (error) {
      tell(error.message);
    }
  });
}

function show(next) {
  state = next;
  clearTimeout(waits);
  const rate = state.per_hour ? `, ${Math.round(state.per_hour)} an hour` : '';
  say(byId('count'), `${state.labelled} of ${state.total} labelled${rate}`);
  say(byId('file'), `${state.number}: ${state.file}`);
  document.body.dataset.ready = state.ready;
  if (state.unreadable) {
    tell(`This episode cannot be shown: ${state.unreadable}. N goes on to the next one.`);
    close('This episode cannot be shown');
    return;
  }
  if (!state.ready) {
    close('The videos of this episode are being written …');
    waits = setTimeout(look, POLL_MS);
    return;
  }
  if (opened !== state.file) open();
  for (const box of boxes()) if (document.activeElement !== box) box.value = typedBefore(box);
  showMarks();
}

function close(text) {
  opened = '';
  byId('videos').replaceChildren();
  byId('marks').replaceChildren();
  say(byId('instruction'), '…');
  say(byId('now'), text);
}

function open() {
  opened = state.file;
  tell('');
  say(byId('instruction'), `“${state.instruction}”`);
  byId('videos').replaceChildren(...state.views.map((seen) => el('figure', {}, el('video', {
    src: seen.src, 'data-ahead': seen.ahead_s, preload: 'auto', playsinline: true,
    'aria-label': `${seen.role} camera`}), el('figcaption', {}, seen.role))));
  for (const video of videos()) {
    video.muted = true;
    video.addEventListener('loadedmetadata', () => { video.currentTime = ahead(video); }, {once: true});
  }
  byId('time').max = state.duration_s;
  byId('time').value = 0;
  for (const box of boxes()) box.value = typedBefore(box);
  if (!state.stages.length) byId('stages').focus();
}

function showMarks() {
  let last = 0;
  byId('marks').replaceChildren(...state.marks.map(([time, stage]) => {
    const mark = el('span', {class: stage < last ? 'fell' : ''}, stage ? state.stages[stage - 1] : 'start');
    mark.style.left = `${100 * time / Math.max(state.duration_s, 0.01)}%`;
    last = stage;
    return mark;
  }));
  const next = last < state.stages.length ? `next: ${state.stages[last]}` : 'all stages are reached';
  byId('now').replaceChildren(el('span', {class: state.label}, state.label || 'no label yet'),
    ` · ${state.marks.length} marks · ${state.stages.length ? next : 'name the stages of this task first'}`);
}

function play() {
  const was = playing();
  if (!was && now() > state.duration_s - 0.05) goTo(0);
  for (const video of videos()) was ? video.pause() : video.play();
}

function step(event, sign) {
  videos().forEach((video) => video.pause());
  goTo(now() + sign * (event.shiftKey ? LONG_STEP_S : STEP_S));
}

function focus(id) {
  byId(id).focus();
  byId(id).select();
}

const mark = (stage = null) => press('mark', {time_s: now(), stage});
const KEYS = {
  ' ': play, ArrowLeft: (event) => step(event, -1), ArrowRight: (event) => step(event, 1),
  Enter: () => mark(), u: () => press('undo'), s: () => press('judge', {label: 'success'}),
  f: () => press('judge', {label: 'failure'}), t: () => focus('task'), e: () => focus('stages'), c: () => focus('scene'),
};
const ALWAYS = {n: () => press('next'), p: () => press('previous')};

function typed(event, box) {
  if (event.key === 'Enter') press(box.id, {text: box.value});
  if (event.key === 'Enter' || event.key === 'Escape') {
    event.preventDefault();
    box.blur();
  }
}

window.addEventListener('keydown', (event) => {
  if (event.target.type === 'text') {
    typed(event, event.target);
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || !state) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const work = ALWAYS[key] ?? (state.ready ? KEYS[key] ?? (/^[0-9]$/.test(key) ? () => mark(Number(key)) : null) : null);
  if (!work) return;
  event.preventDefault();
  work(event);
}, true);

byId('time').addEventListener('input', () => goTo(Number(byId('time').value)));

// The views stay in step, and the clip ends before the videos do.
setInterval(() => {
  if (!state?.ready || !playing()) return;
  const time = now();
  byId('time').value = time;
  for (const video of videos()) {
    if (Math.abs(video.currentTime - ahead(video) - time) > APART_S) video.currentTime = time + ahead(video);
    if (time >= state.duration_s) video.pause();
  }
}, SYNC_MS);

look();
