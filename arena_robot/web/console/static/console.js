// The page: follows the state, shows the panel that belongs to it, and always has STOP.

import {get, noteStop, seat, sit} from './api.js';
import {buildClips, updateClips} from './clips.js';
import {buildDeliberate, setLocked} from './deliberate.js';
import {ask, buildAsk, byId, el, reconsider, say} from './dom.js';
import {panelFor} from './panels.js';
import {buildStop, updateStop} from './stop.js';
import * as views from './views.js';

const LABELS = {
  idle: 'Idle', preflight: 'Check', task_entered: 'Task', assigned: 'Pair',
  start_photographed: 'Start photo', running_a: 'A runs', scoring_a: 'Score A', reset: 'Reset',
  running_b: 'B runs', scoring_b: 'Score B', preference: 'Preference', review: 'Review',
  submitting: 'Submitting', done: 'Done', aborted: 'Aborted',
};
let options;
let state;
let panel = {};
let shown = '';
let busy = 0;
let shows = 0;
let pressed = false;
let waits = '';            // what the press under way waits for
let waitsFor = ['', 0];    // what is waited for, and since when
let isLost = true;
const kept = new Set();    // rollouts after a fault that are scored as they are

const LOCK_MS = 100;
const JUDGED = ['preference', 'review', 'submitting', 'done'];    // both clips, no camera

// Whether the arm moves, or may move because its state is not known.
const moves = () => isLost || busy > 0 || Boolean(
  state.running || works() || state.state.startsWith('running'));

// What a session waits for after its submission is no work of the arm.
const works = () => state.doing && state.state !== 'submitting';

async function main() {
  buildStop(moves);    // first of all: it works even when nothing else does
  buildDeliberate();
  buildAsk();
  options = await get('options');
  for (const name of options.states.slice(1, -1).filter((one) => one !== 'review')) {
    byId('steps').append(el('li', {'data-state': name}, LABELS[name]));
  }
  views.build(options);
  buildClips();
  window.addEventListener('keydown', (event) => panel.key?.(event));
  byId('seat').addEventListener('click', takeSeat);
  byId('history').addEventListener('toggle', showToday);
  byId('panel').addEventListener('input', settle);
  byId('actions').addEventListener('click', () => { pressed = true; });
  setInterval(lock, LOCK_MS);
  setInterval(showWait, LOCK_MS);
  follow();
}

async function follow() {
  let version = 0;
  for (;;) {
    try {
      const moving = state && (state.running || works() || busy);
      const asking = seat();
      const answer = await get(`state?seen=${version}&wait=${moving ? 0.2 : 2}`, 5000);
      if (asking !== seat()) { version = 0; continue; }    // asked before control was taken
      version = answer.version;
      lost(false);
      show(answer);
      await pause(state.running ? 200 : 50);
    } catch (error) {
      lost(true, error);
      version = 0;
      await pause(1000);
    }
  }
}

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

function lost(is, error) {
  isLost = is;
  if (!is && byId('problem').dataset.lost) tell('');
  if (!is) return;
  tell(`The station does not answer (${error.message}). Trying again.`, true);
  lock();    // in the same instant, not with the next beat
}

function tell(text, ofLost = false) {
  say(byId('problem'), text);
  byId('problem').hidden = !text;
  byId('problem').dataset.lost = ofLost ? 'yes' : '';
}

// An error message disappears as soon as the input that it is about is changed.
function settle() {
  if (!byId('problem').dataset.lost) tell('');
}

function show(answer) {
  shows += 1;
  state = {...answer, inControl: answer.mine && answer.seated};
  const wanted = panelKey(state);
  say(byId('state'), LABELS[state.state]);
  showWait();
  say(byId('spoken'), [LABELS[state.state], doing() || state.message].join(': '));
  byId('station').textContent = [state.station, state.evaluator].filter(Boolean).join(' · ');
  byId('session').textContent = state.session_id ? `session ${state.session_id.slice(0, 8)}` : '';
  document.body.className = state.running || state.state.startsWith('running') ? 'running'
    : JUDGED.includes(state.state) ? `judged ${state.state === 'done' ? 'final' : ''}` : '';
  say(byId('notice'), state.notice);
  byId('notice').hidden = !state.notice;
  const now = options.states.indexOf(stepOf(state));
  for (const step of byId('steps').children) {
    const at = options.states.indexOf(step.dataset.state);
    step.className = at === now ? 'now' : at < now && state.state !== 'aborted' ? 'past' : '';
  }
  byId('seat').textContent = state.inControl ? 'you are in control'
    : state.control ? `take over from ${holder()}`
      : 'take control';
  document.body.dataset.state = state.state;
  byId('now').hidden = !state.session_id;
  say(byId('task'), state.instruction && `“${state.instruction}”`);
  updateTimer(state.running);
  views.update(state);
  updateClips(state, views.largeView());
  reconsider(state);
  if (wanted !== shown) {
    const same = stepKey(wanted) === stepKey(shown);
    shown = wanted;
    if (!busy) tell('');
    enter(same);
  }
  panel.update?.(state);
  updateStop();
  lock();
}

