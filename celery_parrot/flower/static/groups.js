// Who holds each limit, and the line behind it.

import { api, badge, button, dialog, el, empty, failed, fill, live, loading, row, table, taskLink, toast, viewerZone, when, writing } from './common.js';
import { scheduleLink } from './actions.js';

const HOLDERS = ['Schedule', 'State', { text: 'Since', unit: viewerZone }, 'Worker', 'Kind', 'Fire', { text: 'Actions', class: 'parrot-buttons', hidden: true }];
const LINE = ['Schedule', { text: 'Place', class: 'parrot-number' }, { text: 'Waits since', unit: viewerZone }, { text: 'Gives up', unit: viewerZone }, 'Kind', 'Fire'];

const MOST = 100; // rows of a table; thousands would hold the browser up each time that the line moves

const list = document.getElementById('groups');
let last = '';

async function load() {
  try {
    const found = await api('/groups', { quiet: true });
    const text = JSON.stringify(found.items);
    if (text !== last) show(found.items);
    last = text;
  } catch (error) {
    last = '';
    failed(list, error, load);
  }
}

function show(groups) {
  const focus = document.activeElement?.dataset.focus;
  list.removeAttribute('aria-busy');
  if (groups.length) fill(list, groups.map(cardOf));
  else {
    empty(list, 'Nobody holds or waits for anything.',
      el('p', {}, 'Fires of schedules with an exclusion group, of kinds with max_in_flight or an exclusion group, and of schedules that must not overlap appear here while they run.')); // prettier-ignore
  }
  if (focus) list.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus();
}

function cardOf(group) {
  const { holders, waiting } = group;
  const full = holders.length >= group.capacity;
  const room = `${holders.length} of ${group.capacity} held${full && waiting.length ? `, ${waiting.length} in line` : ''}`;
  return el('section', { class: 'parrot-card', 'aria-label': `Group ${group.name}`, 'data-limit': group.limit },
    el('h2', { class: 'parrot-heading' },
      el('span', { class: 'parrot-clip', dir: 'auto', title: group.name }, group.name), ' ',
      el('span', { class: `parrot-room ${full ? 'parrot-held' : 'parrot-good'}` }, room)),
    holders.length
      ? first(`Who holds ${group.name}`, HOLDERS, holders, (one) => holderOf(group, one))
      : el('p', { class: 'parrot-state' }, 'Nobody holds it.'),
    waiting.length > 0 && [
      el('h3', { class: 'parrot-heading parrot-subheading' }, 'In line, first comes first'),
      first(`Who waits for ${group.name}`, LINE, waiting, waiterOf),
    ]); // prettier-ignore
}

/** A table of the first of them, and how many more there are. */
function first(caption, columns, all, rowOf) {
  const more = all.length - MOST;
  return [
    table(caption, columns, all.slice(0, MOST).map(rowOf)).node,
    more > 0 && el('p', { class: 'parrot-state' }, `And ${more.toLocaleString('en')} more.`),
  ];
}

function holderOf(group, one) {
  const control = writing(button('Release', () => release(group, one), { 'aria-label': `Release ${group.name}: end the fire of ${one.name}`, 'data-focus': `${group.limit} ${one.fire_id}` }));
  return row(HOLDERS, [
    scheduleLink(one),
    [badge(one.state), one.attempt > 1 && el('div', { class: 'parrot-distance' }, `attempt ${one.attempt}`)],
    when(one.since, { relative: true }),
    one.worker || '—',
    one.kind,
    taskLink(one.task_id, one.fire_id.slice(0, 8)),
    control,
  ]); // prettier-ignore
}

function waiterOf(one, index) {
  return row(LINE, [scheduleLink(one), index + 1, when(one.since, { relative: true }), when(one.until, { relative: true, missing: 'never' }), one.kind, taskLink(one.task_id, one.fire_id.slice(0, 8))]);
}

async function release(group, one) {
  const sure = await dialog(`Release ${group.name}?`, (close) => el('div', { class: 'parrot-body' },
    el('p', {}, 'The fire of ', el('strong', { dir: 'auto' }, one.name), ' is recorded as abandoned, with your name. It does not count as a failure, and whoever is next in line can start.'),
    el('p', {}, one.state === 'running'
      ? `Its task on ${one.worker || 'its worker'} is not stopped: it finds that its lease is gone, and may run beside its successor.`
      : 'No worker has started it: one that takes its message later will not run it.'),
    el('footer', {}, button('Cancel', () => close()), button('Release', () => close(true), { class: 'btn btn-danger' })))); // prettier-ignore
  if (!sure) return;
  await api(`/groups/${encodeURIComponent(group.limit)}/release`, { method: 'POST', body: { fire_id: one.fire_id } });
  toast(`The fire of ${one.name} holds ${group.name} no longer.`);
  await load();
}

loading(list);
load().then(() => live(load, document.getElementById('live-status')));
