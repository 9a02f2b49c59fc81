// The messages of the shown conversation as elements. Elements are kept by the message's id and changed in place while
// an answer grows, once a frame at most.
import {element, icon, iconButton, copyWithSign, byId} from './dom.js';
import {renderMarkdown} from './markdown.js';
import {path, siblings} from './store.js';

const list = byId('messages');
const scroll = byId('scroll');
const NEAR_END = 80; // pixels within which the view follows the text

const elements = new Map(); // by the message's id
let actions = {};
let follows = true;

// `callbacks`: edit(message, text), again(message), choose(message), resend(message).
export function buildView(callbacks) {
  actions = callbacks;
  const isNearEnd = () => scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < NEAR_END;
  scroll.addEventListener('scroll', () => {
    follows = isNearEnd();
    byId('to-end').hidden = follows;
  }, {passive: true});
  byId('to-end').addEventListener('click', () => toEnd(true));
}

export function toEnd(force = false) {
  if (force) follows = true;
  if (follows) scroll.scrollTop = scroll.scrollHeight;
  byId('to-end').hidden = follows;
}

// Shows the conversation's path.
export function showConversation(conversation, busy) {
  const messages = conversation ? path(conversation) : [];
  byId('empty').hidden = messages.length > 0;
  for (const [id, node] of elements) {
    if (!messages.some((message) => message.id === id)) {
      node.remove();
      elements.delete(id);
    }
  }
  messages.forEach((message, i) => {
    let node = elements.get(message.id);
    if (node === undefined) {
      node = build(message);
      elements.set(message.id, node);
    }
    if (list.children[i] !== node) list.insertBefore(node, list.children[i] ?? null);
    update(message);
    showTools(conversation, message, busy, i === messages.length - 1);
  });
  list.setAttribute('aria-busy', String(busy));
}

function build(message) {
  const node = element('article', {class: `message ${message.role}`, 'data-id': message.id, 'aria-label': message.role === 'user' ? 'You' : 'Answer'});
  node.parts = {
    text: element('div', {class: 'text'}),
    note: element('p', {class: 'note dim', hidden: true}),
    error: element('div', {class: 'error', role: 'alert', hidden: true}),
    tools: element('div', {class: 'tools'}),
  };
  if (message.role === 'assistant') {
    const inside = element('div', {class: 'text'});
    const summary = element('summary');
    node.parts.thought = element('details', {class: 'thought', hidden: true}, summary, inside);
    node.parts.thought.addEventListener('toggle', () => {
      if (node.parts.thought.open) renderMarkdown(inside, (node.message ?? message).reasoning ?? '');
    });
    node.append(node.parts.thought);
  }
  node.append(node.parts.text, node.parts.error, node.parts.note, node.parts.tools);
  return node;
}

const number = (value) => value.toLocaleString('en-US');
const seconds = (value) => (value < 0.1 ? `${Math.round(value * 1000)} ms` : `${value < 10 ? value.toFixed(1) : Math.round(value)} s`);

// The text of a message that has changed.
export function update(message) {
  const node = elements.get(message.id);
  if (node === undefined) return;
  node.message = message;
  const {text, error, note, thought} = node.parts;
  if (message.role === 'user') {
    if (text.textContent !== message.content) text.textContent = message.content;
    return;
  }
  renderMarkdown(text, message.content);
  const waits = message.running && message.content === '' && !message.reasoning;
  text.classList.toggle('waits', Boolean(waits));
  text.classList.toggle('grows', Boolean(message.running && message.content !== ''));
  updateThought(message, thought);
  error.hidden = !message.error;
  if (message.error && error.said !== message.error) {
    error.said = message.error;
    const again = element('button', {type: 'button', class: 'quiet'}, icon('again'), 'Try again');
    again.addEventListener('click', () => actions.again(message));
    error.replaceChildren(element('p', {}, message.error), again);
  }
  const said = noteOf(message);
  note.textContent = said;
  note.hidden = said === '';
}

