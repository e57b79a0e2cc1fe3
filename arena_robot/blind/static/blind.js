// The phone's page: one trial at a time, and what was seen in it.

import {get, post} from '/static/api.js';
import {buildDeliberate, setLocked} from '/static/deliberate.js';
import {byId, el, say, setPressed} from '/static/dom.js';
import {forgetTyped, keepName, keeper, nameTyped, typedAt} from '/static/typed.js';

const POLL_MS = 1000;
const LOCK_MS = 100;
let options;
let state;
let shown = '';
let isLost = true;
let busy = false;

async function main() {
  buildDeliberate();
  setInterval(lock, LOCK_MS);
  for (;;) {
    try {
      options ??= await get('options', 5000);
      show(await get('state', 5000));
      if (isLost) tell('');
      isLost = false;
    } catch (error) {
      isLost = true;
      tell(`The router does not answer (${error.message}). What you type is kept here. Trying again.`);
    }
    await new Promise((resolve) => { setTimeout(resolve, POLL_MS); });
  }
}

function lock() {
  document.querySelectorAll('button').forEach((button) => setLocked(button, isLost || busy));
}

function tell(text) {
  say(byId('problem'), text);
  byId('problem').hidden = !text;
}

// Does what a button says; the page is behind where somebody else pressed one meanwhile.
async function move(name, words = {}, place = null) {
  busy = true;
  lock();
  try {
    const of = keyOf(state);
    const next = await post('move', {move: name, version: state.version, evaluator: nameTyped(), ...words});
    if (place) forgetTyped(of, place);
    tell('');
    show(next);
  } catch (error) {
    tell(error.message);
  } finally {
    busy = false;
  }
}

const keyOf = (now) => ({session_id: `${now.study} ${now.trial} ${now.attempt}`});

function show(next) {
  state = next;
  say(byId('study'), state.study);
  say(byId('count'), state.human ? 'By hand' : state.trial ? `Trial ${state.trial} of ${state.total} · ${state.slot}` : `${state.done} trials`);
  say(byId('notice'), state.notice);
  byId('notice').hidden = !state.notice;
  document.body.className = ['running', 'paused'].includes(state.phase) ? 'running' : '';
  document.body.dataset.phase = state.phase;
  const wanted = JSON.stringify([state.phase, state.trial, state.attempt, state.undo, state.decided]);
  if (wanted !== shown) {
    shown = wanted;
    const {nodes, buttons} = PANELS[state.phase]();
    byId('panel').replaceChildren(...nodes);
    byId('actions').replaceChildren(...buttons, ...undo());
    window.scrollTo(0, 0);
  }
  updateTimer();
  updateClips();
}

// The videos of the trials that are judged, as soon as they are written.
function updateClips() {
  const box = byId('clips');
  const clips = Object.entries(state.clips ?? {});
  if (!box || box.childElementCount === clips.length) return;
  box.replaceChildren(...clips.map(([slot, path]) => el('figure', {}, el('video', {
    src: `/${path}`, controls: true, muted: true, playsinline: true, preload: 'metadata',
    'aria-label': `Video of ${slot}`}), el('figcaption', {class: 'hint'}, `Video of ${slot}`))));
}

function updateTimer() {
  const timer = byId('timer');
  if (!timer) return;
  const seconds = Math.floor(state.phase === 'paused' ? state.by_hand_s : state.seconds);
  timer.textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
  say(byId('robot'), state.human ? 'A person runs this trial. No query passes.' : state.phase === 'paused' ? 'You have taken over. No action of the policy passes.'
    : state.asked ? 'The robot gets its actions.' : 'Now start the robot\'s program. It has not asked yet.');
}

const button = (id, text, work, kind = '') => el('button', {
  id, type: 'button', class: kind, 'data-deliberate': true, onclick: work}, text);
// A main button after which no arm moves: Ctrl+Enter presses it too.
const onward = (id, text, work) => el('button', {
  id, type: 'button', class: 'primary', 'data-deliberate': true, 'data-next': '', onclick: work}, text);
const undo = () => (state.undo
  ? [button('undo', `Undo ${state.undo}`, () => move('undo'))] : []);
const heading = (text) => el('h1', {tabindex: -1}, text);
const hint = (text) => el('p', {class: 'hint'}, text);

// A reason that is typed before a button, both folded away.
function withReason(id, title, hintText, name) {
  const box = el('input', {type: 'text', id: `${id}-reason`, dir: 'auto', 'aria-label': 'reason', value: typedAt(keyOf(state), id) ?? ''});
  const keep = keeper(keyOf(state), id, () => box.value, async () => {});
  box.addEventListener('input', keep);
  return el('details', {id}, el('summary', {}, title), hint(hintText), box,
    button(`${id}-yes`, title, () => move(name, {reason: box.value}, id)));
}

const doesNotCount = () => withReason('void', 'Does not count …',
  'For a trial that was disturbed: somebody touched the scene, a camera fell. Say why; it is run again.', 'void');

