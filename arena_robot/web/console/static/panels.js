// One panel per state: what to do, one primary button, and what else is possible.

import {get, post, press, start} from './api.js';
import {auditBox} from './audit.js';
import {asking, moving, onward, primary, second} from './buttons.js';
import {ask, el, settled} from './dom.js';
import {forgetTyped, keepName, keeper, nameTyped, questionKeeper, typedAt} from './typed.js';
import {scoring, verdict} from './verdict.js';
import {isBlind, light} from './views.js';

// A panel is {nodes, update(state), focus}. `use` has options, act(work) and tell(text).
export function panelFor(state, use) {
  const panel = (PANELS[state.state] ?? finished)(state, use);
  panel.nodes = [el('h2', {tabindex: -1}, state.message), ...repairs(state, use), ...panel.nodes,
    ...leaving(state, use)];
  if (!state.inControl) panel.nodes.push(el('p', {class: 'hint'}, 'You are watching.'));
  return panel;
}

const REPAIRS = {recover: 'Recover the arm', activate_gripper: 'Activate the gripper'};

// What a person does about an arm or a gripper that has stopped by itself.
function repairs(state, use) {
  return state.repairs.map((name) => [name, REPAIRS[name]]).flatMap(([name, label]) => [
    el('p', {class: 'hint bad'}, use.options.needs[name]),
    el('div', {class: 'second'}, el('button', {id: name, type: 'button', onclick: async () => {
      const typed = await ask(`${use.options.repairs[name]} Look at it, step back, and type `
        + `“${use.options.clear}” when nobody and nothing is near it.`,
      {words: true, yes: label, holds: (now) => now.state === state.state});
      if (typed === null) return;
      await use.act(async () => {
        await press(name, typed);
        if (state.state === 'preflight') await press('check');
      });
    }}, `${label}…`))]);
}

function leaving(state, use) {
  const nodes = [];
  if (VALIDITY.includes(state.state) && state.verdict.valid) {
    const kept = questionKeeper(state, 'invalidate', state.draft.invalid_reason,
      (now) => post('draft', {invalid_reason: now}));
    nodes.push(asking('invalidate', 'This session should not count…', use,
      'Why should this session not count?', {words: true, yes: 'Do not count it', ...kept,
        holds: (now) => VALIDITY.includes(now.state)}, 'invalidate'));
  }
  if (!OVER.includes(state.state)) {
    nodes.push(asking('abort', 'End without a verdict…', use,
      'Why is the session ended without a verdict?',
      {words: true, yes: 'End it', ...questionKeeper(state, 'abort'), holds: (now) => !OVER.includes(now.state)}, 'abort'));
  }
  return nodes.length ? [el('div', {class: 'second'}, ...nodes)] : [];
}

const OVER = ['idle', 'done', 'aborted', 'submitting'];
const VALIDITY = ['assigned', 'start_photographed', 'scoring_a', 'reset', 'scoring_b',
  'preference', 'review'];

const CHECKING = {wait: 'checking the station'};

function idle(state, use) {
  return {nodes: [onward('Check the station', use, () => press('check'), CHECKING)]};
}

function checks(state) {
  return el('ul', {class: 'checks'}, ...state.checks.map((check) => el('li',
    {class: check.warning ? 'warning' : check.ok ? 'ok' : 'bad', 'data-check': check.name},
    check.ok ? `${check.name}: ${check.detail}` : check.detail)));
}

// What the station's file says to people whom the cameras see.
function consent(use) {
  return use.options.consent ? [el('div', {id: 'consent', role: 'note'},
    el('b', {}, 'Whoever is in the pictures'), el('p', {}, use.options.consent))] : [];
}

