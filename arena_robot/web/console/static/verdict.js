// What the evaluator says: panels and inputs, made from the server's list of fields.

import {post, press} from './api.js';
import {primary, second} from './buttons.js';
import {el, settled} from './dom.js';

export function scoring(slot, next) {
  return (state, use) => {
    const one = state.slots.find((found) => found.slot === slot);
    const fields = fieldsAt(use, 'score', slot);
    const keep = settled(() => post('draft', {slot, ...form.words()}).catch(() => {}));
    const form = inputs(use, fields, typed(state, fields), keep);
    const go = primary(next, use, async () => {
      await score(slot, form);
      if (slot === 'A') await press('prepare_reset');
    });
    return {nodes: [
      el('p', {class: 'hint'}, `${slot} ended: ${one.end.replace('_', ' ')} after ${one.steps} `
        + `steps. ${one.detail}`),
      ...form.nodes, go]};
  };
}

async function score(slot, form) {
  if (form.words().progress === null) {
    throw new Error('Move the slider, or press one of the marks.');
  }
  await post('score', {slot, ...form.words()});
}

export function preference(state, use) {
  const fields = fieldsAt(use, 'judge');
  const keep = settled(() => post('draft', form.words()).catch(() => {}));
  const form = inputs(use, fields, typed(state, fields), keep);
  const go = primary('Continue to the review', use, () => post('judge', form.words()));
  return {nodes: [...form.nodes, go], focus: form.focus};
}

export function review(state, use) {
  const {verdict} = state;
  const rows = [['Task', state.instruction],
    ...state.slots.map((one) => [one.slot, one.end || 'did not run']),
    ...use.options.fields.map((one) => [one.label, wordsOf(one, verdict[one.name])
      || (one.required ? '–' : '')]).filter(([, text]) => text)];
  if (state.match !== null) rows.push(['Same start', `${Math.round(100 * state.match)} %`]);
  const list = el('dl', {id: 'review'},
    ...rows.flatMap(([name, text]) => [el('dt', {}, name), el('dd', {}, text)]));
  const edit = el('div', {id: 'edit'});
  const show = (nodes) => {
    edit.replaceChildren(...nodes);
    edit.scrollIntoView({block: 'nearest'});
  };
  const buttons = state.slots.filter((one) => one.end).map((one) => el('button', {
    type: 'button', id: `edit-${one.slot}`, onclick: () => show(rescore(one.slot, state, use))},
  `Change the score of ${one.slot}`));
  if (verdict.valid) {
    buttons.push(el('button', {type: 'button', id: 'edit-verdict', onclick: () => {
      const nodes = preference(state, use).nodes;
      nodes.at(-1).id = 'keep';
      nodes.at(-1).textContent = 'Keep this';
      show(nodes);
    }}, 'Change the preference'));
  } else {
    buttons.push(second('revalidate', 'It counts again', use, () => press('revalidate')));
  }
  return {nodes: [list, primary('Submit', use, () => post('submit')),
    el('p', {class: 'hint'}, 'After this nothing can be changed.'),
    el('div', {class: 'second'}, ...buttons), edit]};
}

function rescore(slot, state, use) {
  const form = inputs(use, fieldsAt(use, 'score', slot), state.verdict, () => {});
  return [...form.nodes, el('button', {type: 'button', id: 'keep',
    onclick: () => use.act(() => score(slot, form))}, `Keep the score of ${slot}`)];
}

// The fields that are asked for at one moment; of one slot when it is given.
function fieldsAt(use, asked, slot = null) {
  return use.options.fields.filter((one) => one.asked === asked && one.slot === slot);
}

// What was typed so far, also when it was cleared, and otherwise what was said.
function typed(state, fields) {
  return Object.fromEntries(fields.map((one) => [one.name, state.draft[one.name]]));
}

// One input per field. `words` returns what they hold; `changed` is called after each change.
function inputs(use, fields, values, changed) {
  const made = fields.map((one) => MAKERS[one.kind](one, values[one.name], use, changed));
  return {
    nodes: made.flatMap((one) => one.nodes),
    words: () => Object.fromEntries(fields.map((one, k) => [one.key, made[k].value()])),
    focus: made.map((one) => one.focus).find(Boolean),
  };
}

// The text of a value for people; empty while it is not said.
function wordsOf(field, value) {
  if (field.kind === 'flag') return value ? 'yes' : 'no';
  if (value === null || value === '') return '';
  if (field.kind === 'share') return `${Math.round(100 * value)} of 100`;
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
    changed();
  };
  range.addEventListener('input', () => set(range.value));
  const anchors = use.options.rubric.map(([mark, words]) => el('button', {type: 'button',
    'data-mark': mark, onclick: () => set(mark)}, el('b', {}, mark), words));
  return {nodes: [el('p', {}, `${field.label}: `, percent, ' of 100'), range,
    el('div', {class: 'anchors'}, ...anchors)], value: () => value};
}

// A row of buttons; a second press on one that need not be said takes it back.
function choice(field, from, use, changed) {
  let chosen = from ?? '';
  const buttons = Object.entries(field.choices).map(([value, text]) => el('button', {
    type: 'button', 'data-value': value, onclick: () => {
      chosen = chosen === value && !field.required ? '' : value;
      mark();
      changed();
    }}, text));
  const mark = () => buttons.forEach((button) => {
    button.classList.toggle('chosen', button.dataset.value === chosen);
  });
  mark();
  return {nodes: [el('p', {class: 'question'}, field.question),
    el('div', {class: 'choice', id: field.key}, ...buttons)], value: () => chosen};
}

function text(field, from, use, changed) {
  const box = el('textarea', {id: field.key});
  box.value = from;
  box.addEventListener('input', changed);
  return {nodes: [el('label', {for: field.key}, field.question), box], value: () => box.value,
    focus: field.required ? box : null};
}

const MAKERS = {share, choice, text};
