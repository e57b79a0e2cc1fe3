// STOP: says at once that it was pressed, and shows when the arm has confirmed that it is at rest.

// It goes out by a request and by the line (line.js), whichever is first.

import {noteStop, stopByRequest} from './api.js';
import {byId, el} from './dom.js';
import {buildLine, stopByLine} from './line.js';

const CONFIRM_MS = 500;
const AGAIN_MS = 500;
const AT_ONCE = 3;    // requests under way
const PENDING = 'arena-stop-pending';
let since = null;    // when the stop that is not confirmed yet was pressed
let isMoving = () => true;
let wasMoving = false;
let handled = false;
let sending = 0;

// `moving` tells whether the arm moves, or may move because its state is not known.
export function buildStop(moving) {
  isMoving = moving;
  buildLine(shown);
  const button = byId('stop');
  let downMs = -Infinity;
  button.addEventListener('pointerdown', () => { downMs = performance.now(); stop(); });
  button.addEventListener('click', (event) => {
    // A click that a pointer made was sent when the pointer went down.
    if (event.detail === 0 || performance.now() - downMs > 2000) stop();
  });
  window.addEventListener('keydown', onKeyDown, true);
  window.addEventListener('keyup', onKeyUp, true);
  new ResizeObserver(([footer]) => {
    document.body.style.paddingBottom = `${footer.target.offsetHeight}px`;
  }).observe(button.parentElement);
  for (const change of ['resize', 'scroll']) visualViewport.addEventListener(change, follow);
  if (sessionStorage.getItem(PENDING)) stop();
}

function shown(isUp) {
  byId('line').hidden = isUp;
}

export async function stop() {
  noteStop(true);
  byId('stop').classList.add('pressed');
  say('STOP is pressed. Waiting for the arm …');
  if (since === null) {
    since = performance.now();
    sessionStorage.setItem(PENDING, 'yes');
    setTimeout(alarm, CONFIRM_MS, since);
  }
  if (sending < AT_ONCE) await send(since);
}

async function send(of) {
  sending += 1;
  while (since === of) {
    try {
      await stopByBoth();
      if (since === of) confirmed();
    } catch (error) {
      alarm(of, error.message);
      await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS); });
    }
  }
  sending -= 1;
}

async function stopByBoth() {
  const name = `${Date.now()}-${Math.random()}`;
  const [line, request] = [stopByLine(name), stopByRequest(name)];
  try {
    await Promise.any([request, line]);
  } catch (error) {
    throw error.errors[0];
  }
}

// The confirmation is removed once the arm moves again.
export function updateStop() {
  const moving = isMoving();
  if (moving && !wasMoving && since === null) say('');
  wasMoving = moving;
}

function confirmed() {
  const tookS = (performance.now() - since) / 1000;
  since = null;
  sessionStorage.removeItem(PENDING);
  byId('alarm').hidden = true;
  byId('stop').classList.remove('pressed');
  wasMoving = true;
  say(`The arm is at rest: confirmed ${tookS.toFixed(2)} s after STOP.`, true);
}

function say(text, rest = false) {
  byId('stopped').textContent = text;
  byId('stopped').classList.toggle('rest', rest);
}

// Only the arm's confirmation removes this message.
function alarm(of, detail = '') {
  if (since !== of) return;
  byId('alarm').hidden = false;
  byId('alarm').replaceChildren(
    'The arm has not confirmed that it is at rest. Use the hardware stop.',
    el('small', {}, `STOP is sent again until the arm confirms. ${detail && `(${detail})`}`));
}

const typing = (node) => ['TEXTAREA', 'SELECT'].includes(node.tagName)
  || (node.tagName === 'INPUT' && node.type !== 'range');
const takesSpace = (node) => typing(node) || ['BUTTON', 'SUMMARY'].includes(node.tagName);

// While the arm moves, the space bar is STOP and nothing else.
function onKeyDown(event) {
  if (event.code !== 'Space') return;
  const modified = event.ctrlKey || event.altKey || event.metaKey;
  if (!isMoving() && (modified || takesSpace(event.target))) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  if (!event.repeat || !handled) stop();
  handled = true;
}

function onKeyUp(event) {
  if (event.code !== 'Space') return;
  if (handled || isMoving()) event.preventDefault();
  handled = false;
}

// Keeps STOP in sight when the page is zoomed or an on-screen keyboard covers a part of it.
function follow() {
  const {offsetLeft, offsetTop, height, scale} = visualViewport;
  const up = offsetTop + height - document.documentElement.clientHeight;
  byId('stop').parentElement.style.transform = scale === 1 && Math.abs(up) < 1 ? ''
    : `translate(${offsetLeft}px, ${up}px) scale(${1 / scale})`;
}
