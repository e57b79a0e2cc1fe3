// What a person says of a citation is sent without leaving the page, so that the token stays in
// its field for the next click. Without scripts the buttons send the form.
const form = document.querySelector('#checks');
form?.addEventListener('submit', async (event) => {
  const button = event.submitter;
  if (!button) return;
  event.preventDefault();
  const output = button.closest('.opinion').querySelector('output');
  const body = new URLSearchParams(new FormData(form));
  body.set('said', button.value);
  const answer = await fetch(form.action, { method: 'POST', body, headers: { Accept: 'application/json' } }).catch(() => null);
  const said = answer?.ok ? await answer.json() : null;
  output.textContent = said ? `yes ${said.holds}, no ${said.fails}` : answer?.status === 403 ? 'the token is not valid' : 'not stored; try again';
});