function ready() {
  const name = el('input', {type: 'text', id: 'evaluator', dir: 'auto', 'aria-label': 'your name', value: nameTyped()});
  name.addEventListener('input', () => keepName(name.value));
  return {
    nodes: [heading(`Next: ${state.slot}`), el('p', {class: 'task', dir: 'auto'}, `“${state.instruction}”`),
      el('p', {dir: 'auto'}, state.start || 'Put the scene as it was for the other trials.'),
      state.attempt > 1 ? hint(`Attempt ${state.attempt} of this trial.`) : null,
      el('label', {for: 'evaluator'}, 'Your name'), name,
      button('rest', 'Break', () => move('rest')),
      el('details', {id: 'human'}, el('summary', {}, 'A person runs it …'),
        hint('For what the scene and the robot allow: you teleoperate the task from this start, no policy is asked. It is shown beside the policies and is in no comparison.'),
        button('human-yes', 'Start by hand', () => move('human'))),
      el('details', {id: 'seen'}, el('summary', {}, 'What is not blind …'), hint(options.not_hidden)),
      state.decided ? el('p', {id: 'decided'}, 'The test that was chosen for this study has decided: no more trials are needed.') : null,
      state.decided ? button('reveal', 'Reveal the policies', () => move('reveal')) : withReason('finish', 'End the study now …',
        'The policies are revealed, and no more trials can be run. Say why it ends early.', 'reveal'),
    ].filter(Boolean),
    buttons: [hint('Start lets the robot ask the policy. Then start the robot\'s program.'),
      button('start', 'Start', () => move('start'), 'primary')],
  };
}

function running() {
  return {
    nodes: [el('p', {class: 'task', dir: 'auto'}, `“${state.instruction}”`), el('div', {id: 'timer'}),
      el('p', {id: 'robot'}), hint(`End trial does not stop the arm: it may finish the actions it has. To stop it: ${options.robot_stop}.`),
      doesNotCount()],
    buttons: [state.human ? null : button('pause', 'I take over', () => move('pause'), 'hand'),
      button('end', 'End trial', () => move('end'), 'primary')].filter(Boolean),
  };
}

function paused() {
  const panel = running();
  panel.buttons = [button('end', 'End trial', () => move('end')),
    button('resume', 'Resume', () => move('resume'), 'primary')];
  return panel;
}

// Values and inputs of a form; what is typed is kept at once, and at the router soon after.
function form(place) {
  const words = {...state.draft, ...(typedAt(keyOf(state), place) ?? {})};
  const keep = keeper(keyOf(state), place, () => words, (now) => post('draft', now));
  const set = (name, value) => { words[name] = value; keep(); };
  return {words, set};
}

function choice(id, question, choices, {words, set}, name, many = false) {
  const has = (value) => (many ? (words[name] ?? []).includes(value) : words[name] === value);
  const buttons = choices.map(([value, text]) => el('button', {
    type: 'button', 'data-value': String(value), onclick: () => {
      const old = words[name] ?? [];
      set(name, !many ? value : has(value) ? old.filter((one) => one !== value) : [...old, value]);
      mark();
    }}, text));
  const mark = () => buttons.forEach((one, k) => setPressed(one, has(choices[k][0])));
  mark();
  return [el('p', {}, question), el('div', {id, class: 'choice', role: 'group', 'aria-label': question}, ...buttons)];
}

const videos = () => el('div', {id: 'clips'});

function scoring() {
  const typed = form('trial');
  const number = el('output', {}, typed.words.progress ?? '–');
  const range = el('input', {type: 'range', id: 'progress', min: 0, max: 100, value: typed.words.progress ?? 0,
    'aria-label': 'progress'});
  range.addEventListener('input', () => { number.textContent = range.value; typed.set('progress', Number(range.value)); });
  const field = (key) => options.fields.find((one) => one.key === key);
  const question = (key) => field(key).question.replace(/\bA\b/, state.human ? 'the person' : state.slot);
  const listed = (key) => Object.entries(field(key).choices);
  return {
    nodes: [heading(state.human ? 'What did the person do?' : `What did ${state.slot} do?`),
      ...choice('success', `${question('success')} ${options.success}`, [[true, 'yes'], [false, 'no']], typed, 'success'),
      ...(field('stage').asked ? choice('stage', question('stage'), listed('stage'), typed, 'stage') : []),
      el('label', {for: 'progress'}, `${question('progress')} `, number, ' of 100'), range,
      ...choice('tags', question('failure_tags'), listed('failure_tags'), typed, 'failure_tags', true),
      videos(), doesNotCount()],
    buttons: [onward('score', 'Keep', () => move('score', typed.words, 'trial'))],
  };
}

function judging() {
  const typed = form('block');
  const why = el('textarea', {id: 'reason', dir: 'auto'});
  why.value = typed.words.reason ?? '';
  why.addEventListener('input', () => typed.set('reason', why.value));
  return {
    nodes: [heading('Which was better?'), ...choice('preference', 'Of the last two trials',
      [['A', 'A'], ['TIE', 'no difference'], ['B', 'B']], typed, 'preference'),
    el('label', {for: 'reason'}, 'Why?'), why, videos(), doesNotCount()],
    buttons: [onward('judge', 'Keep', () => move('judge', typed.words, 'block'))],
  };
}

const PANELS = {
  ready, running, paused, scoring, judging,
  break: () => ({nodes: [heading('Break')], buttons: [onward('back', 'Go on', () => move('back'))]}),
  done: () => ({nodes: [heading('All trials were run'), hint('The study is still blind. Revealing it is final.')],
    buttons: [button('reveal', 'Reveal the policies', () => move('reveal'), 'primary')]}),
  revealed: () => ({nodes: [heading('The study has ended'), el('p', {}, `On the computer: ${options.report}`)],
    buttons: []}),
};

main();
