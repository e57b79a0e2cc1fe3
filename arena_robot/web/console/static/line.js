// The line: a WebSocket to the station that is kept open, as a second way for STOP.

const BEAT_MS = 500;
const SILENT_MS = 2000;    // without an answer to a beat the line counts as down
const SHOWN_MS = 1000;     // how long it may be down before the page shows it
let socket = null;
let isOpen = false;
let heardMs = 0;
let downMs = 0;
let tell = () => {};
const waiting = new Map();

// `told` is called with whether the line is up, after each beat.
export function buildLine(told) {
  tell = told;
  downMs = performance.now();
  setInterval(beat, BEAT_MS);
  connect();
}

function connect() {
  const protocol = location.protocol === 'https:' ? 'wss' : 'ws';
  heardMs = performance.now();
  let made;
  try {
    made = new WebSocket(`${protocol}://${location.host}/api/stop_line`);
  } catch {
    return;    // the next beat tries again
  }
  socket = made;
  made.addEventListener('open', () => { isOpen = true; heardMs = performance.now(); tell(true); });
  made.addEventListener('message', (event) => { if (made === socket) hear(event.data); });
  made.addEventListener('close', () => { if (made === socket) close('was interrupted'); });
}

function hear(text) {
  heardMs = performance.now();
  const words = JSON.parse(text);
  const press = waiting.get(words.stop);
  if (!press) return;
  if (words.at_rest) press.resolve();
  else press.reject(new Error(words.detail));
}

function close(why) {
  const old = socket;
  socket = null;
  if (isOpen) downMs = performance.now();
  isOpen = false;
  old?.close();
  for (const press of [...waiting.values()]) press.reject(new Error(`the line ${why}`));
}

function beat() {
  if (socket && performance.now() - heardMs > SILENT_MS) close('does not answer');
  if (!socket) connect();
  else if (isOpen) socket.send(JSON.stringify({ping: 1}));
  tell(isOpen || performance.now() - downMs < SHOWN_MS);
}

// Sends one press of STOP; resolves once the arm has confirmed that it is at rest.
export function stopByLine(name, timeoutMs = 3000) {
  return new Promise((resolve, reject) => {
    if (!isOpen) throw new Error('the line is interrupted');
    waiting.set(name, {resolve, reject});
    setTimeout(() => reject(new Error('the line does not answer')), timeoutMs);
    socket.send(JSON.stringify({stop: name}));
  }).finally(() => waiting.delete(name));
}
