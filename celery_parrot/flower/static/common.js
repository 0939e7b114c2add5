// What all pages share: the API, messages, dialogs, and news of fires.

import { badge, busy, button, debounce, el, empty, failed, fill, loading, pager, row, svg, table } from './dom.js';
import { between, clock, distance, learnTime, offset, span, ticking, viewerZone, when, zoneNote } from './times.js';

export { badge, between, busy, button, clock, debounce, distance, el, empty, failed, fill, loading, offset, pager, row };
export { span, svg, table, ticking, viewerZone, when, zoneNote };

const shell = document.getElementById('parrot-page');
const POLL = 5000; // ms between two looks where no events come
const SETTLE = 1000; // ms that news are gathered before they are told, so that a burst is one change

// On a narrow screen the tabs are a strip that scrolls.
const tabs = shell.querySelector('.parrot-tabs');
const tab = tabs.querySelector('.active');
if (tab) tabs.scrollLeft = tab.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;

/** Where we are, and why nothing may be changed here (empty: it may). */
export const page = {
  parrot: shell.dataset.parrot,
  schedule: shell.dataset.schedule,
  whyNot: shell.dataset.whyNot,
};

/** The page of a schedule, by id or name. */
export function scheduleUrl(id) {
  return `${page.parrot}/schedules/${id === 'new' ? '%6Eew' : encodeURIComponent(id)}`; // new is the empty form
}

/** Flower's page of a task: the id of a fire is that of the task that was sent for it first. */
export function taskUrl(id) {
  return `${page.parrot.slice(0, -'/parrot'.length)}/task/${encodeURIComponent(id)}`;
}

/** A link to Flower's page of a task: its id, or that of a fire. */
export function taskLink(id, text = id.slice(0, 8)) {
  return el('a', { href: taskUrl(id), class: 'parrot-id', title: `Task ${id}` }, text);
}

/** What the API refused: `status`, `type`, `message`, and the further members of its error in `details`. */
export class ApiError extends Error {
  constructor(status, { type = 'internal', message = `The server answered ${status}.`, ...details } = {}) {
    super(message);
    Object.assign(this, { status, type, details });
  }
}

/** Ask the API: `api('/schedules', {query: {text: 'x'}})`. Resolves to its JSON, null where there is none; rejects with
 *  ApiError, which is shown as a message unless `quiet`. */
export async function api(path, { method = 'GET', query = {}, body, version, signal, quiet = false } = {}) {
  try {
    return await asked(path, { method, query, body, version, signal });
  } catch (error) {
    if (!quiet && error.name !== 'AbortError') toast(error.message, 'danger');
    throw error;
  }
}

