// A rollout that says nothing about the policy: its slot is run again.

import {press} from './api.js';
import {moving, primary} from './buttons.js';
import {ask, el} from './dom.js';
import {questionKeeper} from './typed.js';

async function again(reason = '') {
  await press('rerun', reason);
  await press('prepare_reset');
}

function before(one) {
  return one.reruns === 0 ? [] : [el('p', {class: 'hint', id: 'reruns'},
    `${one.slot} was run again ${one.reruns === 1 ? 'once' : `${one.reruns} times`}; the earlier `
    + 'rollouts are kept and do not count.')];
}

// The station failed: running the slot again is the way on, and scoring it asks.
export function failed(one, state, use) {
  const score = el('button', {type: 'button', id: 'score-anyway', onclick: async () => {
    const sure = await ask(`The station failed, not the policy. Score ${one.slot} anyway?`,
      {yes: `Score ${one.slot} as it is`, holds: (now) => now.state === state.state});
    if (sure === null) return;
    use.kept.add(`${state.session_id}${one.slot}${one.reruns}`);
    use.redraw();
  }}, `Score ${one.slot} as it is…`);
  return [
    el('p', {}, `This says nothing about the policy. ${one.slot} is run again from the same scene; `
      + 'this rollout is kept and does not count.'),
    ...before(one),
    primary(`Run ${one.slot} again: the arm moves to its reset pose`, use, () => again()),
    el('div', {class: 'second'}, score)];
}

// The evaluator spoiled it, and says how.
export function mistake(one, state, use) {
  if (one.again !== 'mistake') return before(one);
  const kept = questionKeeper(state, `mistake ${one.slot}`);
  const button = moving(el('button', {type: 'button', id: 'mistake', onclick: async () => {
    const reason = await ask(`What was your mistake while ${one.slot} ran? It stays in the record.`,
      {words: true, yes: `Run ${one.slot} again`, ...kept,
        holds: (now) => now.state === state.state});
    if (reason !== null) await use.act(() => again(reason));
  }}, `I made a mistake: run ${one.slot} again…`));
  return [...before(one), el('div', {class: 'second'}, button)];
}
