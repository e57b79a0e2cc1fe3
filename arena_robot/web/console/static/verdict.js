// What the evaluator says: panels and inputs, made from the server's list of fields.

import {post, press} from './api.js';
import {onward, primary, second} from './buttons.js';
import {el, setPressed} from './dom.js';
import {failed, mistake} from './rerun.js';
import {forgetTyped, keeper, typedAt} from './typed.js';

export function scoring(slot, next) {
  return (state, use) => {
    const rollout = state.slots.find((slotState) => slotState.slot === slot);
    const ended = el('p', {class: 'hint', id: 'ended', dir: 'auto'}, `${slot}: ${endOf(rollout, use)}. `
      + (rollout.end === 'timeout' ? '' : sentence(rollout.detail)));
    if (rollout.again === 'fault' && !use.kept.has(`${state.session_id}${slot}${rollout.reruns}`)) {
      return {nodes: [ended, ...failed(rollout, state, use)]};
    }
    const form = scoreForm(slot, state, use);
    const go = slot === 'B' ? onward(next, use, () => score(slot, state, form))
      : primary(next, use, async () => {
        await score(slot, state, form);
        await press('prepare_reset');
      });
    return {nodes: [ended, ...form.nodes, go, ...mistake(rollout, state, use)]};
  };
}

function scoreForm(slot, state, use) {
  const fields = fieldsAt(use, 'score', slot);
  const keep = keeper(state, slot, () => form.words(), (now) => post('draft', {slot, ...now}));
  const form = inputs(use, fields, typed(state, slot, fields), keep);
  return form;
}

async function score(slot, state, form) {
  if (form.words().progress === null) {
    throw new Error('Move the slider, or press one of the marks.');
  }
  await post('score', {slot, ...form.words()});
  forgetTyped(state, slot);
}

// Which was better, why, what was said before, and the submission: one page.
export function verdict(state, use) {
  if (!state.verdict.valid) {
    return {nodes: [onward('Submit', use, () => post('submit')), ...said(state, use, [
      second('revalidate', 'It counts again', use, () => press('revalidate'))])]};
  }
  const fields = fieldsAt(use, 'judge');
  const keep = keeper(state, 'judge', () => form.words(), (now) => post('draft', now));
  const form = inputs(use, fields, typed(state, 'judge', fields), keep);
  const go = onward('Submit', use, async () => {
    await post('judge', form.words());
    await post('submit');
    forgetTyped(state, 'judge');
  });
  return {nodes: [...form.nodes, go, ...said(state, use)], key: chooseByKey};
}

// 1, 2, 3 choose A, no difference, B; other characters begin the reason. In a field all are typed.
function chooseByKey(event) {
  const {target, key} = event;
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat
      || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName)) return;
  const button = document.querySelectorAll('#preference button')[Number(key) - 1];
  if (button && button.getAttribute('aria-pressed') !== 'true') button.click();
  if (!button && key.length === 1 && key !== ' ') document.getElementById('explanation').focus();
}

// What was said of the two rollouts, and how to change it.
function said(state, use, more = []) {
  const rows = [...state.slots.map((rollout) => [rollout.slot, endOf(rollout, use)]),
    ...use.options.fields.filter((field) => field.asked !== 'judge').map(
      (field) => [field.label, wordsOf(field, state.verdict[field.name])
        || (field.required ? '–' : '')]).filter(([, text]) => text)];
  if (state.match !== null) rows.push(['Same start', `${Math.round(100 * state.match)} %`]);
  const edit = el('div', {id: 'edit'});
  const show = (nodes) => {
    edit.replaceChildren(...nodes);
    edit.scrollIntoView({block: 'nearest'});
  };
  const buttons = state.slots.filter((rollout) => rollout.end).map((rollout) => el('button', {
    type: 'button', id: `edit-${rollout.slot}`, onclick: () => show(rescore(rollout.slot, state, use))},
  `Change the score of ${rollout.slot}`));
  return [el('p', {class: 'hint'}, 'After submitting, nothing can be changed.'),
    el('dl', {id: 'review'}, ...rows.flatMap(([name, text]) => [
      el('dt', {}, name), el('dd', {dir: 'auto'}, text)])),
    el('div', {class: 'second'}, ...buttons, ...more), edit];
}

const sentence = (text) => text && `${text[0].toUpperCase()}${text.slice(1)}.`;

// How a rollout ended, as a person says it.
function endOf(rollout, use) {
  return rollout.end ? `${use.options.ends[rollout.end]} after ${rollout.steps} steps` : 'did not run';
}

function rescore(slot, state, use) {
  const form = scoreForm(slot, state, use);
  return [...form.nodes, el('button', {type: 'button', id: 'keep',
    onclick: () => use.act(() => score(slot, state, form))}, `Keep the score of ${slot}`)];
}

