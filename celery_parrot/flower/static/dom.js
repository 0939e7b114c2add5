// Elements. Whatever comes from outside reaches the page as text, never as markup.

const SVG = 'http://www.w3.org/2000/svg';

/** el('a', {href: '/x', class: 'btn', onclick: f}, 'text', child, [more]): null and false are left out. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name !== 'value') element.setAttribute(name, value === true ? '' : String(value));
  }
  put(element, ...children);
  if ('value' in attributes) element.value = attributes.value; // of a select: once its options are there
  return element;
}

function put(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replace all that `element` holds. */
export function fill(element, ...children) {
  element.replaceChildren();
  put(element, ...children);
  return element;
}

/** Run `action` when `milliseconds` have passed without another call. */
export function debounce(action, milliseconds) {
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), milliseconds);
  };
}

/** A button that shows that it works until `action` is over. */
export function button(label, action, attributes = {}) {
  const found = el('button', { type: 'button', class: 'btn btn-outline-secondary', ...attributes }, label);
  found.addEventListener('click', () => busy(found, action));
  return found;
}

/** Disable `control` while `action` runs. Failures have been shown by then. */
export async function busy(control, action) {
  control.disabled = true;
  control.setAttribute('aria-busy', 'true');
  try {
    return await action();
  } catch {
    return undefined;
  } finally {
    control.disabled = false;
    control.removeAttribute('aria-busy');
  }
}

const SIGNS = {
  active: ['✓', 'good'], success: ['✓', 'good'], alive: ['✓', 'good'],
  running: ['▶', 'going'], sent: ['→', 'going'], pending: ['…', 'going'], waiting: ['◔', 'going'],
  paused: ['‖', 'held'], skipped: ['↷', 'held'], missed: ['↷', 'held'], completed: ['■', 'quiet'], unknown: ['?', 'quiet'],
  disabled: ['✕', 'bad'], broken: ['✕', 'bad'], error: ['✕', 'bad'], target_missing: ['✕', 'bad'],
  abandoned: ['✕', 'bad'], expired: ['✕', 'bad'], lock_unavailable: ['✕', 'bad'], silent: ['✕', 'bad'],
}; // prettier-ignore

/** A state or status: a sign and a word, and a colour besides. */
export function badge(word, title = null) {
  if (!word) return el('span', { class: 'value-missing' }, '—');
  const [sign, tone] = SIGNS[word] || ['•', 'quiet'];
  return el('span', { class: `parrot-badge parrot-${tone}`, title }, el('span', { 'aria-hidden': 'true' }, sign), ` ${word.replaceAll('_', ' ')}`);
}

/** A table whose rows become stacked cards on a narrow screen.
 *  columns: texts, or {text, class, unit, hidden}. unit: a zone or unit, small below it; hidden: for screen readers only. */
export function table(caption, columns, rows) {
  const heads = columns.map((one) => (typeof one === 'string' ? { text: one } : one));
  const body = el('tbody', {}, rows);
  const found = el('table', { class: 'parrot-table table table-hover align-middle mb-0' },
    el('caption', { class: 'visually-hidden' }, caption),
    el('thead', {}, el('tr', {}, heads.map((head) =>
      el('th', { scope: 'col', class: head.class }, head.hidden ? el('span', { class: 'visually-hidden' }, head.text) : head.text,
        head.unit && el('span', { class: 'parrot-unit' }, head.unit))))),
    body); // prettier-ignore
  return { node: el('div', { class: 'parrot-scroll' }, found), body, columns: heads };
}

/** A row of such a table; the first cell is its head. */
export function row(columns, cells, attributes = {}) {
  const heads = columns.map((one) => (typeof one === 'string' ? { text: one } : one));
  return el('tr', attributes, cells.map((cell, i) => {
    const more = { class: heads[i].class, 'data-label': heads[i].text };
    return i === 0 ? el('th', { scope: 'row', ...more }, el('div', {}, cell)) : el('td', more, el('div', {}, cell));
  })); // prettier-ignore
}

/** While something is on its way. */
export function loading(element, what = 'Loading…') {
  element.setAttribute('aria-busy', 'true');
  fill(element, el('p', { class: 'parrot-state', role: 'status' }, el('span', { class: 'parrot-spinner', 'aria-hidden': 'true' }), what));
}

/** What is said where there is nothing; more: what to do about it. */
export function empty(element, title, ...more) {
  element.removeAttribute('aria-busy');
  fill(element, el('div', { class: 'parrot-state' }, el('p', { class: 'parrot-state-title' }, title), more));
}

/** What is said where it could not be asked for. */
export function failed(element, error, retry = null) {
  element.removeAttribute('aria-busy');
  fill(element, el('div', { class: 'parrot-state', role: 'alert' },
    el('p', { class: 'parrot-state-title' }, 'This could not be loaded.'),
    el('p', {}, error.message),
    retry && el('button', { type: 'button', class: 'btn btn-outline-secondary', onclick: retry }, 'Try again'))); // prettier-ignore
}

/** Previous and next page of a list with cursors. `load(after)` resolves to the cursor of the page that follows. */
export function pager(element, load) {
  let [before, here, following] = [[], '', ''];
  const go = async (stack, cursor) => {
    const next = await load(cursor);
    if (next === undefined) return; // a newer question replaced this one, or it failed
    [before, here, following] = [stack, cursor, next];
    fill(element,
      (before.length || following) && [
        step('Previous page', !before.length, () => go(before.slice(0, -1), before.at(-1))),
        el('span', { class: 'parrot-page', 'aria-current': 'page' }, `Page ${before.length + 1}`),
        step('Next page', !following, () => go([...before, here], following)),
      ]); // prettier-ignore
  };
  const step = (label, disabled, action) => {
    const found = button(label, action);
    found.disabled = disabled;
    return found;
  };
  return { first: () => go([], ''), again: () => go(before, here) };
}
