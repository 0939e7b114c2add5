// What can be done to a schedule, on whichever page it is shown.

import { api, ask, button, clock, distance, el, offset, page, scheduleUrl, schedulePath, taskLink, toast, writing } from './common.js';

/** The buttons of a schedule; `changed` is called with the schedule as it is after something was done. */
export function actionsOf(schedule, changed) {
  const named = (label, action) => writing(button(label, action, { 'aria-label': `${label}: ${schedule.name}` }));
  const held = ['paused', 'disabled'].includes(schedule.state);
  return [
    held ? named('Resume', () => resume(schedule).then(changed)) : named('Pause', () => pause(schedule).then(changed)),
    named('Run now', () => runNow(schedule)),
  ];
}

async function pause(schedule) {
  const note = await ask({
    title: `Pause ${schedule.name}?`,
    text: 'It will not be due until somebody resumes it. What is on its way goes on.',
    label: 'Why (others will see it)',
    confirm: 'Pause',
  });
  if (note === undefined) return schedule;
  const found = await api(schedulePath(schedule.schedule_id, '/pause'), { method: 'POST', body: { note } });
  toast(`${schedule.name} is paused.`);
  return found;
}

async function resume(schedule) {
  const found = await api(schedulePath(schedule.schedule_id, '/resume'), { method: 'POST', body: {} });
  toast(`${schedule.name} is active again.`);
  return found;
}

async function runNow(schedule) {
  try {
    const fire = await api(schedulePath(schedule.schedule_id, '/run-now'), { method: 'POST', body: {}, quiet: true });
    toast([`${schedule.name} is asked to run: fire `, taskLink(fire.fire_id, fire.fire_id), '.']);
  } catch (error) {
    toast(error.type === 'already_running' ? heldBy(schedule, error.details) : error.message, error.type === 'already_running' ? 'info' : 'danger');
  }
}

function heldBy(schedule, { held_by: fire, since }) {
  return [
    `${schedule.name} is running already`,
    since && `, since ${clock(since)} ${offset(since)} (${distance(since)})`,
    fire && [': fire ', taskLink(fire, fire)],
    '.',
  ];
}

/** Ask for the name, then delete; leads to the list. */
export async function remove(schedule) {
  const typed = await ask({
    title: `Delete ${schedule.name}?`,
    text: 'It is gone for good; its history stays until it is too old. Type its name to delete it.',
    label: `Name: ${schedule.name}`,
    confirm: 'Delete',
    danger: true,
    must: schedule.name,
  });
  if (typed === undefined) return;
  await api(schedulePath(schedule.schedule_id), { method: 'DELETE', version: schedule.version });
  location.assign(`${page.parrot}/schedules`);
}

/** A link to the page of a schedule. */
export function scheduleLink(schedule) {
  return el('a', { href: scheduleUrl(schedule.schedule_id), dir: 'auto' }, schedule.name);
}
