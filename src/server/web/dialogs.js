// The dialogs' common parts: asking for a yes or a text, and closing by a click beside them.
import {byId} from './dom.js';

const dialog = byId('ask');
const input = byId('ask-input');

// Resolves to true or false; with `value`, to the text or null.
export function ask({title, text = '', action, danger = false, value = null}) {
  byId('ask-title').textContent = title;
  byId('ask-text').textContent = text;
  byId('ask-text').hidden = text === '';
  byId('ask-ok').textContent = action;
  byId('ask-ok').classList.toggle('danger', danger);
  input.hidden = value === null;
  input.value = value ?? '';
  dialog.returnValue = '';
  dialog.showModal();
  if (value === null) byId('ask-ok').focus();
  else input.select();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      const yes = dialog.returnValue === 'ok';
      resolve(value === null ? yes : yes ? input.value.trim() : null);
    }, {once: true});
  });
}

export function buildDialogs() {
  byId('ask-cancel').addEventListener('click', () => dialog.close(''));
  for (const one of document.querySelectorAll('dialog')) {
    one.addEventListener('pointerdown', (event) => {
      if (event.target !== one) return;
      const box = one.getBoundingClientRect();
      const inside = event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
      if (!inside) one.close('');
    });
  }
}

export const anyOpen = () => document.querySelector('dialog[open]') !== null;