// The fields that are asked for at one moment; of one slot when it is given.
function fieldsAt(use, asked, slot = null) {
  return use.options.fields.filter((field) => field.asked === asked && field.slot === slot);
}

// What was typed so far, also when it was cleared, and otherwise what was said.
function typed(state, place, fields) {
  const kept = typedAt(state, place) ?? {};
  return Object.fromEntries(fields.map((field) => {
    const value = kept[field.key];
    if (value === undefined) return [field.name, state.draft[field.name]];
    return [field.name, field.kind === 'share' && value !== null ? value / 100 : value];
  }));
}

// One input per field. `words` returns what they hold; `changed` is called after each change.
function inputs(use, fields, values, changed) {
  const made = fields.map((field) => MAKERS[field.kind](field, values[field.name], use, changed));
  return {
    nodes: made.flatMap((input) => input.nodes),
    words: () => Object.fromEntries(fields.map((field, k) => [field.key, made[k].value()])),
    focus: made.map((input) => input.focus).find(Boolean),
  };
}

// The text of a value for people; empty while it is not said.
function wordsOf(field, value) {
  if (field.kind === 'flag') return value ? 'yes' : 'no';
  if (value === null || value === '') return '';
  if (field.kind === 'share') return `${Math.round(100 * value)} of 100`;
  if (field.kind === 'number') return `${value} ${field.unit}`.trim();
  return field.kind === 'choice' ? field.choices[value] : value;
}

// A slider from 0 to 100 with the rubric's anchors; `from` is a share of 0 to 1, or null.
function share(field, from, use, changed) {
  let value = from === null ? null : Math.round(100 * from);
  const percent = el('output', {id: 'percent'}, value ?? '–');
  const range = el('input', {type: 'range', id: field.key, min: 0, max: 100, step: 1,
    value: value ?? 0, 'aria-label': field.label});
  const set = (wanted) => {
    value = Number(wanted);
    range.value = value;
    percent.textContent = value;
    mark();
    changed();
  };
  range.addEventListener('input', () => set(range.value));
  const anchors = use.options.rubric.map(([at, words]) => el('button', {type: 'button',
    'data-mark': at, onclick: () => set(at)}, el('b', {}, at), words));
  const mark = () => anchors.forEach((anchor) => setPressed(anchor, Number(anchor.dataset.mark) === value));
  mark();
  return {nodes: [el('p', {}, `${field.label}: `, percent, ' of 100'), range,
    el('div', {class: 'anchors'}, ...anchors)], value: () => value};
}

// A row of buttons; a second press on one that need not be said takes it back. Of a list several
// can be pressed, and are kept as one text.
const BETWEEN = '; ';
function choice(field, from, use, changed) {
  let chosen = (from || null)?.split(BETWEEN) ?? [];
  const buttons = Object.entries(field.choices).map(([value, text], k) => el('button', {
    type: 'button', 'data-value': value, onclick: () => {
      const others = chosen.filter((one) => one !== value);
      if (field.many) chosen = chosen.includes(value) ? others : [...chosen, value];
      else chosen = chosen.includes(value) && !field.required ? [] : [value];
      mark();
      changed();
    }}, field.required ? el('kbd', {}, k + 1) : null, text));
  const mark = () => buttons.forEach((button) => {
    setPressed(button, chosen.includes(button.dataset.value));
  });
  mark();
  return {nodes: [el('p', {class: 'question'}, field.question),
    el('div', {class: 'choice', id: field.key}, ...buttons)], value: () => chosen.join(BETWEEN)};
}

// A count or seconds; empty while nobody says.
function number(field, from, use, changed) {
  const box = el('input', {type: 'number', id: field.key, min: 0, step: field.whole ? 1 : 0.1,
    value: from ?? ''});
  box.addEventListener('input', changed);
  const unit = field.unit ? ` (${field.unit})` : '';
  return {nodes: [el('label', {for: field.key}, field.question + unit), box],
    value: () => (box.value === '' ? null : Number(box.value))};
}

// A button that is pressed for yes.
function flag(field, from, use, changed) {
  let yes = Boolean(from);
  const button = el('button', {type: 'button', id: field.key, class: 'flag', onclick: () => {
    yes = !yes;
    setPressed(button, yes);
    changed();
  }}, field.question);
  setPressed(button, yes);
  return {nodes: [button], value: () => yes};
}

function text(field, from, use, changed) {
  const box = el('textarea', {id: field.key, dir: 'auto'});
  box.value = from;
  box.addEventListener('input', changed);
  return {nodes: [el('label', {for: field.key}, field.question), box], value: () => box.value,
    focus: field.required ? box : null};
}

const MAKERS = {share, choice, listed: choice, number, text, flag};
