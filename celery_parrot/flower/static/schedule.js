// One schedule: what it is, when it is due, what became of it, and why.

import {
  api, badge, button, el, failed, fill, live, loading, page, schedulePath, table, row, ticking, viewerZone, when, writing, zoneNote,
} from './common.js'; // prettier-ignore
import { actionsOf, remove } from './actions.js';
import { backfill } from './backfill.js';
import { facts } from './facts.js';
import { form } from './form.js';
import { History } from './history.js';
import { remark } from './marks.js';
import { whyBox } from './why.js';

const COMING = 20;
const NEXT = [{ text: 'Due', unit: viewerZone }, 'In', 'On the clock of its zone', 'Clock change'];

const root = document.getElementById('schedule');
const part = (id, title) => {
  const body = el('div', { id });
  return { body, node: el('section', { class: 'parrot-card', 'aria-labelledby': `${id}-title` }, el('h2', { class: 'parrot-heading', id: `${id}-title` }, title), body) };
};

let schedule;
let history;
let editing = null;
const head = el('header', { class: 'parrot-head' });
const coming = part('coming', `Next ${COMING} due times`);
const told = part('facts', 'Definition');
const status = el('div', { class: 'refresh-status', role: 'status' });

/** Show what the API says of it now. */
function show(found) {
  schedule = found;
  document.title = `${schedule.name} · Flower`;
  const inCode = schedule.store === 'code';
  const onlyIfEditable = (control) => {
    if (!inCode || page.whyNot) return writing(control);
    control.disabled = true;
    control.title = 'It is part of the code: a deployment changes it.';
    return control;
  };
  fill(head,
    el('div', { class: 'parrot-head-text' },
      el('p', {}, el('a', { class: 'parrot-back', href: `${page.parrot}/schedules` }, '← All schedules')),
      el('h1', { class: 'parrot-title', dir: 'auto' }, schedule.name),
      el('p', { class: 'parrot-sentence', id: 'sentence' }, schedule.sentence || schedule.broken_reason),
      el('p', { class: 'parrot-standing', id: 'state' }, badge(schedule.state),
        schedule.note && el('span', { dir: 'auto' }, ` ${schedule.note}`),
        schedule.broken_reason && el('span', { class: 'parrot-fault' }, ` ${schedule.broken_reason}`))),
    el('div', { class: 'parrot-actions' },
      status,
      actionsOf(schedule, changed),
      writing(button('Backfill', () => backfill(schedule, () => history.refresh()))),
      onlyIfEditable(button('Edit', edit)),
      onlyIfEditable(button('Delete', () => remove(schedule), { class: 'btn btn-danger' })))); // prettier-ignore
  facts(told.body, schedule);
}

async function changed(found) {
  show(found);
  await showComing();
}

async function showComing() {
  try {
    const found = await api(schedulePath(schedule.schedule_id, '/next'), { query: { count: COMING }, quiet: true });
    const rows = found.map((one) => row(NEXT, [
      when(one.due_at, { zone: schedule.timezone }),
      one.fires ? ticking(one.due_at) : '',
      one.local.replace('T', ' '),
      remark(one),
    ])); // prettier-ignore
    if (rows.length) fill(coming.body, held(), el('div', { class: 'parrot-next', tabindex: '0', role: 'region', 'aria-label': 'Next due times' }, table('Next due times', NEXT, rows).node));
    else fill(coming.body, el('p', { class: 'parrot-state' }, 'It will not be due again.'));
  } catch (error) {
    if (schedule.state === 'broken') fill(coming.body, el('p', { class: 'parrot-state' }, 'Nobody knows: it is broken.'));
    else failed(coming.body, error, showComing);
  }
}

function held() {
  if (!['paused', 'disabled'].includes(schedule.state)) return null;
  return el('p', { class: 'parrot-body mb-0' }, `It is ${schedule.state}: these are the times at which it would be due.`);
}

async function edit() {
  if (editing) return;
  editing = part('edit', 'Edit');
  loading(editing.body);
  head.after(editing.node);
  try {
    fill(editing.body, await form(schedule, closed));
    editing.body.removeAttribute('aria-busy');
    editing.body.querySelector('input').focus();
  } catch {
    editing.node.remove(); // why, a message has told
    editing = null;
  }
}

async function closed(saved) {
  editing.node.remove();
  editing = null;
  if (saved) await changed(saved);
  head.querySelector('button')?.focus();
}

async function refresh(records) {
  if (records.length && !records.some((record) => record.schedule_id === schedule.schedule_id)) return;
  const now = await api(schedulePath(schedule.schedule_id), { quiet: true }).catch(() => null);
  if (now && !head.contains(document.activeElement)) await changed(now);
  else if (now) facts(told.body, now);
  await history.refresh();
}

async function startNew() {
  document.title = 'New schedule · Flower';
  loading(root);
  try {
    fill(root, el('h1', { class: 'parrot-title mb-3' }, 'New schedule'), el('section', { class: 'parrot-card', 'aria-label': 'New schedule' }, await form(null)));
    root.removeAttribute('aria-busy');
  } catch (error) {
    failed(root, error, startNew);
  }
}

async function start() {
  if (!page.schedule) {
    await startNew();
    return;
  }
  loading(root);
  try {
    show(await api(schedulePath(page.schedule), { quiet: true }));
  } catch (error) {
    failed(root, error, start);
    return;
  }
  const why = part('why', 'Why did it run, or not?');
  const asking = whyBox(why.body, schedule);
  const past = part('history', 'History');
  history = new History(past.body, schedule, asking);
  fill(root, head, el('p', { class: 'page-description mb-3' }, zoneNote()), coming.node, past.node, why.node, told.node);
  await Promise.all([showComing(), history.load()]);
  root.removeAttribute('aria-busy');
  live(refresh, status);
}

start();
