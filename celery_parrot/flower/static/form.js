// The form of a schedule, made from the schema that the API has of it: a new one, or a change of one.

import { api, busy, button, debounce, el, fill, row, schedulePath, scheduleUrl, table, toast, viewerZone, when, writing } from './common.js';
import { Control, TELLING } from './fields.js';
import { titleOf } from './facts.js';
import { remark } from './marks.js';
import { Spec } from './spec.js';

const SETTLE = 300; // ms without a key before the preview is asked for
const COUNT = 5;
const GROUPS = [
  ['What', ['name', 'store', 'kind', 'target', 'args', 'kwargs', 'options', 'method_name', 'prompt', 'target_id', 'tenant']],
  ['When', ['schedule_type', 'timezone', 'start_at', 'end_at', 'max_fires', 'jitter', 'dst_gap', 'dst_fold']],
  ['Late, at the same time, lost', ['missed', 'misfire_grace', 'catch_up_limit', 'overlap', 'exclusion_group', 'recover', 'enabled']],
  ['Telling of results', TELLING],
]; // prettier-ignore
const FOLDED = new Set(['args', 'kwargs', 'options', 'method_name', 'prompt', 'target_id', 'tenant', 'start_at', 'end_at', 'max_fires', 'jitter', 'dst_gap', 'dst_fold']);
const PREVIEWED = ['timezone', 'start_at', 'end_at', 'dst_gap', 'dst_fold'];
const NEXT = [{ text: 'Due', unit: viewerZone }, 'On the clock of its zone', 'Clock change'];

/** Build it. `schedule`: what is edited, null for a new one; `close(saved)` is called at the end, without a value when
 *  nothing was saved. */
export async function form(schedule, close) {
  const [schema, known] = await Promise.all([api('/schema'), api('/kinds')]);
  return new Form(schedule, close, schema, known).node;
}

class Form {
  constructor(schedule, close, schema, known) {
    Object.assign(this, { schedule, close, version: schedule?.version });
    const start = schedule ?? {};
    const fixed = schedule ? ['schedule_config', 'store'] : ['schedule_config'];
    const names = Object.keys(schema.properties).filter((name) => !fixed.includes(name));
    const lists = { kind: known.kinds, store: known.stores.filter((store) => store !== 'code') };
    this.controls = new Map(names.map((name) => [name, new Control(name, schema, start[name], lists[name], name === 'timezone' ? known.timezone : null)]));
    const type = this.controls.get('schedule_type').input;
    this.spec = new Spec(type.value, schedule?.schedule_config ?? {});
    this.before = JSON.stringify(this.spec.value);
    type.addEventListener('input', () => this.spec.become(type.value));
    this.fault = el('p', { class: 'parrot-fault', role: 'alert' });
    this.seen = el('div', { class: 'parrot-preview', 'aria-live': 'polite' }, el('p', {}, 'Fill in when, and its next due times are shown here.'));
    const save = writing(el('button', { type: 'submit', class: 'btn btn-primary' }, schedule ? 'Save' : 'Create'));
    this.node = el('form', { class: 'parrot-form', novalidate: true },
      GROUPS.map(([title, fields]) => this.group(title, fields)),
      this.fault,
      el('footer', { class: 'parrot-actions' }, save, button('Cancel', () => (close ? close() : history.back())))); // prettier-ignore
    this.node.addEventListener('submit', (event) => {
      event.preventDefault();
      busy(save, () => this.save());
    });
    this.node.addEventListener('input', debounce(() => this.preview(), SETTLE));
    if (schedule) this.preview();
  }

  group(title, fields) {
    const nodes = (wanted) => fields.filter((name) => this.controls.has(name) && wanted(name)).map((name) => this.controls.get(name).node);
    const folded = nodes((name) => FOLDED.has(name));
    return el('fieldset', { class: 'parrot-group' },
      el('legend', {}, title),
      title === 'When'
        ? [el('div', { class: 'parrot-fields' }, nodes((name) => !FOLDED.has(name))), this.spec.node, this.seen]
        : el('div', { class: 'parrot-fields' }, nodes((name) => !FOLDED.has(name))),
      folded.length > 0 && el('details', {}, el('summary', {}, 'More'), el('div', { class: 'parrot-fields' }, folded))); // prettier-ignore
  }

  /** Those fields that differ from what they were; of a new schedule all that say something. */
  fields() {
    const found = Object.fromEntries([...this.controls].filter(([, control]) => control.changed).map(([name, control]) => [name, control.value]));
    const { value } = this.spec;
    if (!this.schedule) found.schedule_type = this.controls.get('schedule_type').value;
    if (!this.schedule || JSON.stringify(value) !== this.before || 'schedule_type' in found) found.schedule_config = value;
    return found;
  }

