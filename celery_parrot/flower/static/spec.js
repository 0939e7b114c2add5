// The config of a schedule type as one input a key, so that nobody has to write JSON for a cron line.

import { el, fill } from './common.js';

/** Per type: its usual keys with an example of each, those that a new schedule starts with first. */
const TYPES = {
  cron: { expr: '30 6 * * mon-fri' },
  interval: { minutes: 15 },
  daily: { hour: 6, minute: 30 },
  weekly: { day_of_week: ['mon', 'thu'], hour: 6, minute: 30 },
  monthly: { day: [1, -1], hour: 6, minute: 30 },
  once: { run_date: '2030-01-01T09:00' },
  every_n_hours: { n: 6 },
  relative_delay: { delay: '2h30m' },
  random_within_window: { start_hour: 9, end_hour: 17, fires_per_day: 4 },
  solar: { event: 'sunrise', lat: 40.4, lon: -3.7 },
  rrule: { rule: 'FREQ=WEEKLY;BYDAY=MO,WE' },
};
const SAME = { crontab: 'cron', daily_at: 'daily', one_shot_at: 'once' };
const MORE = {
  cron: ['seconds', 'day_rule'], interval: ['seconds', 'hours', 'days', 'offset'], daily: ['second'], weekly: ['second'],
  monthly: ['second', 'on_short_month'], every_n_hours: ['offset'], random_within_window: ['seed'], rrule: ['dtstart'],
}; // prettier-ignore

const exampleOf = (type) => TYPES[SAME[type] ?? type] ?? {};
const textOf = (value) => (typeof value === 'string' ? value : JSON.stringify(value));

/** Texts of numbers, lists and objects are those; all else is text. */
function valueOf(text) {
  if (!/^(-?\d+(\.\d+)?|\[.*\]|\{.*\}|true|false)$/s.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export class Spec {
  constructor(type, config) {
    this.start = { type, config };
    this.node = el('div', { class: 'parrot-fields', role: 'group', 'aria-label': 'Schedule config' });
    this.show(type, config);
  }

  /** Another type: its keys, with the example in them; the first type again: what it had. */
  become(type) {
    this.show(type, type === this.start.type ? this.start.config : exampleOf(type));
  }

  show(type, config) {
    const example = exampleOf(type);
    const keys = new Set([...Object.keys(example), ...Object.keys(config), ...(MORE[SAME[type] ?? type] ?? [])]);
    this.inputs = [...keys].map((key) => {
      const attributes = { class: 'form-control', name: `config.${key}`, autocomplete: 'off', spellcheck: 'false', placeholder: key in example ? textOf(example[key]) : '' };
      return [key, el('input', key in config && config[key] !== null ? { ...attributes, value: textOf(config[key]) } : attributes)];
    }); // prettier-ignore
    fill(this.node, this.inputs.map(([key, input]) => el('label', { class: 'parrot-field' }, key, input)));
  }

  get value() {
    return Object.fromEntries(this.inputs.filter(([, input]) => input.value.trim() !== '').map(([key, input]) => [key, valueOf(input.value.trim())]));
  }
}
