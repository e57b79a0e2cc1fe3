// The inputs for what the evaluator says, made from the server's list of fields.

import {el} from './dom.js';

// The fields that are asked for at one moment; of one slot when it is given.
export function fieldsAt(use, asked, slot = null) {
  return use.options.fields.filter((one) => one.asked === asked && one.slot === slot);
}

// What was said or typed so far: the draft where there is one.
export function typed(state, fields) {
  return Object.fromEntries(fields.map((one) => {
    const draft = state.draft[one.name];
    const isSaid = draft !== null && draft !== '';
    return [one.name, isSaid ? draft : state.verdict[one.name]];
  }));
}

// One input per field. `words` returns what they hold; `changed` is called after each change.
export function inputs(use, fields, values, changed) {
  const made = fields.map((one) => MAKERS[one.kind](one, values[one.name], use, changed));
  return {
    nodes: made.flatMap((one) => one.nodes),
    words: () => Object.fromEntries(fields.map((one, k) => [one.key, made[k].value()])),
    focus: made.map((one) => one.focus).find(Boolean),
  };
}

// The text of a value for people; empty while it is not said.
export function wordsOf(field, value) {
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
