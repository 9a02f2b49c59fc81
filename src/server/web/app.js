// The page: what is shown, what the buttons and keys do, and what the server says of itself. Parts: store.js keeps
// conversations, generation.js writes answers, view.js and sidebar.js show them, settings.js has the user's settings.
import {ApiError, health, props, setKey} from './api.js';
import {anyOpen, ask, buildDialogs} from './dialogs.js';
import {byId, download, element, say} from './dom.js';
import {generate, isRunning, stop, stored} from './generation.js';
import {buildSettings, change, settings, showDefaults} from './settings.js';
import {buildSide, openSide, showList, sideIsOpen} from './sidebar.js';
import * as store from './store.js';
import {buildView, grow, showConversation, startEdit, toEnd, update} from './view.js';

const POLL_MS = 1000;
const input = byId('input');

let conversations = [];
let current = null; // the shown one; it is kept once it has a message
let context = 0; // tokens; 0: not known

// --- showing

function show() {
  const busy = isRunning(current);
  showConversation(current, busy);
  showList(conversations, current, isRunning, listActions);
  byId('title').textContent = current.title;
  document.title = current.title === 'New conversation' ? 'minfer' : `${current.title} \u2013 minfer`;
  showButtons();
  showFill();
}

function showButtons() {
  const busy = isRunning(current);
  byId('send').hidden = busy;
  byId('stop').hidden = !busy;
  byId('send').disabled = input.value.trim() === '';
}

// How much of the context the shown path takes, as of its last answer.
function showFill() {
  const answers = store.path(current).filter((message) => message.stats?.prompt > 0);
  const last = answers.at(-1);
  const used = last ? last.stats.prompt + last.stats.tokens : 0;
  byId('fill').hidden = context === 0 || used === 0;
  if (context === 0 || used === 0) return;
  const text = `${used.toLocaleString('en-US')} of ${context.toLocaleString('en-US')} tokens`;
  byId('fill-meter').value = Math.min(1, used / context);
  byId('fill-meter').title = `Context in use: ${text}`;
  byId('fill-text').textContent = text;
  byId('fill-share').textContent = `${Math.round((100 * used) / context)} %`;
}

let waiting = false; // for the next frame

function onChange(conversation, answer) {
  const ended = !isRunning(conversation);
  if (conversation === current && !ended) {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (conversation !== current) return;
      update(answer);
      toEnd();
    });
    return;
  }
  if (conversation === current) {
    show();
    toEnd();
    if (ended) say(answer.error ?? (answer.finish === 'stopped' ? 'Stopped' : 'The answer is complete'));
  }
  if (ended && answer.failure === 'key') openSettings('key');
  if (ended && (answer.failure === 'loading' || answer.failure === 'network')) watchServer();
}

// --- conversations

function choose(conversation) {
  current = conversation;
  byId('system').value = current.system;
  show();
  toEnd(true);
  openSide(false);
  // On a touch screen the focus would bring up the keyboard.
  if (!matchMedia('(pointer: coarse)').matches) input.focus();
}

function startConversation() {
  if (Object.keys(current.messages).length > 0 || isRunning(current)) current = store.newConversation(settings().system);
  choose(current);
}

function keep(conversation) {
  store.save(stored(conversation)).catch(() => banner('The browser did not keep the last change: its storage may be full.'));
}

const listActions = {
  choose,
  async rename(conversation) {
    const title = await ask({title: 'Rename the conversation', action: 'Rename', value: conversation.title});
    if (title === null || title === '') return;
    conversation.title = title;
    conversation.named = true;
    keep(conversation);
    show();
  },
  async remove(conversation) {
    const yes = await ask({title: 'Delete this conversation?', text: `\u201c${conversation.title}\u201d will be gone for good.`, action: 'Delete', danger: true});
    if (!yes) return;
    conversation.gone = true; // an answer that is just being stopped must not bring it back
    stop(conversation);
    conversations = conversations.filter((other) => other !== conversation);
    await store.remove(conversation.id).catch(() => {});
    if (conversation === current) current = store.newConversation(settings().system);
    choose(current);
  },
  exportOne(conversation) {
    const name = conversation.title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '').slice(0, 40) || 'conversation';
    download(`${name}.json`, store.fileOf([stored(conversation)]));
  },
};

