// What is typed is kept in this browser at once, and at the station soon after.

const KEY = 'arena-typed';
const NAME = 'arena-evaluator';
const SESSIONS = 5;
const DRAFT_MS = 600;
const SENT_MS = 3000;    // after this the station's state shows what was sent to it
let memory = {};         // where the browser keeps nothing
let memoryName = '';

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return memory;
  }
}

function write(all) {
  memory = all;
  try {
    localStorage.setItem(KEY, JSON.stringify(all));
  } catch { /* it stays in memory */ }
}

const sessionOf = (state) => state.session_id || `new ${state.created_ns}`;

// What was typed at `place` of the session and is not in the station's state yet, or null.
export function typedAt(state, place) {
  const one = read()[sessionOf(state)]?.places[place];
  return !one || (one.sentMs && Date.now() - one.sentMs > SENT_MS) ? null : one.words;
}

function put(state, place, one) {
  const all = read();
  const session = sessionOf(state);
  all[session] = {ms: Date.now(), places: {...all[session]?.places, [place]: one}};
  const old = Object.keys(all).sort((a, b) => all[b].ms - all[a].ms).slice(SESSIONS);
  for (const name of old) delete all[name];
  write(all);
}

export const keepTyped = (state, place, words) => put(state, place, {words, sentMs: 0});

// What was typed is final now.
export const forgetTyped = (state, place) => put(state, place, null);

// Returns what to call after each change at `place`: it keeps the words here at once, and sends
// them with `send` once nothing was typed for a while. What was not sent before is sent now.
export function keeper(state, place, words, send) {
  let timer;
  const settle = async () => {
    const now = words();
    try {
      await send(now);
      const kept = JSON.stringify(typedAt(state, place)) === JSON.stringify(now);
      if (kept) put(state, place, {words: now, sentMs: Date.now()});
    } catch { /* it is still kept here, and sent with the next change or by the next page */ }
  };
  if (typedAt(state, place)) timer = setTimeout(settle, DRAFT_MS);
  return () => {
    keepTyped(state, place, words());
    clearTimeout(timer);
    timer = setTimeout(settle, DRAFT_MS);
  };
}

export function nameTyped() {
  try {
    return localStorage.getItem(NAME) ?? '';
  } catch {
    return memoryName;
  }
}

export function keepName(name) {
  memoryName = name;
  try {
    localStorage.setItem(NAME, name);
  } catch { /* as long as the page is open */ }
}

// What a question needs to keep its answer: `value` to begin with, `keep` after each change.
export function questionKeeper(state, place, before = '', send = async () => {}) {
  let answer = typedAt(state, place) ?? before;
  const changed = keeper(state, place, () => answer, send);
  return {
    value: () => typedAt(state, place) ?? answer,
    keep: (text) => { answer = text; changed(); },
    done: () => forgetTyped(state, place),
  };
}
