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

// Asks in a dialog; resolves to the typed words ('' when none were wanted), or null for "Back".
export function ask(question, {words = false, yes = 'OK', value = ''} = {}) {
  const dialog = byId('ask');
  byId('question').textContent = question;
  byId('yes').textContent = yes;
  const input = byId('answer');
  input.hidden = !words;
  input.required = words;
  input.value = value;
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      resolve(dialog.returnValue === 'yes' ? input.value : null);
    }, {once: true});
    dialog.returnValue = 'no';
    dialog.showModal();
  });
}

// Calls `work` once nothing was typed for a while.
export function settled(work, ms = 600) {
  let timer;
  return (...words) => { clearTimeout(timer); timer = setTimeout(() => work(...words), ms); };
}
