// All schedules, a page at a time.

import {
  api, badge, debounce, el, empty, failed, fill, filtersOf, keepFilters, live, loading, options, page, pager, row, schedulePath, table, viewerZone, when, writing, zoneNote,
} from './common.js'; // prettier-ignore
import { actionsOf, scheduleLink } from './actions.js';
import { lastDue } from './facts.js';

const PAGE = 50;
const TYPING = 250; // ms without a key before the search goes out
const MOST = 10; // rows that are asked for one by one; of more, the whole page is

const form = document.getElementById('filters');
const list = document.getElementById('schedules');
const COLUMNS = [
  'Name', 'Kind', 'When', 'State', { text: 'Next due', unit: viewerZone }, { text: 'Last due', unit: viewerZone }, 'Last outcome', { text: 'Failures', class: 'parrot-number' },
  { text: 'Actions', class: 'parrot-buttons', hidden: true },
]; // prettier-ignore

const rows = new Map();
let asking = new AbortController();

const pages = pager(document.getElementById('pager'), load);

async function load(after) {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  const filters = keepFilters(form);
  try {
    const found = await api('/schedules', { query: { ...filters, after, limit: PAGE }, quiet: true, signal });
    show(found.items, Object.keys(filters).length > 0);
    return found.after;
  } catch (error) {
    if (error.name !== 'AbortError') failed(list, error, () => again());
    return undefined;
  }
}

function show(schedules, filtered) {
  rows.clear();
  list.removeAttribute('aria-busy');
  if (!schedules.length) {
    if (filtered) empty(list, 'No schedule matches.', el('button', { type: 'button', class: 'btn btn-outline-secondary', onclick: clear }, 'Show all'));
    else first();
    return;
  }
  for (const schedule of schedules) rows.set(schedule.schedule_id, lineOf(schedule));
  fill(list, table('Schedules by name', COLUMNS, [...rows.values()]).node);
}

function lineOf(schedule) {
  const state = schedule.run_state;
  const zone = schedule.timezone;
  return row(COLUMNS, [
    scheduleLink(schedule),
    schedule.kind,
    el('span', { title: schedule.sentence }, schedule.sentence ? brief(schedule.sentence) : schedule.broken_reason),
    [badge(schedule.state, schedule.note), schedule.note && el('div', { class: 'parrot-distance parrot-clip', dir: 'auto' }, schedule.note)],
    when(schedule.next_run, { zone, relative: true }),
    when(lastDue(schedule), { zone, relative: true, missing: 'never' }),
    badge(state.last_status, state.last_error),
    state.consecutive_failures ? el('strong', { class: 'parrot-bad' }, state.consecutive_failures) : '0',
    actionsOf(schedule, replace),
  ], { 'data-id': schedule.schedule_id }); // prettier-ignore
}

/** A sentence without what clock changes do, which is on the schedule's own page. */
function brief(sentence) {
  return sentence.replace(/, (wall|continuous): [^)]*\)/, ')').replace(', counted from 1970-01-01 00:00 UTC; clock changes do not move it', '');
}

/** Put a schedule as it is now in the place of what is shown of it; not while somebody uses that row. */
function replace(schedule) {
  const old = rows.get(schedule.schedule_id);
  if (!old) return;
  const line = lineOf(schedule);
  const focus = [...old.querySelectorAll('a, button')].indexOf(document.activeElement);
  line.classList.add('parrot-changed');
  old.replaceWith(line);
  rows.set(schedule.schedule_id, line);
  if (focus >= 0) line.querySelectorAll('a, button')[focus]?.focus();
}

function first() {
  empty(list, 'There are no schedules yet.',
    el('p', {}, 'Make the first here, on the command line, or in code:'),
    el('pre', {}, el('code', {}, 'celery -A app parrot create --name nightly --target app.report --type daily --config 3:00')),
    writing(el('button', { type: 'button', class: 'btn btn-primary', onclick: () => location.assign(`${page.parrot}/schedules/new`) }, 'New schedule'))); // prettier-ignore
}

/** Fires have come: look again at the schedules they are of. */
async function refresh(records) {
  const ids = [...new Set(records.map((record) => record.schedule_id))].filter((id) => rows.has(id));
  if (!records.length || ids.length > MOST) await again();
  else for (const id of ids) await api(schedulePath(id), { quiet: true }).then(replace, () => {});
}

/** The same page of the list once more, unless somebody is about to press one of its buttons. */
async function again() {
  if (list.querySelector('button:focus, [aria-busy=true]')) return;
  await pages.again();
}

function clear() {
  form.reset();
  for (const control of form.elements) control.value = '';
  pages.first();
}

async function start() {
  document.getElementById('zone-note').textContent = zoneNote();
  filtersOf(form);
  form.addEventListener('submit', (event) => event.preventDefault());
  form.addEventListener('input', debounce(() => pages.first(), TYPING));
  loading(list);
  api('/kinds', { quiet: true }).then((known) => {
    for (const [name, values] of [['kind', known.kinds], ['state', known.states], ['store', known.stores]]) options(form.elements[name], values);
  }, () => {}); // prettier-ignore
  await pages.first();
  live(refresh, document.getElementById('live-status'));
}

start();
