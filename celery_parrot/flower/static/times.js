// Instants in the viewer's zone, and durations as people read them.

import { el } from './dom.js';

export const viewerZone = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';

const formats = new Map();

function parts(at, zone) {
  if (!formats.has(zone)) {
    const wanted = { timeZone: zone, hourCycle: 'h23', timeZoneName: 'longOffset', year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit', second: '2-digit' };
    formats.set(zone, new Intl.DateTimeFormat('en-GB', wanted));
  }
  return Object.fromEntries(formats.get(zone).formatToParts(at).map((part) => [part.type, part.value]));
}

/** "2026-03-29 01:30:00" in `zone`; one that the browser does not know is told in UTC. */
export function clock(at, zone = viewerZone) {
  const p = parts(new Date(at), known(zone));
  return `${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}:${p.second}`;
}

/** "+02:00" of `zone` at that instant. */
export function offset(at, zone = viewerZone) {
  return parts(new Date(at), known(zone)).timeZoneName.replace('GMT', '') || '+00:00';
}

function known(zone) {
  if (formats.has(zone)) return zone;
  try {
    return Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions().timeZone;
  } catch {
    return 'UTC';
  }
}

/** "850 ms", "12 s", "3 min 20 s", "5 h 2 min", "3 d 4 h" */
export function span(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return '—';
  const size = Math.abs(seconds);
  if (size < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (size < 9.95) return `${seconds.toFixed(1)} s`;
  const sign = seconds < 0 ? '−' : '';
  const whole = Math.round(size);
  const two = (big, unit, small, less) => `${sign}${big} ${unit}${small ? ` ${small} ${less}` : ''}`;
  if (whole < 60) return `${sign}${whole} s`;
  if (whole < 3600) return two(Math.floor(whole / 60), 'min', whole % 60, 's');
  if (whole < 86400) return two(Math.floor(whole / 3600), 'h', Math.floor((whole % 3600) / 60), 'min');
  return two(Math.floor(whole / 86400), 'd', Math.floor((whole % 86400) / 3600), 'h');
}

/** Seconds from one instant to another, null where one is missing. */
export function between(start, end) {
  return start && end ? (Date.parse(end) - Date.parse(start)) / 1000 : null;
}

const TOLERATED = 5000; // ms: the server tells whole seconds, and its answer takes a while
let ahead = 0; // ms by which the viewer's clock is ahead of the server's

/** Learn from the Date of an answer how wrong the viewer's clock is. */
export function learnTime(date) {
  const wrong = Date.now() - Date.parse(date);
  if (!Number.isNaN(wrong)) ahead = Math.abs(wrong) > TOLERATED ? wrong : 0;
}

/** "in 3 min" or "12 s ago", by the server's clock. */
export function distance(at) {
  const seconds = (new Date(at) - Date.now() + ahead) / 1000;
  if (Math.abs(seconds) < 1) return 'now';
  const size = Math.abs(seconds);
  const text = size < 60 ? `${Math.round(size)} s` : span(Math.floor(size / 60) * 60);
  return seconds > 0 ? `in ${text}` : `${text} ago`;
}

/** The distance to an instant, kept up to date. */
export function ticking(iso) {
  return el('span', { class: 'parrot-distance', 'data-distance': iso }, distance(iso));
}

/** An instant for people: the viewer's clock, with the distance where asked for. The tooltip has it exactly, in UTC, in
 *  the viewer's zone and in `zone`, the schedule's own. `missing` stands where there is none. */
export function when(iso, { zone = null, relative = false, missing = '—' } = {}) {
  if (!iso) return el('span', { class: 'value-missing' }, missing);
  const lines = [`${iso} (exactly)`, `${clock(iso)} ${offset(iso)} ${viewerZone} (yours)`];
  if (zone && zone !== viewerZone) lines.push(`${clock(iso, zone)} ${offset(iso, zone)} ${zone} (the schedule's)`);
  return el('time', { datetime: iso, title: lines.join('\n'), class: 'parrot-time' },
    clock(iso),
    relative && [' ', ticking(iso)]); // prettier-ignore
}

/** "Europe/Lisbon (+01:00)", for the sentence above a table of times. */
export function zoneNote() {
  return `Times are shown in your zone, ${viewerZone} (UTC${offset(Date.now())}); point at one to see it in the schedule's own.`;
}

setInterval(() => {
  if (document.hidden) return;
  for (const one of document.querySelectorAll('[data-distance]')) one.textContent = distance(one.dataset.distance);
}, 5000);
