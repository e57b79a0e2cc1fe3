// Makes elements: el('p', {class: 'hint'}, 'words', other).

export const byId = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

// Shows that a button stays pressed, to eyes and to screen readers.
export function setPressed(button, is) {
  button.classList.toggle('chosen', is);
  button.setAttribute('aria-pressed', is);
}

// Sets a text that is read out when it changes, and only then.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

let asked = null;

// Asks above the main button, beside everything else: it covers nothing, so STOP can be pressed.
// Resolves to the typed words ('' when none were wanted), or null for "Back", for another
// question, and once `holds(state)` is no longer true.
export function ask(question, {words = false, yes = 'OK', value = () => '', keep = () => {},
  done = () => {}, holds = () => true} = {}) {
  answer(null);
  byId('question').textContent = question;
  byId('yes').textContent = yes;
  byId('answer').hidden = !words;
  byId('answer').value = value();
  byId('ask').classList.remove('bad');
  byId('ask').hidden = false;
  byId(words ? 'answer' : 'no').focus();
  return new Promise((resolve) => { asked = {resolve, words, keep, done, holds}; });
}

// Closes the open question, if there is one.
function answer(words) {
  const {resolve} = asked ?? {};
  asked = null;
  byId('ask').hidden = true;
  resolve?.(words);
}

// Closes a question that makes no sense in the new state.
export function reconsider(state) {
  if (asked && !asked.holds(state)) answer(null);
}

export function buildAsk() {
  byId('answer').addEventListener('input', () => asked?.keep(byId('answer').value));
  byId('no').addEventListener('click', () => answer(null));
  byId('ask').addEventListener('keydown', (event) => {
    if (event.key === 'Escape') answer(null);
  });
  byId('ask').addEventListener('submit', (event) => {
    event.preventDefault();
    const words = byId('answer').value;
    const lacking = asked.words && !words.trim();
    byId('ask').classList.toggle('bad', lacking);
    if (lacking) {
      byId('answer').focus();
      return;
    }
    asked.done();
    answer(asked.words ? words : '');
  });
}

// Calls `work` once nothing was typed for a while.
export function settled(work, ms = 600) {
  let timer;
  return (...words) => { clearTimeout(timer); timer = setTimeout(() => work(...words), ms); };
}
