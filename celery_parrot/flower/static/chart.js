// Lateness and duration of the last fires, as two rows of bars over one axis of time.

import { between, clock, el, fill, offset, span, svg, viewerZone } from './common.js';

const HIGH = 92; // px of one row of bars
const LEFT = 58;
const TOP = 22;
const GAP = 34;
const UNITS = [['ms', 0.001], ['s', 1], ['min', 60], ['h', 3600]]; // prettier-ignore
const BAD = new Set(['error', 'target_missing', 'abandoned', 'expired']);

/** Seconds from due to sent; a backfill is late on purpose: null. */
export const lateness = (fire) => (fire.origin === 'backfill' ? null : between(fire.due_at, fire.sent_at));

/** Seconds from its start to its end, null while there are not both. */
export const duration = (fire) => between(fire.started_at, fire.finished_at);

/** records: newest first. It draws itself anew when its width changes. */
export function chart(records) {
  const fires = records.filter((record) => record.sent_at).reverse();
  if (fires.length < 2) return null;
  const readout = el('p', { class: 'parrot-readout', 'aria-live': 'polite' }, 'Point at a bar, or use the arrow keys here, to read it.');
  const box = el('div', { class: 'parrot-chart' });
  const draw = () => box.clientWidth && fill(box, drawn(fires, box.clientWidth, readout));
  let width = 0;
  new ResizeObserver(() => {
    if (box.clientWidth === width) return;
    width = box.clientWidth;
    draw();
  }).observe(box);
  return el('figure', { class: 'parrot-figure' }, box, readout);
}

function drawn(fires, width, readout) {
  const rows = [
    { title: 'Lateness', of: lateness, top: TOP },
    { title: 'Duration', of: duration, top: TOP + HIGH + GAP },
  ];
  const high = TOP + 2 * HIGH + GAP + 26;
  const step = (width - LEFT - 8) / fires.length;
  const said = rows.map((one) => `${one.title} up to ${span(Math.max(0, ...fires.map((fire) => one.of(fire) ?? 0)))}`).join(', ');
  const found = svg('svg', { width, height: high, viewBox: `0 0 ${width} ${high}`, role: 'img', tabindex: '0', 'aria-labelledby': 'chart-title chart-text' },
    svg('title', { id: 'chart-title' }, `Lateness and duration of the last ${fires.length} fires`),
    svg('desc', { id: 'chart-text' }, `${said}. The table below has each.`),
    rows.map((one) => panel(one, fires, width, step)),
    axis(fires, width, high)); // prettier-ignore
  const pointer = svg('rect', { class: 'parrot-pointer', y: TOP, width: Math.max(step, 1), height: 2 * HIGH + GAP, visibility: 'hidden' });
  found.append(pointer);
  let at = fires.length;
  const read = (index) => {
    at = Math.min(Math.max(index, 0), fires.length - 1);
    pointer.setAttribute('x', LEFT + at * step);
    pointer.setAttribute('visibility', 'visible');
    readout.textContent = words(fires[at]);
  };
  found.addEventListener('pointermove', (event) => read(Math.floor((event.clientX - found.getBoundingClientRect().left - LEFT) / step)));
  found.addEventListener('keydown', (event) => {
    const move = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: fires.length - 1 }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    read(move);
  });
  return found;
}

/** One row: its name and unit, two lines of its scale, and a bar a fire. */
function panel({ title, of, top }, fires, width, step) {
  const values = fires.map(of);
  const [most, unit, size] = scale(Math.max(...values.map((value) => value ?? 0)));
  const y = (value) => top + HIGH - (Math.max(value, 0) / most) * HIGH;
  const line = (share) => [
    svg('line', { class: 'parrot-grid', x1: LEFT, x2: width - 8, y1: y(most * share), y2: y(most * share) }),
    svg('text', { class: 'parrot-tick', x: LEFT - 6, y: y(most * share) + 4, 'text-anchor': 'end' }, `${+((most * share) / size).toPrecision(3)} ${unit}`),
  ];
  const bars = fires.map((fire, i) => {
    if (values[i] === null) return null;
    const bad = BAD.has(fire.status);
    const x = LEFT + i * step + step * 0.12;
    const height = Math.max(top + HIGH - y(values[i]), 1.5);
    return [
      svg('rect', { class: bad ? 'parrot-bar-bad' : 'parrot-bar', x, y: top + HIGH - height, width: Math.max(step * 0.76, 1), height }),
      bad && svg('text', { class: 'parrot-cross', x: x + step * 0.38, y: top + HIGH - height - 3, 'text-anchor': 'middle' }, '✕'),
    ]; // prettier-ignore
  });
  return svg('g', {}, svg('text', { class: 'parrot-row-title', x: LEFT, y: top - 8 }, `${title} (${unit})`), [0, 0.5, 1].map(line), bars);
}

function axis(fires, width, high) {
  const label = (fire, x, anchor) => svg('text', { class: 'parrot-tick', x, y: high - 8, 'text-anchor': anchor }, clock(fire.due_at).slice(0, 16));
  return [label(fires[0], LEFT, 'start'), label(fires.at(-1), width - 8, 'end'), width > 700 && svg('text', { class: 'parrot-tick', x: (LEFT + width) / 2, y: high - 8, 'text-anchor': 'middle' }, `due, oldest to newest (${viewerZone})`)];
}

/** The top of a scale in seconds, and the unit in which it is told. */
function scale(largest) {
  const [unit, size] = UNITS.findLast(([, seconds]) => largest >= seconds) ?? UNITS[0];
  const most = Math.max(largest / size, 1);
  const power = 10 ** Math.floor(Math.log10(most));
  return [[1, 2, 5, 10].find((one) => one * power >= most) * power * size, unit, size];
}

function words(fire) {
  return `Due ${clock(fire.due_at)} ${offset(fire.due_at)}: ${fire.status.replaceAll('_', ' ')}, ${span(lateness(fire))} late, took ${span(duration(fire))}${fire.worker ? `, on ${fire.worker}` : ''}.`;
}
