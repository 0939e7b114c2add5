// Why a schedule ran at a due time, or did not: the story that the command line tells as well.

import { api, button, busy, clock, el, fill, offset, schedulePath, taskLink } from './common.js';

/** Build the box; gives the function that asks: `({fire, at})`. */
export function whyBox(element, schedule) {
  const time = el('input', { class: 'form-control', name: 'at', autocomplete: 'off', placeholder: 'yesterday 03:00' });
  const go = el('button', { type: 'submit', class: 'btn btn-outline-secondary' }, 'Tell');
  const story = el('div', { class: 'parrot-story', 'aria-live': 'polite', tabindex: '-1' });
  const ask = async (query) => {
    try {
      fill(story, told(await api(schedulePath(schedule.schedule_id, '/why'), { query, quiet: true }), ask));
    } catch (error) {
      fill(story, el('p', { class: 'parrot-fault' }, error.message));
    }
    story.focus();
    element.scrollIntoView({ block: 'nearest' });
  };
  const form = el('form', { class: 'parrot-ask' },
    el('label', { class: 'parrot-field' }, `Due time, on the clock of ${schedule.timezone || 'its zone'}`, time),
    go,
    el('p', { class: 'form-text' }, '2026-03-02T03:00, 03:00 (today), yesterday 03:00; with an offset, in any zone. Empty: the latest.')); // prettier-ignore
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    busy(go, () => ask({ at: time.value.trim() }));
  });
  fill(element, el('div', { class: 'parrot-body' }, form, story));
  return ask;
}

function told(story, ask) {
  const around = [['Due before', story.previous], ['Due after', story.next]].filter(([, at]) => at);
  return [
    el('p', { class: 'parrot-headline', dir: 'auto' }, story.sentence),
    el('ol', { class: 'parrot-steps' }, story.steps.map((step) => el('li', { dir: 'auto' }, step.text))),
    story.closing && el('p', {}, story.closing),
    el('div', { class: 'parrot-actions' },
      story.fire_id && el('span', {}, 'Fire ', taskLink(story.fire_id, story.fire_id)),
      around.map(([label, at]) => button(`${label}: ${clock(at)} ${offset(at)}`, () => ask({ at })))),
  ]; // prettier-ignore
}
