// A clip plays while the mouse is over it or the keyboard is on it.
for (const clip of document.querySelectorAll('.clip video')) {
  for (const name of ['mouseenter', 'focus']) clip.addEventListener(name, () => clip.play().catch(() => {}));
  for (const name of ['mouseleave', 'blur']) clip.addEventListener(name, () => clip.pause());
}
// The videos of a session with one slider: they play, pause and jump together, and a line in the
// plot of the curves, where there is one, shows their time.
for (const section of document.querySelectorAll('.films')) {
  const films = [...section.querySelectorAll('video')];
  const steer = section.querySelector('.steer');
  const button = steer?.querySelector('button');
  const slider = steer?.querySelector('input');
  const cursor = section.querySelector('.cursor');
  if (steer) steer.hidden = false;
  const length = () => Math.max(...films.map((film) => film.duration || 0), Number(cursor?.dataset.seconds || 0));
  const playing = () => films.some((film) => !film.paused && !film.ended);
  const show = () => { if (button) button.textContent = playing() ? 'Pause both' : 'Play both'; };
  const mark = (seconds) => {
    if (slider) slider.value = 1000 * seconds / (length() || 1);
    if (!cursor) return;
    const { seconds: whole, left, right } = cursor.dataset;
    const x = Number(left) + (right - left) * Math.min(seconds / whole, 1);
    cursor.setAttribute('x1', x);
    cursor.setAttribute('x2', x);
  };
  const seek = (seconds) => {
    for (const film of films) film.currentTime = Math.min(seconds, film.duration || 0);
    mark(seconds);
  };
  const stop = () => { for (const film of films) film.pause(); };
  const follow = () => {
    if (!playing()) return;
    mark(Math.max(...films.map((film) => film.currentTime)));
    requestAnimationFrame(follow);
  };
  button?.addEventListener('click', () => {
    if (playing()) return stop();
    const now = films.every((film) => film.ended) ? 0 : Math.max(...films.map((film) => film.currentTime));
    seek(now);
    for (const film of films) if (now < film.duration) film.play().catch(() => {});
  });
  slider?.addEventListener('input', () => { stop(); seek((slider.value / 1000) * length()); });
  for (const film of films) {
    film.addEventListener('play', () => { show(); requestAnimationFrame(follow); });
    for (const name of ['pause', 'ended']) film.addEventListener(name, show);
    film.addEventListener('seeked', () => { if (!playing()) mark(film.currentTime); });
  }
  // An address that ends with #t=3.5 leads to that second and plays from there, once all films know
  // their length; a reader who wants less motion gets the picture of that second.
  const asked = /^#t=(\d+(?:\.\d+)?)$/.exec(location.hash);
  if (asked) Promise.all(films.map((film) => film.readyState || new Promise((ready) => {
    for (const name of ['loadedmetadata', 'error']) film.addEventListener(name, ready, { once: true });
  }))).then(() => {
    seek(Number(asked[1]));
    if (!matchMedia('(prefers-reduced-motion: reduce)').matches) {
      for (const film of films) if (Number(asked[1]) < film.duration) film.play().catch(() => {});
    }
  });
  cursor?.ownerSVGElement.addEventListener('click', (event) => {
    const plot = event.currentTarget, box = plot.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * plot.viewBox.baseVal.width;
    const { seconds, left, right } = cursor.dataset;
    stop();
    seek(Math.max(0, Math.min(1, (x - left) / (right - left))) * seconds);
  });
}
