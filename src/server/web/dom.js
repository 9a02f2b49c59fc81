// Elements are made here, and only by calls: nothing in this page writes text as markup (innerHTML and its like are
// not used anywhere), so whatever a model says stays text.

// element('button', {class: 'icon', type: 'button'}, child, 'text', ...)
export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(key, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(key, String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const SVG = 'http://www.w3.org/2000/svg';

// One of the symbols of index.html.
export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  const use = document.createElementNS(SVG, 'use');
  use.setAttribute('href', `#i-${name}`);
  svg.append(use);
  svg.setAttribute('aria-hidden', 'true');
  return svg;
}

export function iconButton(name, label, onClick) {
  const button = element('button', {type: 'button', class: 'icon', 'aria-label': label, title: label}, icon(name));
  button.addEventListener('click', onClick);
  return button;
}

export const byId = (id) => document.getElementById(id);

// Copies text, and says so on the button for a moment.
export async function copyWithSign(text, button) {
  const use = button.querySelector('use');
  const before = use.getAttribute('href');
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copyBySelection(text); // no clipboard without HTTPS, except on localhost
  }
  use.setAttribute('href', done ? '#i-check' : '#i-close');
  say(done ? 'Copied' : 'The browser did not let this page copy');
  setTimeout(() => use.setAttribute('href', before), 1500);
}

function copyBySelection(text) {
  const area = element('textarea', {class: 'unseen', 'aria-hidden': 'true'});
  area.value = text;
  const home = document.querySelector('dialog[open]') ?? document.body;
  const focused = document.activeElement;
  home.append(area);
  area.select();
  let done = false;
  try {
    done = document.execCommand('copy');
  } catch {
    done = false;
  }
  area.remove();
  focused?.focus();
  return done;
}

// For screen readers.
export function say(text) {
  byId('said').textContent = text;
}

// Gives the user a file.
export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], {type: 'application/json'}));
  const link = element('a', {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
