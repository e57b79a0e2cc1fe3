// Requests to the station. A refusal becomes an Error with the station's message.

import {nameTyped} from './typed.js';

const SEAT = 'arena-seat';

export const seat = () => sessionStorage.getItem(SEAT) ?? '';

// Returns the response; an Error in plain words where none comes.
async function fetched(path, timeoutMs, options = {}) {
  try {
    return await fetch(`/api/${path}`, {...options, signal: AbortSignal.timeout(timeoutMs)});
  } catch (error) {
    throw new Error(error.name === 'TimeoutError' ? `no answer within ${timeoutMs / 1000} s`
      : 'no connection');
  }
}

async function answer(response) {
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new Error(body?.detail ?? `the console answered ${response.status}`);
  if (body === null) throw new Error('its answer was cut off');
  return body;
}

export async function get(path, timeoutMs = 20000) {
  return answer(await fetched(path, timeoutMs, {headers: {'X-Seat': seat()}}));
}

export async function post(path, words = {}) {
  return answer(await fetch(`/api/${path}`, {
    method: 'POST', body: JSON.stringify(words),
    headers: {'Content-Type': 'application/json', 'X-Seat': seat()},
  }));
}

// Reads pictures: per picture its length in 4 bytes, then the JPEG.
export async function pictures(path) {
  const response = await fetched(path, 20000);
  if (!response.ok) throw new Error(`the console answered ${response.status}`);
  const data = await response.arrayBuffer();
  const blobs = [];
  for (let at = 0; at < data.byteLength;) {
    const length = new DataView(data).getUint32(at);
    blobs.push(new Blob([data.slice(at + 4, at + 4 + length)], {type: 'image/jpeg'}));
    at += 4 + length;
  }
  return blobs;
}

export async function sit(takeOver) {
  const name = nameTyped();
  const given = await post('sit', {
    name: name ? `${name}'s page` : 'another page', take_over: takeOver});
  sessionStorage.setItem(SEAT, given.seat);
}

let isStopped = false;

// After STOP, what is left of the step under way is not sent. The next press is a new step.
export const noteStop = (is) => { isStopped = is; };

async function step(path, words) {
  if (isStopped) {
    throw new Error('STOP was pressed: the rest of this step is not done. Begin it again when it is safe.');
  }
  return post(path, words);
}

export const press = (button, text = '') => step('press', {button, text});
export const start = (slot) => step('start', {slot});

// Asks the station to stop the arm; resolves once the arm's own measurement shows rest.
// `name` is that of the press: the station stops once for it, by whichever way it comes first.
export async function stopByRequest(name, timeoutMs = 3000) {
  const stopped = await answer(await fetched(`stop?press=${name}`, timeoutMs, {
    method: 'POST', priority: 'high', cache: 'no-store',
  }));
  if (!stopped.at_rest) throw new Error('the station does not tell whether the arm is at rest');
}
