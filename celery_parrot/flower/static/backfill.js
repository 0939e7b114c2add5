// Fire due times of the past that did not fire: first which, then a few at a time.

import { api, busy, button, clock, dialog, el, fill, schedulePath, viewerZone } from './common.js';

const LOOK = 1000; // ms between two looks at how far it is
const LISTED = 10;
const UNDER_WAY = ['running', 'stopping'];

/** Open the dialog; `changed` is called when fires have been asked for. */
export function backfill(schedule, changed) {
  return dialog(`Backfill ${schedule.name}`, (close) => new Backfill(schedule, changed, close).node);
}

class Backfill {
  constructor(schedule, changed, close) {
    Object.assign(this, { schedule, changed, close });
    const field = (label, name, attributes) => el('label', { class: 'parrot-field' }, label, el('input', { class: 'form-control', name, autocomplete: 'off', ...attributes }));
    const check = (label, name) => el('label', { class: 'parrot-check' }, el('input', { type: 'checkbox', class: 'form-check-input', name }), el('span', {}, label));
    this.answer = el('div', { 'aria-live': 'polite' });
    this.look = el('button', { type: 'submit', class: 'btn btn-primary' }, 'Look which (dry run)');
    this.node = el('form', {},
      el('p', {}, 'Due times of this stretch that did not fire are fired now. First it is only looked which those are.'),
      el('div', { class: 'parrot-fields' },
        field('From', 'from', { required: true, autofocus: true, placeholder: '2026-03-01T00:00' }),
        field('To (empty: now)', 'to', { placeholder: '2026-03-02T00:00' }),
        field('At most on their way', 'max_active', { type: 'number', min: 1, value: '1' })),
      el('p', { class: 'form-text' }, `Without an offset on the clock of ${schedule.timezone || 'its zone'}.`),
      check('Newest first', 'reverse'),
      check('Also those older than the history, whether they fired or not', 'force'),
      this.answer,
      el('footer', {}, button('Close', () => close()), this.look)); // prettier-ignore
    this.node.addEventListener('input', () => fill(this.answer));
    this.node.addEventListener('submit', (event) => {
      event.preventDefault();
      busy(this.look, () => this.dryRun());
    });
  }

  async ask(dryRun) {
    const { from, to, max_active: most, reverse, force } = this.node.elements;
    const body = { from: from.value.trim(), max_active: Number(most.value), reverse: reverse.checked, force: force.checked, dry_run: dryRun };
    if (to.value.trim()) body.to = to.value.trim();
    try {
      return await api(schedulePath(this.schedule.schedule_id, '/backfill'), { method: 'POST', body, quiet: true });
    } catch (error) {
      fill(this.answer, el('p', { class: 'parrot-fault', role: 'alert' }, error.message));
      throw error;
    }
  }

  async dryRun() {
    const found = await this.ask(true);
    const many = found.total;
    fill(this.answer,
      el('p', {}, many ? `${many} due times would fire` : 'Nothing is to be fired', `; ${found.fired} of this stretch have fired already.`),
      many > 0 && [
        el('p', { class: 'form-text' }, `In your zone, ${viewerZone}:`),
        el('ul', { class: 'parrot-clip-list' }, found.due_times.slice(0, LISTED).map((at) => el('li', { title: at }, clock(at))), many > LISTED && el('li', {}, `and ${many - LISTED} more`)),
        button(`Fire ${many === 1 ? 'it' : `these ${many}`} now`, () => this.run(), { class: 'btn btn-primary' }),
      ]); // prettier-ignore
  }

  async run() {
    const { id } = await this.ask(false);
    const path = `/backfills/${encodeURIComponent(id)}`;
    const bar = el('progress', { class: 'parrot-progress', 'aria-label': 'Backfill' });
    const text = el('p');
    const cancel = button('Cancel the rest', () => api(path, { method: 'DELETE' }));
    fill(this.answer, bar, text, cancel);
    this.changed();
    const timer = setInterval(async () => {
      const found = await api(path, { quiet: true }).catch(() => null);
      if (!found || !this.node.isConnected) {
        clearInterval(timer);
        return;
      }
      [bar.max, bar.value] = [Math.max(found.total, 1), found.ended];
      text.textContent = told(found);
      if (UNDER_WAY.includes(found.state)) return;
      clearInterval(timer);
      cancel.remove();
      this.changed();
    }, LOOK);
  }
}

function told({ state, error, total, ended, outcomes }) {
  const parts = [`${ended} of ${total} are over`, ...Object.entries(outcomes).map(([status, count]) => `${count} ${status}`)];
  return `${state}: ${parts.join(', ')}${error ? `. ${error}` : ''}.`;
}
