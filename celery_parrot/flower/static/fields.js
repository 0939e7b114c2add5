// One field of a schedule as something to type in, made from its JSON Schema.

import { el } from './common.js';
import { titleOf } from './facts.js';

export const TELLING = ['send_result', 'callbacks', 'failure_callbacks', 'missed_callbacks'];

const ROWS = { prompt: 4, args: 2, kwargs: 3, options: 2, send_result: 2, callbacks: 3, failure_callbacks: 3, missed_callbacks: 3 };
const MASKED = 'Secrets are shown as …; to change this field, write it whole.';

/** A text that is no value of its field. */
class BadText extends Error {
  constructor(field, message) {
    super(`${titleOf(field)} ${message}.`);
    this.field = field;
  }
}

export class Control {
  /** schema: of all fields. start: the value there is, undefined for a new schedule. choices: known values, if any.
   *  placeholder: what it will have when it is left empty. */
  constructor(name, schema, start, choices = null, placeholder = null) {
    const property = schema.properties[name];
    this.name = name;
    this.types = 'enum' in property ? [] : [property.type].flat();
    this.nullable = this.types.includes('null') || property.enum?.includes(null);
    this.required = schema.required.includes(name);
    this.input = this.made(property, choices, placeholder);
    this.put(start === undefined ? (property.default ?? null) : start);
    if (start === undefined && name === 'schedule_type') this.input.value = 'cron';
    this.first = this.text;
    const help = el('span', { class: 'form-text', id: `help-${name}` }, property.description, TELLING.includes(name) && this.first.includes('…') && ` ${MASKED}`);
    this.input.setAttribute('aria-describedby', help.id);
    const list = this.list && el('datalist', { id: this.list.id }, this.list.values.map((value) => el('option', { value })));
    const label = [titleOf(name), this.required && ' (required)'];
    this.node = this.types.includes('boolean')
      ? el('div', { class: 'parrot-field' }, el('label', { class: 'parrot-check' }, this.input, el('span', {}, label)), help)
      : el('div', { class: `parrot-field${ROWS[name] ? ' parrot-field-wide' : ''}` }, el('label', { for: this.input.id }, label), this.input, list, help); // prettier-ignore
  }

  made(property, choices, placeholder) {
    const attributes = { name: this.name, id: `field-${this.name}`, class: 'form-control', required: this.required, autocomplete: 'off' };
    const values = property.enum ?? (this.name === 'store' ? choices : null);
    if (values) return el('select', { ...attributes, class: 'form-select' }, optionsOf(values, this.name));
    if (this.types.includes('boolean')) return el('input', { ...attributes, type: 'checkbox', class: 'form-check-input', required: false });
    if (ROWS[this.name]) return el('textarea', { ...attributes, rows: ROWS[this.name], spellcheck: this.name === 'prompt' ? null : 'false' });
    if (this.types.includes('integer') || this.types.includes('number')) return el('input', { ...attributes, inputmode: 'decimal' });
    const known = this.name === 'timezone' ? (Intl.supportedValuesOf?.('timeZone') ?? []) : choices;
    if (known) this.list = { id: `known-${this.name}`, values: known };
    return el('input', { ...attributes, list: this.list?.id, placeholder: property.format === 'date-time' ? '2030-01-01T09:00' : placeholder });
  }

  put(value) {
    if (this.input.type === 'checkbox') this.input.checked = Boolean(value);
    else if (value === null || value === undefined) this.input.value = '';
    else this.input.value = typeof value === 'object' ? JSON.stringify(value, null, 1) : String(value);
  }

  get text() {
    return this.input.type === 'checkbox' ? String(this.input.checked) : this.input.value;
  }

  get changed() {
    return this.text !== this.first;
  }

  /** As JSON has it. Throws BadText. */
  get value() {
    if (this.input.type === 'checkbox') return this.input.checked;
    const text = this.input.value;
    if (this.nullable && ['', 'null'].includes(text.trim())) return null;
    if (this.types.includes('object') || this.types.includes('array')) return this.json(text);
    if (this.types.includes('integer') || this.types.includes('number')) return this.number(text);
    return text;
  }

  json(text) {
    if (text.trim() === '') return this.types.includes('object') ? {} : [];
    try {
      return JSON.parse(text);
    } catch (error) {
      throw new BadText(this.name, `is not valid JSON (${error.message})`);
    }
  }

  number(text) {
    const value = Number(text);
    if (text.trim() === '' || Number.isNaN(value)) throw new BadText(this.name, 'must be a number');
    return value;
  }
}

function optionsOf(values, name) {
  const none = name === 'store' ? [el('option', { value: '' }, '— as by default: db if there is one —')] : [];
  return [...none, ...values.map((value) => el('option', { value: value ?? '' }, value ?? '— as by default —'))];
}