  async preview() {
    this.asking?.abort();
    this.asking = new AbortController();
    this.unmark('preview');
    try {
      const body = { schedule_type: this.controls.get('schedule_type').value, schedule_config: this.spec.value, count: COUNT };
      if (this.schedule) body.schedule_id = this.schedule.schedule_id;
      for (const name of PREVIEWED) {
        const { value } = this.controls.get(name);
        if (value !== null && value !== '') body[name] = value;
      }
      const found = await api('/preview', { method: 'POST', body, quiet: true, signal: this.asking.signal });
      this.show(found);
    } catch (error) {
      if (error.name === 'AbortError') return;
      fill(this.seen, el('p', { class: 'parrot-fault' }, error.message));
      this.mark(error.details?.field ?? error.field, 'preview');
    }
  }

  show({ sentence, next }) {
    const zone = this.controls.get('timezone').value;
    const rows = next.map((one) => row(NEXT, [when(one.due_at, { zone, relative: true }), one.local.replace('T', ' '), remark(one)]));
    fill(this.seen, el('p', { class: 'parrot-sentence' }, sentence), rows.length ? table('The next due times of what is not saved yet', NEXT, rows).node : el('p', {}, 'It would never be due.'));
  }

  async save() {
    this.say('');
    let fields;
    try {
      fields = this.fields();
    } catch (error) {
      this.say(error.message, error.field);
      return;
    }
    if (this.schedule && !Object.keys(fields).length) {
      this.close();
      return;
    }
    try {
      const saved = await (this.schedule
        ? api(schedulePath(this.schedule.schedule_id), { method: 'PATCH', body: fields, version: this.version, quiet: true })
        : api('/schedules', { method: 'POST', body: fields, quiet: true }));
      toast(`${saved.name} is saved.`);
      if (this.schedule) this.close(saved);
      else location.assign(scheduleUrl(saved.schedule_id));
    } catch (error) {
      if (error.type === 'conflict' && this.schedule) await this.stale();
      else this.say(error.message, error.details?.field);
    }
  }

  /** Somebody else has saved it since: tell what is different now, and let the person choose. */
  async stale() {
    const now = await api(schedulePath(this.schedule.schedule_id));
    const differ = ['schedule_config', ...this.controls.keys()].filter((name) => JSON.stringify(now[name]) !== JSON.stringify(this.schedule[name]));
    const line = (name) => el('li', {}, `${titleOf(name)}: `, el('code', {}, JSON.stringify(this.schedule[name])), ' became ', el('code', {}, JSON.stringify(now[name])));
    const keep = () => {
      this.version = now.version;
      this.schedule = { ...now };
      fill(this.fault, 'Save again: your changes are then put on top of theirs.');
    };
    fill(this.fault,
      'Somebody changed it while you were editing; nothing was saved.',
      differ.length ? el('ul', {}, differ.map(line)) : el('p', {}, 'Its fields are as you have seen them; it was paused, resumed or saved anew.'),
      el('span', { class: 'parrot-actions' }, button('Reload, and drop my changes', () => this.close(now)), button('Keep my changes', keep))); // prettier-ignore
  }

  /** Say what is wrong, at the field as well. */
  say(message, field = null) {
    this.unmark();
    fill(this.fault, message);
    const input = this.mark(field, 'save');
    if (!input) return;
    input.after(el('span', { class: 'parrot-fault', 'data-fault': 'save' }, message));
    input.focus();
  }

  /** Take the marks away that saving or the preview has set; without `by` all. */
  unmark(by = null) {
    for (const one of this.node.querySelectorAll(by ? `[data-fault=${by}]` : '[data-fault]')) {
      if (one.tagName === 'SPAN') {
        one.remove();
        continue;
      }
      one.removeAttribute('aria-invalid');
      one.classList.remove('parrot-at-fault');
      delete one.dataset.fault;
    }
  }

  /** Mark a field; `by` tells who takes the mark away. Gives its input. */
  mark(field, by) {
    if (!field) return null;
    const name = field.split(/[.[]/)[0]; // callbacks[0].url is of callbacks
    const inConfig = field.startsWith('schedule_config') || !this.controls.has(name);
    const input = inConfig ? this.spec.inputOf(field.replace('schedule_config.', '')) : this.controls.get(name).input;
    input.classList.add('parrot-at-fault');
    input.setAttribute('aria-invalid', 'true');
    input.dataset.fault = by;
    const folded = input.closest('details');
    if (folded) folded.open = true;
    return input;
  }
}