async function importFile(file) {
  try {
    const added = store.readFile(await file.text());
    conversations.push(...added);
    for (const conversation of added) await store.save(conversation);
    if (added.length > 0) choose(added[0]);
    say(`${added.length} conversations imported`);
  } catch (error) {
    banner(`\u201c${file.name}\u201d can\u2019t be imported: ${error.message}.`);
  }
}

// --- asking and answering

async function answer(parent) {
  const conversation = current;
  if (isRunning(conversation)) return;
  if (!conversations.includes(conversation)) conversations.push(conversation);
  const message = store.addMessage(conversation, parent.id, 'assistant', '');
  const writing = generate(conversation, message, onChange);
  show();
  toEnd(true);
  await writing;
  if (conversation !== current) show();
}

function send() {
  const text = input.value.trim();
  if (text === '' || isRunning(current)) return;
  hideBanner();
  input.value = '';
  grow(input);
  answer(store.addMessage(current, current.leaf, 'user', text));
}

const viewActions = {
  edit(message, text) {
    if (!isRunning(current)) answer(store.addMessage(current, message.parent, 'user', text));
  },
  again(message) {
    if (isRunning(current)) return;
    const parent = current.messages[message.parent];
    // An answer that never began leaves no version behind.
    if (message.error && message.content === '') delete current.messages[message.id];
    answer(parent);
  },
  choose(message) {
    store.show(current, message);
    keep(current);
    show();
  },
};

function answerAgain() {
  const last = store.path(current).at(-1);
  if (last?.role === 'assistant') viewActions.again(last);
  else if (last) answer(last);
}

// --- the server

let offered = null; // what the banner's button does

function banner(text, options = {}) {
  byId('banner').hidden = false;
  byId('banner-text').textContent = text;
  byId('banner-progress').hidden = options.progress === undefined;
  if (options.progress !== undefined) byId('banner-progress').value = options.progress;
  byId('banner-action').hidden = options.silent === true;
  byId('banner-action').textContent = options.action ?? 'Close';
  offered = options.onAction ?? hideBanner;
}

function hideBanner() {
  byId('banner').hidden = true;
}

let watching = false;

// Asks until the model is there, then for its properties.
async function watchServer() {
  if (watching) return;
  watching = true;
  try {
    for (;;) {
      const state = await health();
      if (state.status === 'ok') break;
      if (state.status === 'failed') throw new ApiError(`The model could not be loaded: ${state.message ?? 'see the server\u2019s messages'}.`, 'server');
      const loading = state.status === 'loading';
      const progress = loading ? state.progress ?? 0 : undefined;
      banner(loading ? `The model is being loaded: ${Math.round(progress * 100)} %` : 'The server is about to end: it takes no more questions.', {progress, silent: true});
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    await showModel();
    hideBanner();
  } catch (error) {
    if (error.kind === 'key') banner(error.message, {action: 'Enter the key', onAction: () => openSettings('key')});
    else banner(error.message, {action: 'Try again', onAction: watchServer});
  }
  watching = false;
}

async function showModel() {
  const model = await props();
  context = model.context ?? 0;
  byId('model').textContent = model.description ? `${model.model} \u00b7 ${model.description}` : model.model;
  byId('model').title = `${model.architecture ?? ''}, context of ${context.toLocaleString('en-US')} tokens`;
  showDefaults(model.sampler);
  showFill();
}

// --- settings, theme, keys

function openSettings(field) {
  if (!byId('settings').open) byId('settings').showModal();
  if (field) {
    byId(field).focus();
    byId(field).scrollIntoView({block: 'center'});
  }
}

function buildSystemPrompt() {
  byId('system').addEventListener('input', () => {
    current.system = byId('system').value;
    keep(current);
    if (byId('system-default').checked) change({system: current.system});
  });
  byId('system-default').checked = settings().system !== '';
  byId('system-default').addEventListener('change', () => change({system: byId('system-default').checked ? current.system : ''}));
}

function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  root.dataset.theme = dark ? 'light' : 'dark';
  try {
    // What the system says anyway is not kept, so that the page follows the system again.
    const system = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
    if (root.dataset.theme === system) localStorage.removeItem('minfer.theme');
    else localStorage.setItem('minfer.theme', root.dataset.theme);
  } catch {
    // No storage: until the page is closed.
  }
  say(`${root.dataset.theme} colors`);
}

