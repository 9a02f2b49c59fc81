// The list of conversations: choose, rename, delete, export one.
import {element, iconButton, byId} from './dom.js';

const list = byId('list');
const side = byId('side');

// `callbacks`: choose(conversation), rename(conversation), remove(conversation), exportOne(conversation).
export function showList(conversations, shown, running, callbacks) {
  const wanted = byId('filter').value.trim().toLowerCase();
  const fits = (conversation) => wanted === '' || conversation.title.toLowerCase().includes(wanted) ||
    Object.values(conversation.messages).some((message) => message.content.toLowerCase().includes(wanted));
  const focused = list.contains(document.activeElement) ? document.activeElement.closest('li')?.dataset.id : undefined;
  const rows = conversations.filter(fits).sort((left, right) => right.updated - left.updated);
  list.replaceChildren(...rows.map((conversation) => row(conversation, conversation === shown, running(conversation), callbacks)));
  if (rows.length === 0) list.append(element('li', {class: 'dim none'}, wanted === '' ? 'No conversations yet' : 'Nothing found'));
  if (focused !== undefined) list.querySelector(`li[data-id="${focused}"] button`)?.focus();
}

function row(conversation, current, runs, callbacks) {
  const name = element('button', {type: 'button', class: 'name', 'aria-current': current ? 'true' : null, title: conversation.title}, conversation.title);
  name.addEventListener('click', () => callbacks.choose(conversation));
  name.addEventListener('dblclick', () => callbacks.rename(conversation));
  name.addEventListener('keydown', (event) => {
    if (event.key === 'F2') callbacks.rename(conversation);
    if (event.key === 'Delete') callbacks.remove(conversation);
  });
  const label = (text) => `${text}: ${conversation.title}`;
  const button = (symbol, text, action) => {
    const made = iconButton(symbol, label(text), () => action(conversation));
    made.title = text;
    return made;
  };
  return element('li', {'data-id': conversation.id, class: `${current ? 'current' : ''} ${runs ? 'runs' : ''}`}, name,
    element('span', {class: 'row-tools'},
      button('edit', 'Rename', callbacks.rename),
      button('export', 'Export', callbacks.exportOne),
      button('trash', 'Delete', callbacks.remove)));
}

// On a phone the list is a drawer.
export function openSide(open) {
  side.classList.toggle('open', open);
  byId('shade').hidden = !open;
  if (open) byId('new').focus();
}

export function buildSide() {
  byId('side-open').addEventListener('click', () => openSide(true));
  byId('side-close').addEventListener('click', () => openSide(false));
  byId('shade').addEventListener('click', () => openSide(false));
}

export const sideIsOpen = () => side.classList.contains('open');
