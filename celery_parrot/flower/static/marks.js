// What a clock change does to a due time, in words.

import { el } from './common.js';

export function remark(one) {
  const reading = (one.reading ?? one.local).slice(11, 19);
  const words = {
    moved: `⚠ moved: ${reading} does not exist that day`,
    repeated: `⚠ ${reading} is shown twice that day`,
    dropped: `⚠ not due: ${reading}${one.count > 1 ? ` and ${one.count - 1} more` : ''}`,
  };
  return one.mark ? el('strong', { class: 'parrot-held' }, words[one.mark] ?? one.mark) : '';
}