const openKeys = () => byId('keys').showModal();

const SHORTCUTS = [
  {keys: 'Enter', does: 'Send the message'},
  {keys: 'Shift+Enter', does: 'Break the line'},
  {keys: 'Esc', does: 'Stop the answer; close what is open'},
  {keys: '\u2191', does: 'Edit the last question, in an empty field'},
  {keys: '/', does: 'Go to the message field'},
  {keys: '?', does: 'Show these shortcuts'},
  {keys: 'Alt+Shift+N', code: 'KeyN', does: 'New conversation', run: startConversation},
  {keys: 'Alt+Shift+R', code: 'KeyR', does: 'Answer again', run: answerAgain},
  {keys: 'Alt+Shift+S', code: 'KeyS', does: 'Settings', run: () => openSettings()},
  {keys: 'Alt+Shift+D', code: 'KeyD', does: 'Light or dark', run: switchTheme},
  {keys: 'F2, Delete', does: 'Rename or delete, on a conversation in the list'},
];

function onKey(event) {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.altKey && event.shiftKey && !event.ctrlKey && !event.metaKey) {
    const shortcut = SHORTCUTS.find((row) => row.code === event.code);
    if (!shortcut || anyOpen()) return;
    event.preventDefault();
    shortcut.run();
  } else if (event.key === 'Escape' && !anyOpen()) {
    if (sideIsOpen()) openSide(false);
    else stop(current);
  } else if (!typing && !anyOpen() && !event.ctrlKey && !event.metaKey && (event.key === '/' || event.key === '?')) {
    event.preventDefault();
    if (event.key === '/') input.focus();
    else openKeys();
  }
}

function onInputKey(event) {
  if (event.isComposing) return;
  if (event.key === 'Enter' && !event.shiftKey) {
    event.preventDefault();
    send();
  } else if (event.key === 'ArrowUp' && input.value === '') {
    const question = store.path(current).filter((message) => message.role === 'user').at(-1);
    if (question && !isRunning(current)) {
      event.preventDefault();
      startEdit(question);
    }
  }
}

function build() {
  setKey(settings().key);
  buildDialogs();
  buildSide();
  buildView(viewActions);
  buildSettings(() => {
    setKey(settings().key);
    watchServer();
  });
  buildSystemPrompt();
  for (const {keys, does} of SHORTCUTS) byId('key-list').append(element('dt', {}, element('kbd', {}, keys)), element('dd', {}, does));
  const click = (id, action) => byId(id).addEventListener('click', action);
  click('new', startConversation);
  click('stop', () => stop(current));
  click('theme', switchTheme);
  click('settings-open', () => openSettings());
  click('keys-open', openKeys);
  click('banner-action', () => offered?.());
  click('import', () => byId('import-file').click());
  click('export-all', () => download('minfer-conversations.json', store.fileOf(conversations.map(stored))));
  byId('import-file').addEventListener('change', async () => {
    const [file] = byId('import-file').files;
    byId('import-file').value = '';
    if (file) await importFile(file);
  });
  byId('filter').addEventListener('input', show);
  byId('compose').addEventListener('submit', (event) => {
    event.preventDefault();
    send();
  });
  input.addEventListener('keydown', onInputKey);
  input.addEventListener('input', () => {
    grow(input);
    showButtons();
  });
  document.addEventListener('keydown', onKey);
}

async function start() {
  build();
  current = store.newConversation(settings().system);
  const kept = await store.load();
  conversations = kept.conversations;
  const latest = conversations.reduce((best, one) => (best === null || one.updated > best.updated ? one : best), null);
  choose(latest ?? current);
  document.documentElement.dataset.ready = 'yes';
  if (!kept.keeps) banner('The browser keeps nothing for this page: conversations are gone when it is closed. Export those that you need.');
  await watchServer();
}

start();
