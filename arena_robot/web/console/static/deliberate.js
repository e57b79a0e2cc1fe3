// Buttons that need a deliberate press: enabled once they have stood in one place, in sight.

const STILL_MS = 700;
const MOVED_PX = 4;
const places = new WeakMap();

// Tells whether a button has been in its place for long enough; looks at it now.
export function isStill(button) {
  const now = performance.now();
  const {x, y, width, height} = button.getBoundingClientRect();
  const before = places.get(button);
  const hit = document.elementFromPoint(x + width / 2, y + height / 2);
  if (before && button.contains(hit)
      && Math.max(Math.abs(before.x - x), Math.abs(before.y - y)) <= MOVED_PX) {
    return now - before.since >= STILL_MS;
  }
  places.set(button, {x, y, since: now});
  return false;
}

// Locks a button, or unlocks it; one that needs a deliberate press only after a while.
export function setLocked(button, locked) {
  if (locked) places.delete(button);
  button.disabled = locked || ('deliberate' in button.dataset && !isStill(button));
}

// A press on such a button that has just moved is not meant for it. Ctrl+Enter presses the button
// that is marked as next, which moves no arm.
export function buildDeliberate() {
  window.addEventListener('click', (event) => {
    const button = event.target.closest?.('[data-deliberate]');
    if (button && !isStill(button)) {
      button.disabled = true;
      event.preventDefault();
      event.stopImmediatePropagation();
    }
  }, true);
  window.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && event.repeat && event.target.tagName === 'BUTTON') {
      event.preventDefault();
    }
    const goes = event.key === 'Enter' && (event.ctrlKey || event.metaKey);
    if (!goes) return;
    event.preventDefault();
    if (!event.repeat) document.querySelector('[data-next]:enabled')?.click();
  }, true);
}
