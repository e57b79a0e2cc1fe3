// A rollout that says nothing about the policy: its slot is run again.

import {press} from './api.js';
import {moving, primary} from './buttons.js';
import {ask, el} from './dom.js';
import {questionKeeper} from './typed.js';

async function again(reason = '') {
  await press('rerun', reason);
  await press('prepare_reset');
}

function before(rollout) {
  return rollout.reruns === 0 ? [] : [el('p', {class: 'hint', id: 'reruns'},
    `${rollout.slot} was run again ${rollout.reruns === 1 ? 'once' : `${rollout.reruns} times`}; the earlier `
    + 'rollouts are kept and do not count.')];
}

// The station failed: running the slot again is the way on, and scoring it asks.
export function failed(rollout, state, use) {
  const score = el('button', {type: 'button', id: 'score-anyway', onclick: async () => {
    const sure = await ask(`The station failed, not the policy. Score ${rollout.slot} anyway?`,
      {yes: `Score ${rollout.slot} as it is`, holds: (now) => now.state === state.state});
    if (sure === null) return;
    use.kept.add(`${state.session_id}${rollout.slot}${rollout.reruns}`);
    use.redraw();
  }}, `Score ${rollout.slot} as it is…`);
  return [
    el('p', {}, `This says nothing about the policy. ${rollout.slot} is run again from the same scene; `
      + 'this rollout is kept and does not count.'),
    ...before(rollout),
    primary(`Run ${rollout.slot} again: the arm moves to its reset pose`, use, () => again()),
    el('div', {class: 'second'}, score)];
}

// The evaluator spoiled it, and says how.
export function mistake(rollout, state, use) {
  if (rollout.again !== 'mistake') return before(rollout);
  const kept = questionKeeper(state, `mistake ${rollout.slot}`);
  const button = moving(el('button', {type: 'button', id: 'mistake', onclick: async () => {
    const reason = await ask(`What was your mistake while ${rollout.slot} ran? It stays in the record.`,
      {words: true, yes: `Run ${rollout.slot} again`, ...kept,
        holds: (now) => now.state === state.state});
    if (reason !== null) await use.act(() => again(reason));
  }}, `I made a mistake: run ${rollout.slot} again…`));
  return [...before(rollout), el('div', {class: 'second'}, button)];
}
