// Conversations, in the browser's IndexedDB: one record each. Where the browser keeps nothing for this page they live
// as long as the page does.
//
// A conversation is a tree: an answer that is made again, or a question that is edited, becomes a sibling of the old
// one, and `leaf` is the end of the path that is shown. Its form in a file is the same:
//   {id, title, named, created, updated, system, leaf, messages: {id: {id, parent, role, content, reasoning, ...}}}

const DATABASE = 'minfer';
const STORE = 'conversations';
export const FILE_FORMAT = 'minfer-conversations';
const FILE_VERSION = 1;
const MOST_TITLE = 60;

let database = null;

const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

// All that are kept, and whether the browser keeps any.
export async function load() {
  try {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE, {keyPath: 'id'});
    database = await done(opening);
    database.onversionchange = () => database.close();
    const all = await done(database.transaction(STORE).objectStore(STORE).getAll());
    return {conversations: all, keeps: true};
  } catch {
    database = null;
    return {conversations: [], keeps: false};
  }
}

export async function save(conversation) {
  if (database === null || conversation.gone || Object.keys(conversation.messages).length === 0) return;
  await done(database.transaction(STORE, 'readwrite').objectStore(STORE).put(conversation));
}

export async function remove(id) {
  if (database !== null) await done(database.transaction(STORE, 'readwrite').objectStore(STORE).delete(id));
}

// crypto.randomUUID is there on HTTPS and localhost alone.
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export function newConversation(system) {
  const now = Date.now();
  return {id: newId(), title: 'New conversation', named: false, created: now, updated: now, system, leaf: null, messages: {}};
}

export function addMessage(conversation, parent, role, content) {
  const message = {id: newId(), parent, role, content, created: Date.now()};
  conversation.messages[message.id] = message;
  conversation.leaf = message.id;
  conversation.updated = message.created;
  if (role === 'user' && !conversation.named && parent === null) conversation.title = titleOf(content);
  return message;
}

export function titleOf(text) {
  const line = text.trim().split('\n', 1)[0].replace(/\s+/g, ' ');
  if (line === '') return 'New conversation';
  const letters = Array.from(line);
  return letters.length <= MOST_TITLE ? line : `${letters.slice(0, MOST_TITLE - 1).join('').trimEnd()}\u2026`;
}

// From the first message to the leaf.
export function path(conversation) {
  const messages = [];
  for (let id = conversation.leaf; id !== null; id = conversation.messages[id].parent) messages.push(conversation.messages[id]);
  return messages.reverse();
}

// The message and its alternatives, oldest first.
export function siblings(conversation, message) {
  return Object.values(conversation.messages)
    .filter((other) => other.parent === message.parent && other.role === message.role)
    .sort((left, right) => left.created - right.created);
}

// Shows the path through `message` that was written last.
export function show(conversation, message) {
  let leaf = message;
  for (;;) {
    const children = Object.values(conversation.messages).filter((other) => other.parent === leaf.id);
    if (children.length === 0) break;
    leaf = children.reduce((latest, child) => (child.created >= latest.created ? child : latest));
  }
  conversation.leaf = leaf.id;
}

export function fileOf(conversations) {
  return JSON.stringify({format: FILE_FORMAT, version: FILE_VERSION, conversations}, null, 1);
}

const isText = (value) => typeof value === 'string';
const isTime = (value) => Number.isFinite(value);

// A conversation as this page may trust it: unknown fields are dropped, wrong ones throw.
function checked(raw) {
  const wrong = (what) => {
    throw new Error(`${what} is missing or wrong in the conversation \u201c${isText(raw?.title) ? raw.title : '?'}\u201d`);
  };
  if (typeof raw !== 'object' || raw === null) wrong('everything');
  if (typeof raw.messages !== 'object' || raw.messages === null) wrong('messages');
  const messages = {};
  for (const [id, message] of Object.entries(raw.messages)) {
    const role = message?.role;
    if ((role !== 'user' && role !== 'assistant') || !isText(message.content)) wrong(`message ${id}`);
    messages[id] = {id, parent: message.parent ?? null, role, content: message.content, created: isTime(message.created) ? message.created : 0};
    for (const key of ['reasoning', 'error', 'finish', 'model']) if (isText(message[key])) messages[id][key] = message[key];
    if (typeof message.stats === 'object' && message.stats !== null) messages[id].stats = checkedStats(message.stats);
  }
  for (const message of Object.values(messages)) {
    const seen = new Set();
    for (let id = message.id; id !== null; id = messages[id].parent) {
      if (!isText(id) || !Object.hasOwn(messages, id) || seen.has(id)) wrong('the order of messages');
      seen.add(id);
    }
  }
  const leaf = raw.leaf ?? null;
  if (leaf !== null && !Object.hasOwn(messages, leaf)) wrong('leaf');
  const now = Date.now();
  return {
    id: newId(),
    title: isText(raw.title) ? raw.title : 'Imported conversation',
    named: raw.named === true,
    created: isTime(raw.created) ? raw.created : now,
    updated: isTime(raw.updated) ? raw.updated : now,
    system: isText(raw.system) ? raw.system : '',
    leaf,
    messages,
  };
}

function checkedStats(raw) {
  const stats = {};
  for (const key of ['tokens', 'prompt', 'cached', 'seconds', 'first', 'thought']) if (isTime(raw[key])) stats[key] = raw[key];
  return stats;
}

// The conversations of a file, with ids of their own. Errors say what is wrong with it.
export function readFile(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error('it is no JSON');
  }
  if (file?.format !== FILE_FORMAT) throw new Error('it does not hold conversations of minfer');
  if (file.version !== FILE_VERSION) throw new Error(`it is of version ${file.version}, and this page reads version ${FILE_VERSION}`);
  if (!Array.isArray(file.conversations)) throw new Error('its list of conversations is missing');
  return file.conversations.map(checked);
}