const doing = () => (state.doing && !state.state.startsWith('running') ? state.doing : '');

// Names what is waited for, and for how long.
function showWait() {
  const what = (state && doing()) || (busy ? waits : '');
  const nowMs = performance.now();
  if (what !== waitsFor[0]) waitsFor = [what, nowMs];
  const seconds = Math.floor((nowMs - waitsFor[1]) / 1000);
  say(byId('doing'), what && `… ${what}${seconds ? `: ${seconds} s` : ''}`);
}

// Who has control, for a person who would take it over.
const holder = () => (state.mine ? state.seat || 'nobody'
  : state.control === 'terminal' ? 'the terminal' : state.control);

// The verdict is one step, also where it was stored and the submission failed.
const stepOf = (now) => (now.state === 'review' && now.verdict.valid ? 'preference' : now.state);

function updateTimer(run) {
  byId('timer').hidden = !run;
  if (!run) return;
  byId('bar').max = Math.max(run.max_steps, run.steps, 1);
  byId('bar').value = run.steps;
  say(byId('numbers'), `step ${run.steps} of ${run.max_steps} · ${run.elapsed_s.toFixed(0)} s`);
}

// A panel stays, with what was typed into it, until one of these changes.
function panelKey(now) {
  const more = ['preference', 'review'].includes(now.state) ? [now.verdict]
    : now.state === 'preflight' ? now.checks : [];
  const rollouts = now.slots.map((slot) => [slot.end, slot.again, slot.reruns]);
  return JSON.stringify([now.state, now.session_id, now.inControl, now.created_ns, rollouts,
    now.repairs, more]);
}

const stepKey = (key) => key && JSON.stringify(JSON.parse(key).slice(0, 2));

// A new panel of the same step keeps what was typed (typed.js), and where. Its main button is
// never in the place of the one before, and focus never falls on a button.
function enter(same) {
  const before = document.activeElement;
  const [at, caret] = same ? [before?.id, before?.selectionStart] : [];
  panel = panelFor(state, {options, act, tell, kept, redraw: () => enter(false)});
  byId('panel').replaceChildren(...panel.nodes);
  if (!same) byId('scroll').scrollTop = 0;
  placePrimary(same);
  if (['done', 'aborted'].includes(state.state)) showToday();
  if (byId('ask').contains(document.activeElement)) return;
  const field = at && byId('panel').querySelector(`input#${at}, textarea#${at}`);
  (field || panel.focus || byId('panel').querySelector('h2')).focus({preventScroll: true});
  if (field && caret != null) field.setSelectionRange(caret, caret);
}

function placePrimary(same) {
  const place = byId('actions');
  if (!same || pressed) {
    place.className = place.className === 'left' ? 'right' : 'left';
    pressed = false;
  }
  place.replaceChildren(...byId('panel').querySelectorAll('#primary'));
}

function lock() {
  const locked = !state || isLost || busy > 0 || !state.inControl
    || Boolean(works() && !state.running);
  for (const button of document.querySelectorAll('#panel button, #actions button')) {
    setLocked(button, locked || button.dataset.off === 'yes');
  }
  setLocked(byId('yes'), byId('ask').hidden || busy > 0);
}

// Runs a command; while it runs the panel is locked. Errors are shown.
async function act(work, wait = '') {
  if (busy) return;
  busy += 1;
  waits = wait;
  noteStop(false);
  lock();
  tell('');
  try {
    await work();
  } catch (error) {
    tell(error.message);
  } finally {
    busy -= 1;
    lock();
  }
}

async function takeSeat() {
  if (state.inControl) return;
  try {
    const taken = state.control && !(state.mine && !state.seat);
    if (taken && await ask(`Take control away from ${holder()}?`,
      {yes: 'Take over'}) === null) return;
    await sit(Boolean(taken));
    const before = shows;
    const answer = await get('state');
    if (shows === before) show(answer);    // else something newer is there already
  } catch (error) {
    tell(error.message);
  }
}

async function showToday() {
  const sessions = await get('today');
  const rows = sessions.map((session) => el('tr', {},
    el('td', {}, new Date(session.created_ns / 1e6).toLocaleTimeString()),
    el('td', {dir: 'auto'}, session.instruction), el('td', {}, LABELS[session.state]),
    ...[session.verdict.progress_a, session.verdict.progress_b].map((share) => el('td', {},
      share === null ? '–' : `${Math.round(100 * share)}`)),
    el('td', {}, session.verdict.valid ? session.verdict.preference || '–' : 'not valid')));
  byId('today').replaceChildren(el('tr', {}, ...['Began', 'Task', 'State', 'A', 'B', 'Preference']
    .map((name) => el('th', {}, name))), ...rows);
}

main().catch((error) => tell(error.message));
