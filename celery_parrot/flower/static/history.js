// What became of the due times of a schedule, newest first, as a chart and as a table.

import { api, badge, button, clock, el, failed, fill, loading, row, schedulePath, span, table, taskLink, viewerZone, when } from './common.js';
import { chart, duration, lateness } from './chart.js';
import { code } from './facts.js';

const CHARTED = 100;
const SHOWN = 10;
const COLUMNS = [
  { text: 'Due', unit: viewerZone }, 'Outcome', { text: 'Sent', unit: viewerZone }, { text: 'Started', unit: viewerZone },
  { text: 'Ended', unit: viewerZone }, { text: 'Late', class: 'parrot-number' }, { text: 'Took', class: 'parrot-number' },
  'Worker', { text: 'Try', class: 'parrot-number' }, 'Task', { text: 'Why', class: 'parrot-buttons', hidden: true },
]; // prettier-ignore

export class History {
  /** `askWhy({fire, at})` shows the story of one. */
  constructor(element, schedule, askWhy) {
    Object.assign(this, { element, schedule, askWhy, records: [], shown: SHOWN, more: false });
  }

  async load() {
    loading(this.element);
    try {
      this.records = await this.ask({ limit: CHARTED });
      this.more = this.records.length === CHARTED;
      this.show();
    } catch (error) {
      failed(this.element, error, () => this.load());
    }
  }

  /** Put what is new in front, and what has changed in its place. */
  async refresh() {
    const fresh = await this.ask({ limit: SHOWN }).catch(() => []);
    const known = new Map([...this.records, ...fresh].map((record) => [keyOf(record), record]));
    this.records = [...known.values()].sort((a, b) => Date.parse(b.due_at) - Date.parse(a.due_at));
    if (!this.element.querySelector('button:focus, summary:focus, details[open]')) this.show();
  }

  async ask(query) {
    return (await api(schedulePath(this.schedule.schedule_id, '/fires'), { query, quiet: true })).items;
  }

  async extend() {
    if (this.shown >= this.records.length) {
      const older = await this.ask({ limit: CHARTED, before: this.records.at(-1).due_at });
      this.more = older.length === CHARTED;
      this.records.push(...older);
    }
    this.shown += SHOWN;
    this.show();
  }

  show() {
    this.element.removeAttribute('aria-busy');
    if (!this.records.length) {
      fill(this.element, el('p', { class: 'parrot-state' }, 'Nothing became due yet.'));
      return;
    }
    const rest = this.shown < this.records.length || this.more;
    fill(this.element,
      chart(this.records.slice(0, CHARTED)),
      table('Fires, newest first', COLUMNS, this.records.slice(0, this.shown).map((record) => this.line(record))).node,
      rest && el('div', { class: 'parrot-pager' }, button('Show older ones', () => this.extend()))); // prettier-ignore
  }

  line(record) {
    const zone = this.schedule.timezone;
    const at = (iso) => (iso ? el('time', { datetime: iso, title: `${clock(iso)}\n${iso}` }, near(iso, record.due_at)) : '—');
    const question = record.fire_id && record.committed_at ? { fire: record.fire_id } : { at: record.due_at };
    return row(COLUMNS, [
      [when(record.due_at, { zone }), record.until && el('div', {}, 'to ', when(record.until, { zone }), ` (${record.count} due times)`)],
      [badge(record.status), record.reason && ` ${record.reason.replaceAll('_', ' ')}`, record.origin !== 'schedule' && el('div', { class: 'parrot-quiet' }, record.origin.replaceAll('_', ' ')), words(record)],
      at(record.sent_at),
      at(record.started_at),
      at(record.finished_at),
      span(lateness(record)),
      span(duration(record)),
      record.worker || '—',
      record.sent_at ? record.attempt : '—',
      record.sent_at ? taskLink(record.fire_id) : '—',
      button('Why?', () => this.askWhy(question), { 'aria-label': `Why: due ${clock(record.due_at)}` }),
    ], { 'data-fire': record.fire_id }); // prettier-ignore
  }
}

const keyOf = (record) => `${record.fire_id}|${record.due_at}|${record.until ?? ''}`;

/** The time of day alone where it is the day of the due time. */
function near(iso, due) {
  const [day, time] = clock(iso).split(' ');
  return clock(due).startsWith(day) ? time : `${day} ${time}`;
}

function words(record) {
  const text = record.error || record.output;
  if (!text) return null;
  return el('details', {}, el('summary', {}, record.error ? 'Error' : 'Result'), code(record.traceback ? `${text}\n\n${record.traceback}` : text));
}