function task(state, use) {
  if (!state.ready) {
    return {nodes: [checks(state), onward('Check again', use, () => press('check'), CHECKING)]};
  }
  const kept = typedAt(state, 'task') ?? {};
  const who = el('input', {type: 'text', id: 'evaluator', autocomplete: 'name', dir: 'auto',
    value: kept.evaluator ?? (state.evaluator || nameTyped())});
  const token = el('input', {type: 'password', id: 'token', autocomplete: 'off',
    placeholder: 'only if a server asks for it'});
  const what = el('input', {type: 'text', id: 'instruction', autocomplete: 'off', dir: 'auto',
    maxlength: 300, value: kept.instruction ?? state.draft_instruction});
  const hint = el('p', {class: 'hint', id: 'instruction-hint'});
  const outside = el('select', {id: 'third-person'}, ...state.outside_cameras.map((role) =>
    el('option', {value: role, selected: role === state.third_person}, role)));
  let repeat = false;
  const look = async () => {
    const judged = await get(`instruction?text=${encodeURIComponent(what.value)}`);
    repeat = judged.repeat;
    hint.classList.toggle('bad', Boolean(judged.problem || repeat));
    hint.textContent = judged.problem || (repeat
      ? 'This was evaluated earlier today. Another task teaches more.' : 'Good.');
  };
  // Who evaluates is final once the task is entered.
  const words = () => ({...(state.state === 'preflight' ? {evaluator: who.value} : {}),
    instruction: what.value});
  const keep = keeper(state, 'task', words, (now) => post('draft', now));
  const lookSoon = settled(() => look().catch(() => {}));
  const typed = () => { keep(); lookSoon(); };
  if (what.value) lookSoon();
  what.addEventListener('input', typed);
  who.addEventListener('input', () => { keepName(who.value); keep(); });
  what.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.repeat && !event.ctrlKey && !event.metaKey && !event.isComposing) document.getElementById('primary').click();
  });
  const examples = use.options.examples.map((text) => el('button', {type: 'button',
    onclick: () => { what.value = text; typed(); what.focus(); }}, text));
  const go = onward('Get two policies', use, async () => {
    if (token.value) {
      who.value = (await post('sign_in', {token: token.value})).evaluator;
      token.value = '';
    }
    keepName(who.value);
    await post('open', {evaluator: who.value, instruction: what.value, repeat,
      third_person: outside.value});
    forgetTyped(state, 'task');
  }, {wait: 'drawing two policies', before: async () => {
    await use.act(look);
    return !repeat || await ask('This instruction was evaluated earlier today. Use it again?',
      {yes: 'Use it again', holds: (now) => now.state === state.state}) !== null;
  }});
  return {
    nodes: [...consent(use), el('label', {for: 'evaluator'}, 'Evaluator'), who,
      el('label', {for: 'token'}, 'Personal token'), token,
      el('label', {for: 'instruction'}, 'What should the robot do?'), what, hint,
      el('div', {class: 'examples'}, ...examples),
      ...(state.outside_cameras.length > 1 ? [el('label', {for: 'third-person'},
        'Which outside camera sees the task better? A policy with one sees only this.'),
      outside] : []), go, checks(state)],
    focus: who.value ? what : who,
  };
}

// What the server wants to see in the pictures of a few sessions.
function photoCode(state) {
  return state.photo_code ? [el('div', {id: 'photo-code', role: 'note'},
    el('b', {}, `The server asks for a code: ${state.photo_code}`),
    el('p', {}, 'Write it on paper as large as a hand, lay it where an outside camera sees it and '
      + 'the arm does not reach, then photograph. Leave it there until B has ended.'))] : [];
}

function assigned(state, use) {
  return {nodes: [
    ...photoCode(state),
    primary('Move the arm and photograph the start', use, () => press('photograph')),
    el('p', {class: 'hint'}, 'Both policies are fixed now. This number proves it afterwards:'),
    el('code', {id: 'commitment'}, state.commitment)]};
}

function photographed(state, use) {
  return {nodes: [
    ...photoCode(state),
    primary('Start A', use, () => start('A')),
    el('div', {class: 'second'},
      moving(second('again', 'Photograph again', use, () => press('photograph'))))]};
}

