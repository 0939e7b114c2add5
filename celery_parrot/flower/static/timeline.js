// The due times of the next 24 hours, as strips of 144 cells, one a kind.

import { api, clock, el, empty, failed, fill, loading, offset, page, row, table, viewerZone, when } from './common.js';
import { stripOf } from './strip.js';

const COUNTING = 1000; // ms between two looks while it is being counted
const COUNTED = 60000; // and after that
const MOST = 30; // kinds with a strip of their own; the others are in the sum
const STEPS = [1 / 16, 1 / 8, 1 / 4, 1 / 2, 1]; // of the fullest cell
const NUMBER = new Intl.NumberFormat('en');
const PEAKS = [{ text: 'When', unit: viewerZone }, { text: 'Due times', class: 'parrot-number' }, 'Most of them'];
const WHY = {
  paused: 'paused by a person',
  disabled: 'disabled after failures',
  completed: 'completed: nothing more will come',
  broken: 'broken: they cannot be read or computed',
  uncountable: 'whose due times cannot be computed',
};

const strips = document.getElementById('strips');
const peaks = document.getElementById('peaks');
const left = document.getElementById('left');
const progress = document.getElementById('progress');
let last = '';

async function load() {
  let found;
  try {
    found = await api('/timeline', { quiet: true });
  } catch (error) {
    last = '';
    failed(strips, error, load);
    return;
  }
  const text = JSON.stringify(found);
  if (text !== last) show(found);
  last = text;
  setTimeout(look, found.complete ? COUNTED : COUNTING);
}

/** Not while nobody sees it. */
function look() {
  if (document.hidden) document.addEventListener('visibilitychange', load, { once: true });
  else load();
}

function show(found) {
  const counted = `${NUMBER.format(found.counted)} schedule${found.counted === 1 ? '' : 's'}`;
  fill(progress, found.complete ? `${counted} counted` : [el('span', { class: 'parrot-spinner', 'aria-hidden': 'true' }), `Counting: ${counted} so far`]);
  if (found.failed) fill(progress, `The count ended early: ${found.failed}`);
  showStrips(found);
  showPeaks(found);
  showLeft(found);
}

function showStrips(found) {
  const sum = (counts) => counts.reduce((a, b) => a + b, 0);
  const kinds = Object.entries(found.kinds).sort(([a, x], [b, y]) => sum(y) - sum(x) || (a < b ? -1 : 1));
  if (!kinds.length) {
    if (found.complete) empty(strips, 'Nothing is due within the next 24 hours.');
    else if (!last) loading(strips, 'Counting…');
    return;
  }
  if (found.complete || found.failed) strips.removeAttribute('aria-busy');
  const all = kinds[0][1].map((_, i) => sum(kinds.map(([, counts]) => counts[i])));
  const rows = kinds.length > 1 ? [['', all], ...kinds.slice(0, MOST)] : kinds;
  const bounds = boundsOf(Math.max(...all));
  const at = (i) => new Date(new Date(found.from).getTime() + i * found.bucket_seconds * 1000);
  const focus = document.activeElement?.dataset.strip;
  const place = document.activeElement?.getAttribute('aria-valuenow');
  fill(strips, legend(bounds),
    rows.map(([kind, counts]) => stripOf({ kind, counts, total: sum(counts), bounds, at, clock: (one) => clock(at(one)).slice(11, 16), day: (one) => clock(at(one)).slice(0, 10), number: NUMBER })),
    kinds.length > MOST && el('p', { class: 'parrot-distance' }, `and ${kinds.length - MOST} more kinds, which are in the sum`)); // prettier-ignore
  if (focus !== undefined) strips.querySelector(`[data-strip="${CSS.escape(focus)}"]`)?.show(Number(place));
}

/** The upper ends of the levels: whole numbers, each greater than the one before. */
function boundsOf(most) {
  return STEPS.map((step) => Math.ceil(most * step)).filter((bound, i, all) => bound > 0 && bound !== all[i - 1]);
}

function legend(bounds) {
  const text = (i) => {
    const from = i ? bounds[i - 1] + 1 : 1;
    return from === bounds[i] ? NUMBER.format(from) : `${NUMBER.format(from)}–${NUMBER.format(bounds[i])}`;
  };
  const level = (i) => Math.round(((i + 1) / bounds.length) * 5);
  return el('ul', { class: 'parrot-legend', 'aria-label': 'Due times in ten minutes' },
    el('li', {}, el('span', { class: 'parrot-cell', 'data-level': 0, 'aria-hidden': 'true' }), '0'),
    bounds.map((_, i) => el('li', {}, el('span', { class: 'parrot-cell', 'data-level': level(i), 'aria-hidden': 'true' }), text(i)))); // prettier-ignore
}

function showPeaks(found) {
  if (!found.peaks.length) {
    empty(peaks, found.complete ? 'Nothing is due.' : 'Counting…');
    return;
  }
  fill(peaks, table('The minutes in which most is due', PEAKS, found.peaks.map((peak) => row(PEAKS, [
    when(peak.at, { relative: true }),
    NUMBER.format(peak.count),
    Object.entries(peak.kinds).filter(([, count]) => count).map(([kind, count], i) => [i > 0 && ', ', kindLink(kind), ` ${NUMBER.format(count)}`]),
  ]))).node); // prettier-ignore
}

function kindLink(kind) {
  return el('a', { href: `${page.parrot}/schedules?${new URLSearchParams({ kind })}`, dir: 'auto' }, kind);
}

function showLeft(found) {
  const out = Object.entries(found.left_out).filter(([, count]) => count);
  fill(left, el('dl', { class: 'detail-list' },
    line('Begun', when(found.as_of, { relative: true }), '; it is counted anew when it is older than five minutes and somebody looks'),
    line('Schedules', NUMBER.format(found.counted), found.complete ? '' : ' so far'),
    line('Left out', out.length ? el('ul', { class: 'parrot-plain' }, out.map(([state, count]) => el('li', {}, `${NUMBER.format(count)} ${WHY[state] || state}`))) : 'none'),
    found.capped > 0 && line('In part', `${NUMBER.format(found.capped)} that are due more than ten times a minute and are no intervals: the counts are at least so high`),
    line('Counted by', `due time in ${viewerZone} (UTC${offset(Date.now())}), before jitter; what limits, overlap or missed-fire policies will leave out is in it`))); // prettier-ignore
}

function line(name, ...value) {
  return el('div', { class: 'detail-row' }, el('dt', {}, name), el('dd', {}, value));
}

document.getElementById('zone-note').textContent = `When something will be due, so that pile-ups are seen. Times are shown in your zone, ${viewerZone}.`;
loading(strips, 'Counting…');
load();