async function asked(path, { method, query, body, version, signal }) {
  const wanted = Object.entries(query).filter(([, value]) => value !== '' && value !== null && value !== undefined);
  const headers = { Accept: 'application/json', 'X-XSRFToken': cookie('_xsrf') };
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (version !== undefined) headers['If-Match'] = `"${version}"`;
  const address = `${page.parrot}/api${path}${wanted.length ? `?${new URLSearchParams(wanted)}` : ''}`;
  let answer;
  try {
    answer = await fetch(address, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError(0, { type: 'unreachable', message: 'Flower does not answer.' });
  }
  learnTime(answer.headers.get('Date'));
  const found = await json(answer);
  if (!answer.ok) throw new ApiError(answer.status, found?.error);
  return found;
}

async function json(answer) {
  try {
    return answer.status === 204 ? null : await answer.json();
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    return null; // something between us and Flower answered, in its own words
  }
}

function cookie(name) {
  const found = document.cookie.split('; ').find((one) => one.startsWith(`${name}=`));
  return found ? found.slice(name.length + 1).replace(/^"|"$/g, '') : '';
}

/** `/schedules/{id}` of the API, with what follows. */
export function schedulePath(id, more = '') {
  return `/schedules/${encodeURIComponent(id)}${more}`;
}

/** A message that goes away: kind is `success`, `danger` or `info`; content: texts and nodes. */
export function toast(content, kind = 'success') {
  let box = document.getElementById('parrot-toasts');
  if (!box) shell.append((box = el('div', { id: 'parrot-toasts', class: 'parrot-toasts', role: 'region', 'aria-label': 'Messages' })));
  const sign = { success: '✓', danger: '✕', info: 'ℹ' }[kind];
  const found = el('div', { class: `parrot-toast parrot-toast-${kind}`, role: kind === 'danger' ? 'alert' : 'status' },
    el('span', { 'aria-hidden': 'true', class: 'parrot-toast-sign' }, sign),
    el('div', {}, content),
    el('button', { type: 'button', class: 'btn-close', 'aria-label': 'Close this message', onclick: () => found.remove() })); // prettier-ignore
  box.append(found);
  while (box.children.length > 4) box.firstChild.remove();
  const leave = () => (found.matches(':hover, :focus-within') ? setTimeout(leave, 2000) : found.remove());
  setTimeout(leave, kind === 'danger' ? 12000 : 7000);
}

/** Disable what changes something where nothing may be changed, and tell why. Gives the control back. */
export function writing(control) {
  if (page.whyNot) {
    control.disabled = true;
    control.title = page.whyNot;
    control.setAttribute('aria-describedby', 'parrot-why-not');
  }
  return control;
}

/** A dialog. `content(close)` gives what it holds; resolves to what `close` was called with, undefined when dismissed. */
export function dialog(title, content) {
  return new Promise((resolve) => {
    let result;
    const close = (value) => {
      result = value;
      box.close();
    };
    const box = el('dialog', { class: 'parrot-dialog', 'aria-labelledby': 'parrot-dialog-title' });
    box.addEventListener('close', () => {
      box.remove();
      resolve(result);
    });
    fill(box,
      el('header', {},
        el('h2', { id: 'parrot-dialog-title' }, title),
        el('button', { type: 'button', class: 'btn-close', 'aria-label': 'Close', onclick: () => box.close() })),
      content(close)); // prettier-ignore
    shell.append(box);
    box.showModal();
  });
}

/** Ask for one text before something is done: `{title, text, label, confirm, danger, must}`; `must`: what has to be typed.
 *  Resolves to the text, undefined when dismissed. */
export function ask({ title, text, label, confirm, danger = false, must = null }) {
  return dialog(title, (close) => {
    const input = el('input', { class: 'form-control', name: 'answer', autocomplete: 'off', maxlength: 1000, autofocus: true });
    const go = el('button', { type: 'submit', class: `btn ${danger ? 'btn-danger' : 'btn-primary'}`, disabled: must !== null }, confirm);
    if (must !== null) input.addEventListener('input', () => (go.disabled = input.value !== must));
    const submit = (event) => {
      event.preventDefault();
      close(input.value);
    };
    return el('form', { onsubmit: submit },
      text && el('p', {}, text),
      el('label', { class: 'parrot-field' }, label, input),
      el('footer', {}, button('Cancel', () => close()), go)); // prettier-ignore
  });
}

/** Tell of fires as they come. `onNews(records)` gets the changed records, newest last; an empty list means "look
 *  again": events are off or out of reach, and it is called every few seconds instead. `status` shows which. */
export function live(onNews, status = null) {
  let [news, gathering, polling] = [[], null, null];
  const say = (text, tone, title) => status && fill(status, el('span', { class: `status-dot ${tone}`, 'aria-hidden': 'true' }), el('span', { title }, text));
  const tell = () => {
    [gathering] = [null];
    onNews(news.splice(0));
  };
  const poll = (why) => {
    polling ??= setInterval(() => document.hidden || onNews([]), POLL);
    say(`Looks every ${POLL / 1000} s`, '', why);
  };
  const listen = () => {
    const source = new EventSource(`${page.parrot}/api/events`);
    source.addEventListener('open', () => {
      clearInterval(polling);
      polling = null;
      say('Live', 'status-dot-live', 'Told of each fire by Celery events.');
    });
    source.addEventListener('fire', (event) => {
      news.push(JSON.parse(event.data));
      gathering ??= setTimeout(tell, SETTLE);
    });
    source.addEventListener('error', () => poll('Flower does not answer at the moment.'));
    window.addEventListener('pagehide', () => leave(source), { once: true });
  };
  /** A page that the browser kept is shown again by going back: it listens anew, and has missed something. */
  const leave = (source) => {
    source.close();
    const back = () => {
      listen();
      onNews([]);
    };
    window.addEventListener('pageshow', back, { once: true });
  };
  say('Connecting…', '');
  api('/fires', { query: { limit: 1 }, quiet: true }).then(
    (feed) => (feed.events_on && feed.listening ? listen() : poll('No events come: parrot_send_events is off, or Flower does not listen.')),
    () => poll('Flower does not answer at the moment.'),
  );
}

/** Set the filters of a form to what the address says. */
export function filtersOf(form) {
  const given = new URLSearchParams(location.search);
  for (const control of form.elements) {
    if (!control.name || !given.has(control.name)) continue;
    const value = given.get(control.name);
    if (control.tagName === 'SELECT' && ![...control.options].some((one) => one.value === value)) control.append(el('option', { value }, value));
    control.value = value;
  }
}

/** The values of a form, those that are not empty; the address is made to say the same. */
export function keepFilters(form) {
  const values = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ''));
  const query = new URLSearchParams(values).toString();
  history.replaceState(null, '', `${location.pathname}${query ? `?${query}` : ''}`);
  return values;
}

/** Fill the options of a select after its first, which means all. */
export function options(select, values) {
  const there = new Set([...select.options].map((one) => one.value));
  select.append(...values.filter((value) => !there.has(value)).map((value) => el('option', { value }, value)));
}
