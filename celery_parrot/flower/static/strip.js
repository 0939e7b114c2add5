// One strip of the timeline: 144 cells, four parts of six hours that stand below each other where it is narrow.

import { el, fill } from './common.js';

const PART = 36; // cells
const HOUR = 6; // cells
const LABEL = 2; // hours between two labels
const ROOM = 3; // cells that a label needs

/** A strip with its heading; a slider for the keyboard and for screen readers.
 *  `bounds`: the upper ends of the levels; `clock(i)`, `day(i)`: when cell i begins, in the viewer's zone. */
export function stripOf({ kind, counts, total, bounds, clock, day, number }) {
  const name = kind || 'All kinds';
  const text = (i) => `${day(i)} ${clock(i)}–${clock(i + 1)}: ${number.format(counts[i])} due`;
  const level = (count) => (count ? Math.round(((bounds.findIndex((bound) => count <= bound) + 1) / bounds.length) * 5) : 0);
  const cells = counts.map((count, i) => el('span', { class: 'parrot-cell', 'data-level': level(count), 'data-cell': i }));
  const tip = el('output', { class: 'parrot-tip', 'aria-hidden': 'true', hidden: true });
  const strip = el('div', {
    class: 'parrot-strip', role: 'slider', tabindex: 0, 'data-strip': kind, 'aria-label': `${name}: ${number.format(total)} due; arrow keys go from one ten minutes to the next`,
    'aria-valuemin': 0, 'aria-valuemax': counts.length - 1, 'aria-valuenow': 0, 'aria-valuetext': text(0),
  }, partsOf(cells, clock)); // prettier-ignore
  const show = (i) => {
    strip.querySelector('.parrot-here')?.classList.remove('parrot-here');
    cells[i].classList.add('parrot-here');
    strip.setAttribute('aria-valuenow', i);
    strip.setAttribute('aria-valuetext', text(i));
    fill(tip, text(i));
    tip.hidden = false;
  };
  const hide = () => {
    if (strip.matches(':focus')) return;
    strip.querySelector('.parrot-here')?.classList.remove('parrot-here');
    tip.hidden = true;
  };
  const here = () => Number(strip.getAttribute('aria-valuenow'));
  strip.show = (i) => {
    strip.focus();
    show(i);
  };
  strip.addEventListener('focus', () => show(here()));
  strip.addEventListener('blur', hide);
  strip.addEventListener('pointerover', (event) => event.target.dataset.cell && show(Number(event.target.dataset.cell)));
  strip.addEventListener('pointerleave', hide);
  strip.addEventListener('keydown', (event) => {
    const i = moved(event.key, here(), counts.length - 1);
    if (i === null) return;
    event.preventDefault();
    show(i);
  });
  return el('div', { class: 'parrot-kind' },
    el('div', { class: 'parrot-kind-head' }, el('h3', { class: 'parrot-clip', dir: 'auto', title: name }, name), el('span', {}, `${number.format(total)} due`), tip),
    strip); // prettier-ignore
}

function moved(key, i, last) {
  const steps = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: HOUR, PageDown: -HOUR, Home: -last, End: last };
  return key in steps ? Math.min(last, Math.max(0, i + steps[key])) : null;
}

function partsOf(cells, clock) {
  const parts = [];
  for (let first = 0; first < cells.length; first += PART) {
    parts.push(el('div', { class: 'parrot-part', 'aria-hidden': 'true' }, cells.slice(first, first + PART), labels(first, clock)));
  }
  return parts;
}

/** The full hours of a part; the last may reach beyond it, where the next part stands beside it. */
function labels(first, clock) {
  const found = [];
  for (let i = 0; i < PART; i += 1) {
    const [hour, minute] = clock(first + i).split(':');
    if (minute !== '00' || hour % LABEL) continue;
    const late = i > PART - ROOM ? ' parrot-hour-late' : '';
    found.push(el('span', { class: `parrot-hour${late}`, style: `grid-column: ${i + 1} / span ${Math.min(HOUR, PART - i)}` }, `${hour}:00`));
  }
  return found;
}
