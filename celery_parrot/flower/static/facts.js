// Every field of a schedule, and its run state, as a list to read.

import { badge, el, fill, span, when } from './common.js';

const FIELDS = [
  'kind', 'target', 'method_name', 'prompt', 'target_id', 'tenant', 'args', 'kwargs', 'options', 'schedule_type', 'schedule_config',
  'timezone', 'start_at', 'end_at', 'max_fires', 'jitter', 'dst_gap', 'dst_fold', 'missed', 'misfire_grace', 'catch_up_limit',
  'overlap', 'exclusion_group', 'recover', 'send_result', 'callbacks', 'failure_callbacks', 'missed_callbacks', 'store',
  'schedule_id', 'version', 'created_at', 'updated_at',
]; // prettier-ignore
const INSTANTS = new Set(['start_at', 'end_at', 'created_at', 'updated_at']);
const SECONDS = new Set(['jitter', 'misfire_grace']);

export const titleOf = (field) => field[0].toUpperCase() + field.slice(1).replaceAll('_', ' ');

/** Whether there is nothing to say of a field. */
const nothing = (value) => value === null || value === undefined || value === '' || (typeof value === 'object' && !Object.keys(value).length);

/** When it was last due, null if never. The mark moves on without a due time when a schedule is made (then it never was),
 *  resumed or changed (then: when its last fire was sent). */
export function lastDue({ store, created_at: read, run_state: { last_due: mark, last_run: sent } }) {
  const made = store === 'code' ? null : read; // of the code: when Flower read it
  if (!mark || !sent || (made && Date.parse(mark) <= Date.parse(made))) return null;
  return Date.parse(mark) > Date.parse(sent) ? sent : mark;
}

export function facts(element, schedule) {
  const zone = schedule.timezone;
  const state = schedule.run_state;
  const entries = [
    ['Next due', when(schedule.next_run, { zone, relative: true, missing: 'never again' })],
    ['Last due', when(lastDue(schedule), { zone, relative: true, missing: 'never' })],
    ['Last sent', when(state.last_run, { zone, relative: true, missing: 'never' })],
    ['Sent in all', String(state.run_count)],
    ['Last outcome', badge(state.last_status)],
    ['Failures in a row', String(state.consecutive_failures)],
    state.last_error && ['Last error', [code(state.last_error), when(state.last_error_at, { zone, relative: true })]],
    state.last_result && ['Last result', [code(state.last_result), when(state.last_result_at, { zone, relative: true })]],
    state.last_delivery_status && ['Last delivery', [badge(state.last_delivery_status), ' ', when(state.last_delivery_at, { zone, relative: true }), deliveries(state.last_callbacks)]],
    ...FIELDS.filter((field) => !nothing(schedule[field])).map((field) => [titleOf(field), shown(field, schedule[field], zone)]),
  ]; // prettier-ignore
  fill(element, el('dl', { class: 'detail-list' }, entries.filter(Boolean).map(([title, value]) =>
    el('div', { class: 'detail-row' }, el('dt', {}, title), el('dd', { dir: 'auto' }, value))))); // prettier-ignore
}

function shown(field, value, zone) {
  if (INSTANTS.has(field)) return when(value, { zone });
  if (SECONDS.has(field)) return span(value);
  if (typeof value === 'object') return code(JSON.stringify(value, null, 2));
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  return String(value).length > 200 ? code(value) : String(value);
}

function deliveries(callbacks) {
  return (callbacks || []).map((one) => el('div', {}, `${one.callback}: ${one.error || one.status || 'done'}`));
}

/** A text as it is, in a box that scrolls. */
export function code(text) {
  return el('pre', { class: 'parrot-code', dir: 'auto', tabindex: text.length > 600 ? '0' : null }, el('code', {}, text));
}