function updateThought(message, thought) {
  if (!message.reasoning) {
    thought.hidden = true;
    return;
  }
  const thinks = message.running && message.content === '';
  const time = message.stats?.thought;
  thought.hidden = false;
  thought.classList.toggle('thinks', Boolean(thinks));
  thought.firstChild.textContent = thinks ? 'Thinking\u2026' : time ? `Thought for ${seconds(time)}` : 'Thoughts';
  if (thought.open) renderMarkdown(thought.lastChild, message.reasoning);
}

// "34.2 tokens/s · 120 tokens · first after 0.3 s · stopped"
function noteOf(message) {
  const parts = [];
  const {tokens, seconds: time, first, cached, prompt} = message.stats ?? {};
  if (tokens > 1 && time > 0) parts.push(`${((tokens - 1) / time).toFixed(1)} tokens/s`);
  if (tokens > 0) parts.push(`${number(tokens)} ${tokens === 1 ? 'token' : 'tokens'}`);
  if (first !== undefined) parts.push(`first after ${seconds(first)}`);
  if (prompt > 0 && !message.running) parts.push(`prompt ${number(prompt)}${cached > 0 ? `, ${number(cached)} cached` : ''}`);
  if (message.running) return parts.join(' \u00b7 ');
  if (message.finish === 'stopped') parts.push('stopped');
  if (message.finish === 'length') parts.push('cut: the limit of tokens was reached');
  return parts.join(' \u00b7 ');
}

// The buttons below a message; none change what is being written.
function showTools(conversation, message, busy, last) {
  const {tools} = elements.get(message.id).parts;
  const all = siblings(conversation, message);
  const key = `${busy} ${last} ${all.length} ${all.indexOf(message)} ${message.content === ''}`;
  if (tools.key === key) return;
  tools.key = key;
  tools.replaceChildren();
  if (busy && last) return;
  if (all.length > 1) tools.append(versions(all, message, busy));
  const copy = iconButton('copy', 'Copy', () => copyWithSign(message.content, copy));
  if (message.content !== '') tools.append(copy);
  if (busy || (message.error && message.content === '')) return;
  if (message.role === 'user') tools.append(iconButton('edit', 'Edit', () => startEdit(message)));
  else tools.append(iconButton('again', 'Answer again', () => actions.again(message)));
}

function versions(all, message, busy) {
  const at = all.indexOf(message);
  const step = (name, label, to) => {
    const button = iconButton(name, label, () => actions.choose(all[to]));
    button.disabled = busy || to < 0 || to >= all.length;
    return button;
  };
  return element('span', {class: 'versions'}, step('left', 'The version before', at - 1), element('span', {class: 'dim'}, `${at + 1} / ${all.length}`), step('right', 'The next version', at + 1));
}

// Turns a question into a field; an edited question is asked as another version.
export function startEdit(message) {
  const node = elements.get(message.id);
  if (node === undefined || node.querySelector('form')) return;
  const area = element('textarea', {'aria-label': 'Edit the message', rows: 3});
  area.value = message.content;
  const cancel = element('button', {type: 'button', class: 'quiet'}, 'Cancel');
  const form = element('form', {class: 'edit'}, area, element('div', {class: 'buttons'}, cancel, element('button', {class: 'main'}, 'Send')));
  const end = () => {
    form.remove();
    node.classList.remove('edited');
    byId('input').focus();
  };
  cancel.addEventListener('click', end);
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const text = area.value;
    if (text.trim() === '') return;
    end();
    actions.edit(message, text);
  });
  area.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') {
      event.stopPropagation();
      end();
    } else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  node.classList.add('edited');
  node.insertBefore(form, node.parts.tools);
  grow(area);
  area.addEventListener('input', () => grow(area));
  area.focus();
}

// A text field as high as its text.
export function grow(area) {
  area.style.height = 'auto';
  area.style.height = `${area.scrollHeight + area.offsetHeight - area.clientHeight}px`;
}
