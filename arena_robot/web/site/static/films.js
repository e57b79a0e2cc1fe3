// Two videos of one session with one slider: they play, pause and jump together.
for (const section of document.querySelectorAll('.films')) {
  const films = [...section.querySelectorAll('video')];
  const steer = section.querySelector('.steer');
  const button = steer.querySelector('button');
  const slider = steer.querySelector('input');
  steer.hidden = false;
  const length = () => Math.max(...films.map((film) => film.duration || 0));
  const show = (playing) => { button.textContent = playing ? 'Pause both' : 'Play both'; };
  const seek = (seconds) => {
    for (const film of films) film.currentTime = Math.min(seconds, film.duration || 0);
  };
  button.addEventListener('click', () => {
    if (films.some((film) => !film.paused)) {
      for (const film of films) film.pause();
      show(false);
      return;
    }
    const now = films.every((film) => film.ended) ? 0 : Math.max(...films.map((f) => f.currentTime));
    seek(now);
    for (const film of films) if (now < film.duration) film.play();
    show(true);
  });
  slider.addEventListener('input', () => {
    for (const film of films) film.pause();
    show(false);
    seek((slider.value / 1000) * length());
  });
  for (const film of films) {
    film.addEventListener('timeupdate', () => {
      if (films.some((one) => !one.paused)) {
        slider.value = 1000 * Math.max(...films.map((one) => one.currentTime)) / (length() || 1);
      }
    });
    film.addEventListener('ended', () => { if (films.every((one) => one.ended || one.paused)) show(false); });
  }
}
