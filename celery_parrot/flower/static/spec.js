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
const ALSO = { interval: ['hours', 'seconds'], daily: ['second'], weekly: ['second'], monthly: ['second'] };
const OTHER = 'Other keys, as JSON';

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

  /** The input of a key; of one without (a field of a cron line), the first. */
  inputOf(key) {
    return (this.inputs.find(([name]) => name === key) ?? (key === 'config' ? [key, this.other] : this.inputs[0]))?.[1];
  }

  /** Another type: its keys, with the example in them; the first type again: what it had. */
  become(type) {
    this.show(type, type === this.start.type ? this.start.config : exampleOf(type));
  }

  show(type, config) {
    const example = exampleOf(type);
    const keys = new Set([...Object.keys(example), ...(ALSO[SAME[type] ?? type] ?? []), ...Object.keys(config)]);
    this.inputs = [...keys].map((key) => [key, input(`config.${key}`, key in example ? textOf(example[key]) : '')]);
    for (const [key, one] of this.inputs) if ((config[key] ?? null) !== null) one.value = textOf(config[key]);
    this.other = input('config', '{"tz": "Europe/Madrid"}');
    fill(this.node, [...this.inputs, [OTHER, this.other]].map(([key, one]) => el('label', { class: 'parrot-field' }, key, one)));
  }

  /** As JSON has it. Throws an error with `field`. */
  get value() {
    const said = this.inputs.filter(([, one]) => one.value.trim() !== '').map(([key, one]) => [key, valueOf(one.value.trim())]);
    const more = this.other.value.trim() === '' ? {} : valueOf(this.other.value.trim());
    if (typeof more !== 'object' || Array.isArray(more)) throw Object.assign(new Error(`${OTHER}: that is no JSON object.`), { field: 'config' });
    return { ...Object.fromEntries(said), ...more };
  }
}

const input = (name, placeholder) => el('input', { class: 'form-control', name, placeholder, autocomplete: 'off', spellcheck: 'false' });