function running(state, use) {
  return {nodes: [
    el('p', {}, `Watch the robot. ${state.state.at(-1).toUpperCase()} ends by itself after its last step.`),
    primary('The task is done', use, () => press('done'))]};
}

function reset(state, use) {
  const measured = el('p', {id: 'match'});
  const moved = el('p', {id: 'moved', class: 'hint bad'});
  let match = null;
  const next = state.slots[0].end ? 'B' : 'A';
  const go = primary(`The scene is restored: start ${next}`, use, async () => {
    await press('confirm_reset');
    await start(next);
  }, {before: async () => match === null || light(match) !== 'red' || await ask(
    `The scene is only ${Math.round(100 * match)} % like the start. Start ${next} from it anyway?`,
    {yes: `Start ${next} anyway`, holds: (now) => now.state === state.state}) !== null});
  return {
    nodes: [measured, moved, go, el('div', {class: 'second'},
      moving(second('home', 'Move the arm to its reset pose', use,
        () => press('prepare_reset'))))],
    update(now) {
      match = now.match;
      measured.textContent = now.match === null ? 'The scene is not measured yet.'
        : isBlind() ? 'A camera sends no pictures now, so the scene cannot be compared.'
        : `The scene is ${Math.round(100 * now.match)} % like the start: ${light(now.match)}.`;
      moved.textContent = now.moved_cameras.map((role) => `The ${role} camera seems to have moved `
        + 'since the start photograph: move it back.').join(' ');
    },
  };
}

function submitting(state, use) {
  return {nodes: [
    el('p', {}, `Everything is stored at the station. ${use.options.site === null ? ''
      : 'The upload goes on by itself, even if the server cannot be reached now. '}`
      + 'The names of A and B are shown once it is finished.'),
    primary('Begin the next session', use, () => press('check'), CHECKING),
    el('div', {class: 'second'}, second('retry', 'Try again now', use, () => press('retry')))]};
}

// How many sessions this evaluator finished today, and where this one is seen.
function earned(state, use) {
  const {site} = use.options;
  const count = el('p', {id: 'count'});
  get('today').then((sessions) => {
    const done = sessions.filter((one) => one.state === 'done' && one.evaluator === state.evaluator);
    count.textContent = `Your ${ordinal(Math.max(done.length, 1))} session today.`;
  }).catch(() => {});
  const link = site && el('p', {}, el('a', {id: 'page', target: '_blank', rel: 'noopener',
    href: `${site.replace(/\/$/, '')}/evaluations/${state.session_id}`}, 'The page of this session'));
  return link ? [count, link] : [count];
}

const ENDINGS = {one: 'st', two: 'nd', few: 'rd', other: 'th'};
const ordinal = (n) => `${n}${ENDINGS[new Intl.PluralRules('en', {type: 'ordinal'}).select(n)]}`;

function finished(state, use) {
  const nodes = [];
  if (state.state === 'done' && state.policy_a) {    // a session that does not count names none
    nodes.push(el('dl', {id: 'reveal'}, el('dt', {}, 'A was'), el('dd', {}, state.policy_a),
      el('dt', {}, 'B was'), el('dd', {}, state.policy_b),
      el('dt', {}, 'Commitment'), el('dd', {}, state.verified ? 'matches the reveal'
        : !state.commitment ? 'lost, so the reveal cannot be checked'
        : 'DOES NOT MATCH: tell the maintainer of the arena')));
  }
  if (state.state === 'done') nodes.push(...earned(state, use), auditBox(state));
  return {nodes: [...nodes, onward('Begin the next session', use, () => press('check'), CHECKING)]};
}

const PANELS = {
  idle, preflight: task, task_entered: task, assigned, start_photographed: photographed,
  running_a: running, scoring_a: scoring('A', 'Keep the score: the arm moves to its reset pose'),
  reset, running_b: running, scoring_b: scoring('B', 'Keep the score of B'),
  preference: verdict, review: verdict,
  submitting,
};
