// Fires as they come: those on their way above, those that are over below, newest first.

import {
  api, badge, busy, debounce, el, empty, failed, fill, filtersOf, keepFilters, live, loading, options, row, span, table, taskLink, viewerZone, when,
} from './common.js'; // prettier-ignore
import { scheduleLink } from './actions.js';

const MOST = 500; // rows that are shown; older ones make room
const PAGE = 100;
const TYPING = 250; // ms without a key before the search goes out
const GOING = ['pending', 'waiting', 'sent', 'running'];
const OVER = ['success', 'error', 'target_missing', 'skipped', 'missed', 'expired', 'abandoned', 'unknown'];
const COLUMNS = ['Schedule', 'Status', { text: 'Due', unit: viewerZone }, 'Kind', { text: 'Late', class: 'parrot-number' }, 'Worker', 'Reason', 'Fire'];

const form = document.getElementById('filters');
const hold = document.getElementById('hold');
const older = document.getElementById('older');
const note = document.getElementById('why-none');
const parts = { going: part('going', 'Nothing is on its way.'), over: part('over', 'Nothing has ended yet.') };

const shown = new Map(); // fire id -> {record, line, where}, oldest first
const held = new Map(); // fire id -> record, of what came while the page is held still
let still = false;
let after = '';
let asking = new AbortController();

function part(id, nothing) {
  const element = document.getElementById(id);
  const made = table(document.getElementById(`${id}-title`).textContent, COLUMNS, []);
  return { element, ...made, nothing };
}

const partOf = (record) => (GOING.includes(record.status) ? 'going' : 'over');

function lineOf(record) {
  return row(COLUMNS, [
    scheduleLink({ schedule_id: record.schedule_id, name: record.schedule || record.schedule_id || '?' }),
    badge(record.status),
    [when(record.due_at, { relative: true }), record.count > 1 && el('div', {}, `and ${record.count - 1} more until `, when(record.until))],
    record.kind,
    record.late === null ? '—' : span(record.late),
    record.worker || '—',
    reasonOf(record),
    [taskLink(record.task_id || record.fire_id, record.fire_id.slice(0, 8)), ' ', origin(record)],
  ], { 'data-id': record.fire_id }); // prettier-ignore
}

function reasonOf(record) {
  if (record.status === 'waiting' && record.limit) return ['for ', el('span', { class: 'parrot-clip', dir: 'auto' }, record.limit), record.held_by && ['held by ', taskLink(record.held_by)]];
  return record.reason ? el('span', { class: 'parrot-clip', dir: 'auto' }, record.reason) : '—';
}

function origin(record) {
  const more = [record.origin && record.origin !== 'schedule' && record.origin.replaceAll('_', ' '), record.attempt > 1 && `attempt ${record.attempt}`].filter(Boolean);
  return more.length > 0 && el('div', { class: 'parrot-distance' }, more.join(', '));
}

/** Put a record where it belongs; `first`: newer than all that is shown. */
function put(record, first) {
  const old = shown.get(record.fire_id);
  const where = partOf(record);
  const line = lineOf(record);
  if (old && old.where === where) {
    const focus = [...old.line.querySelectorAll('a')].indexOf(document.activeElement);
    old.line.replaceWith(line);
    if (focus >= 0) line.querySelectorAll('a')[focus]?.focus();
  } else {
    old?.line.remove();
    parts[where].body[first ? 'prepend' : 'append'](line);
  }
  if (first) line.classList.add('parrot-changed');
  shown.set(record.fire_id, { record, line, where });
}

function settle() {
  while (shown.size > MOST) {
    const [id, { line }] = leaving();
    line.remove();
    shown.delete(id);
  }
  for (const one of Object.values(parts)) {
    one.element.removeAttribute('aria-busy');
    if (!one.body.children.length) empty(one.element, one.nothing);
    else if (!one.element.contains(one.body)) fill(one.element, one.node);
  }
  older.hidden = !after || shown.size >= MOST;
}

/** What has to make room: the lowest that is over, and only then what is on its way. */
function leaving() {
  const line = parts.over.body.lastElementChild || parts.going.body.lastElementChild;
  return [line.dataset.id, shown.get(line.dataset.id)];
}

function matches(record, { kind, status, text }) {
  if ((kind && record.kind !== kind) || (status && record.status !== status)) return false;
  const wanted = (text || '').toLowerCase();
  return !wanted || ['schedule', 'schedule_id', 'fire_id', 'worker'].some((key) => (record[key] || '').toLowerCase().includes(wanted));
}

async function load(more = '') {
  asking.abort();
  asking = new AbortController();
  const filters = keepFilters(form);
  try {
    const feed = await api('/fires', { query: { ...filters, after: more, limit: PAGE }, quiet: true, signal: asking.signal });
    if (!more) clear();
    after = feed.after;
    for (const record of feed.items) if (!shown.has(record.fire_id)) put(record, false);
    explain(feed);
    settle();
  } catch (error) {
    if (error.name === 'AbortError') return;
    if (!shown.size) for (const one of Object.values(parts)) failed(one.element, error, () => load());
  }
}

function clear() {
  shown.clear();
  held.clear();
  tellHeld();
  for (const one of Object.values(parts)) one.body.replaceChildren();
}

/** Why nothing comes, where nothing can. */
function explain({ events_on: on, listening }) {
  note.hidden = on && listening;
  if (!on) {
    fill(note, 'Beats and workers tell nobody of their fires: ', el('code', {}, 'parrot_send_events'), ' is off. Set ',
      el('code', {}, 'app.conf.parrot_send_events = True'), ' for beats, workers and Flower, and start them anew. The history of each schedule is on its own page all the same.'); // prettier-ignore
  } else if (!listening) {
    fill(note, 'Flower hears no events at the moment: it cannot reach the broker, or was started without events.');
  }
}

/** Fires have changed. An empty list: look again. */
function news(records) {
  if (still) {
    for (const record of records) held.set(record.fire_id, record);
    tellHeld();
  } else if (records.length) {
    take(records);
  } else if (!document.activeElement?.closest('.parrot-card')) {
    load();
  }
}

function take(records) {
  const filters = Object.fromEntries(new FormData(form));
  for (const record of records) {
    if (matches(record, filters)) put(record, true);
    else if (shown.has(record.fire_id)) {
      shown.get(record.fire_id).line.remove();
      shown.delete(record.fire_id);
    }
  }
  settle();
}

function tellHeld() {
  hold.textContent = still ? `Go on${held.size ? ` (${held.size} changed)` : ''}` : 'Hold still';
}

function toggle() {
  still = !still;
  hold.setAttribute('aria-pressed', String(still));
  const records = [...held.values()];
  held.clear();
  tellHeld();
  if (!still && records.length) take(records);
}

async function start() {
  document.getElementById('zone-note').textContent = `The fires that this Flower has heard of. Times are shown in your zone, ${viewerZone}.`;
  options(form.elements.status, [...GOING, ...OVER]);
  filtersOf(form);
  form.addEventListener('submit', (event) => event.preventDefault());
  form.addEventListener('input', debounce(() => load(), TYPING));
  hold.addEventListener('click', toggle);
  older.addEventListener('click', () => busy(older, () => load(after)));
  for (const one of Object.values(parts)) loading(one.element);
  api('/kinds', { quiet: true }).then((known) => options(form.elements.kind, known.kinds), () => {}); // prettier-ignore
  await load();
  live(news, document.getElementById('live-status'));
}

start();
