// Buttons of the panels.

import {press} from './api.js';
import {ask, el} from './dom.js';

// The main button; console.js puts it into its place. `before` may ask, and refuse with false.
// `wait` names what takes a while after the press.
export const primary = (text, use, work, {before, wait} = {}) => el('button', {
  id: 'primary', type: 'button', 'data-deliberate': true, onclick: async () => {
    if (!before || await before() !== false) await use.act(work, wait);
  }}, text);

// A main button after which no arm moves: Ctrl+Enter presses it too (deliberate.js).
export const onward = (...how) => {
  const button = primary(...how);
  button.dataset.next = '';
  button.append(el('kbd', {}, 'Ctrl + Enter'));
  return button;
};
export const moving = (button) => { button.dataset.deliberate = ''; return button; };
export const asking = (id, text, use, question, options, name) => el('button', {
  id, type: 'button', onclick: async () => {
    const reason = await ask(question, options);
    if (reason !== null) await use.act(() => press(name, reason));
  }}, text);
export const second = (id, text, use, work) => el('button', {
  id, type: 'button', onclick: () => use.act(work)}, text);
