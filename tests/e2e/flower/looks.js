// What can be judged of a page without eyes. Evaluated in the page; gives a list of sentences, empty when all is well.
async () => {
  for (let i = 0; i < 2; i += 1) await new Promise(requestAnimationFrame); // what follows the width has been drawn anew
  const INTERACTIVE = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [role=button], [tabindex="0"]';
  const LEAST_CONTRAST = 4.5;
  const TOLERANCE = 1; // px; borders of neighbours may share a pixel
  const faults = [];
  scrollTo(0, 0); // the navbar sticks, and covers what has been scrolled below it

  const named = (element) => {
    const text = (element.getAttribute('aria-label') || element.textContent || element.id || '').trim().slice(0, 30);
    return `<${element.tagName.toLowerCase()} class="${element.getAttribute('class') || ''}"> ${JSON.stringify(text)}`;
  };

  const shown = (element) =>
    element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !element.closest('.visually-hidden, .skip-link');

  // The part of an element that its scrolling ancestors leave to be seen.
  const seen = (element) => {
    const box = element.getBoundingClientRect();
    let [left, top, right, bottom] = [box.left, box.top, box.right, box.bottom];
    for (let up = element.parentElement; up && up !== document.body; up = up.parentElement) {
      const style = getComputedStyle(up);
      const edge = up.getBoundingClientRect();
      if (style.overflowX !== 'visible') [left, right] = [Math.max(left, edge.left), Math.min(right, edge.right)];
      if (style.overflowY !== 'visible') [top, bottom] = [Math.max(top, edge.top), Math.min(bottom, edge.bottom)];
    }
    return { left, top, right, bottom };
  };

  // --- width ---

  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    const wide = [...document.querySelectorAll('body *')].filter((e) => shown(e) && seen(e).right > root.clientWidth + TOLERANCE);
    faults.push(`the document is ${root.scrollWidth} px wide in ${root.clientWidth}: ${wide.slice(0, 3).map(named).join(', ')}`);
  }

  const elements = [...document.querySelectorAll(INTERACTIVE)].filter(shown);
  const boxes = elements.map(seen);
  elements.forEach((one, i) => {
    if (one.getBoundingClientRect().right > boxes[i].right + TOLERANCE) faults.push(`${named(one)} is cut off`);
  });

  // --- overlap ---

  elements.forEach((one, i) => {
    for (let j = i + 1; j < elements.length; j += 1) {
      const other = elements[j];
      if (one.contains(other) || other.contains(one)) continue;
      const wide = Math.min(boxes[i].right, boxes[j].right) - Math.max(boxes[i].left, boxes[j].left);
      const high = Math.min(boxes[i].bottom, boxes[j].bottom) - Math.max(boxes[i].top, boxes[j].top);
      if (wide > TOLERANCE && high > TOLERANCE) faults.push(`${named(one)} overlaps ${named(other)}`);
    }
  });

  // --- contrast ---

  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const colours = new Map();
  const rgba = (text) => {
    if (!colours.has(text)) colours.set(text, parsed(text));
    return [...colours.get(text)];
  };
  const parsed = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (front, back) => [0, 1, 2].map((i) => front[i] * front[3] + back[i] * (1 - front[3])).concat(1);
  const backgrounds = new Map();
  const background = (element) => {
    if (!backgrounds.has(element)) backgrounds.set(element, behind(element));
    return backgrounds.get(element);
  };
  const behind = (element) => {
    if (!element) return rgba(getComputedStyle(root).colorScheme === 'dark' ? '#000' : '#fff');
    const style = getComputedStyle(element);
    const own = rgba(style.backgroundColor);
    own[3] *= Number(style.opacity);
    return own[3] === 1 ? own : over(own, background(element.parentElement));
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (element) => {
    const style = getComputedStyle(element);
    const back = background(element);
    const ink = rgba(element instanceof SVGElement ? style.fill : style.color);
    for (let up = element; up; up = up.parentElement) ink[3] *= Number(getComputedStyle(up).opacity);
    const [a, b] = [light(over(ink, back)), light(back)];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const texts = document.createTreeWalker(document.querySelector('main') || document.body, NodeFilter.SHOW_TEXT);
  const judged = new Set();
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.data.trim() || judged.has(element) || !shown(element)) continue;
    judged.add(element);
    if (element.closest('script, style, option, :disabled')) continue;
    const ratio = contrast(element);
    if (ratio < LEAST_CONTRAST) faults.push(`${named(element)} has a contrast of ${ratio.toFixed(2)}`);
  }
  return faults;
};
