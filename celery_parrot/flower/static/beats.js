// Who beats, and whether that is enough.

import { api, badge, el, empty, failed, fill, loading, row, span, table, viewerZone, when } from './common.js';

const LOOKS = 5000; // ms between two looks: beats tell nobody that they live, they are asked
const COLUMNS = [
  'Host', 'State', { text: 'Process', class: 'parrot-number' }, 'Version', { text: 'Up since', unit: viewerZone }, { text: 'Last seen', unit: viewerZone }, { text: 'Claims/s', class: 'parrot-number' },
  { text: 'Clock off', class: 'parrot-number' }, 'tzdata', 'Stores', 'Owner',
]; // prettier-ignore

const list = document.getElementById('beats');
const sentence = document.getElementById('health');
const warnings = document.getElementById('warnings');

async function load() {
  try {
    const found = await api('/beats', { quiet: true });
    tell(found.health);
    warn(found.items.filter((beat) => beat.state === 'alive'), found.max_clock_skew);
    show(found.items, found.max_clock_skew);
  } catch (error) {
    sentence.removeAttribute('aria-busy');
    sentence.classList.add('parrot-note-bad');
    fill(sentence, 'Nobody can say how the beats are.');
    failed(list, error, load);
  }
}

function tell(health) {
  const alive = health.beats_alive === 1 ? '1 beat is alive' : `${health.beats_alive} beats are alive`;
  const silent = health.beats_silent ? `, ${health.beats_silent} went silent within the last hour` : '';
  const text = health.healthy ? `✓ Healthy: ${alive}${silent}. Coordination: ${health.coordinator}.` : `✕ Not healthy: ${health.reason}.`;
  sentence.removeAttribute('aria-busy');
  sentence.classList.toggle('parrot-note-bad', !health.healthy);
  sentence.classList.toggle('parrot-note-good', health.healthy);
  if (sentence.textContent !== text) fill(sentence, text);
}

function warn(living, skew) {
  const rules = [...new Set(living.map((beat) => beat.tzdata || 'unknown'))].sort();
  const wrong = living.filter((beat) => Math.abs(beat.skew) > skew);
  const found = [
    rules.length > 1 && `The beats compute with different time zone rules: ${rules.join(', ')}. Due times may differ by an hour; update tzdata on all of them.`,
    wrong.length > 0 && `The clock of ${wrong.map((beat) => beat.host).join(', ')} is more than ${skew} s off. Due times are kept by the coordinator's clock; set it right all the same.`,
  ].filter(Boolean);
  if (warnings.textContent !== found.join('')) fill(warnings, found.map((text) => el('p', { class: 'parrot-note', role: 'status' }, text)));
}

function show(beats, skew) {
  list.removeAttribute('aria-busy');
  if (beats.length) fill(list, table('Beats of the last hour', COLUMNS, beats.map((beat) => lineOf(beat, skew))).node);
  else empty(list, 'No beat is known.', el('p', {}, 'Start one:'), el('pre', {}, el('code', {}, 'celery -A YOUR_APP beat -S parrot')));
}

function lineOf(beat, skew) {
  const failing = Object.entries(beat.failing || {});
  return row(COLUMNS, [
    beat.host,
    badge(beat.state),
    beat.pid,
    beat.version,
    when(beat.started, { relative: true }),
    when(beat.seen, { relative: true }),
    beat.claims.toFixed(beat.claims < 10 ? 1 : 0),
    Math.abs(beat.skew) > skew ? el('strong', { class: 'parrot-bad' }, `⚠ ${span(beat.skew)}`) : span(beat.skew),
    beat.tzdata || 'unknown',
    failing.length ? failing.map(([name, seconds]) => el('div', { class: 'parrot-bad' }, `✕ ${name}: out of reach for ${span(seconds)}`)) : 'all answer',
    el('span', { class: 'parrot-id', title: beat.owner }, beat.owner.slice(0, 8)),
  ]); // prettier-ignore
}

document.getElementById('zone-note').textContent = `Who claims and sends fires. Times are shown in your zone, ${viewerZone}.`;
loading(list);
load();
setInterval(() => document.hidden || list.contains(document.activeElement) || load(), LOOKS);
