// Computes the commitment from the revealed lines, so that readers need not trust the server.
for (const box of document.querySelectorAll('.commitment')) {
  const check = box.querySelector('.check');
  const output = check.querySelector('output');
  const say = (words, good) => { output.textContent = words; output.className = good ? 'good' : 'bad'; };
  check.hidden = false;
  check.querySelector('button').addEventListener('click', async () => {
    if (!window.crypto?.subtle) {
      say('This browser computes SHA-256 only over https; use: printf "…three lines…" | sha256sum', false);
      return;
    }
    const lines = box.querySelector('[data-reveal]').textContent;
    const promised = box.querySelector('[data-commitment]').textContent.trim();
    const bytes = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(lines));
    const computed = [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
    say(computed === promised ? `It fits: ${computed}` : `It does not fit: these lines give ${computed}`, computed === promised);
  });
}
