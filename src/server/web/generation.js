// Answers that are being written: one a conversation at most. A generation goes on while another conversation is shown;
// what has come is saved every second, so that a reload loses nothing.
import {streamChat} from './api.js';
import {path, save} from './store.js';
import {requestFields} from './settings.js';

const SAVE_EVERY_MS = 1000;

const running = new Map(); // by the conversation's id

export const isRunning = (conversation) => running.has(conversation.id);

export function stop(conversation) {
  running.get(conversation.id)?.controller.abort();
}

function requestOf(conversation, answer) {
  const messages = [];
  if (conversation.system.trim() !== '') messages.push({role: 'system', content: conversation.system});
  for (const message of path(conversation)) {
    if (message === answer) break;
    // An answer that failed before its first word says nothing to the model.
    if (message.role === 'assistant' && message.content === '') continue;
    messages.push({role: message.role, content: message.content});
  }
  return {messages, ...requestFields()};
}

// Fills `answer`, the last message of the conversation's path. `onChange(conversation, answer)` is called as it grows
// and when it has ended.
export async function generate(conversation, answer, onChange) {
  const controller = new AbortController();
  running.set(conversation.id, {controller});
  const clock = {start: performance.now(), first: null, content: null, last: null, chunks: 0};
  answer.running = true;
  answer.stats = {};
  const keep = () => save(stored(conversation)).catch(() => {});
  const saving = setInterval(keep, SAVE_EVERY_MS);
  onChange(conversation, answer);
  try {
    await streamChat(requestOf(conversation, answer), controller.signal, (chunk) => {
      take(answer, chunk, clock);
      onChange(conversation, answer);
    });
  } catch (error) {
    if (error.name === 'AbortError') answer.finish = 'stopped';
    else answer.error = error.message;
    answer.failure = error.kind;
  }
  clearInterval(saving);
  running.delete(conversation.id);
  delete answer.running;
  conversation.updated = Date.now();
  await keep();
  onChange(conversation, answer);
}

function take(answer, chunk, clock) {
  const now = performance.now();
  if (chunk.model) answer.model = chunk.model;
  const choice = chunk.choices?.[0];
  const delta = choice?.delta ?? {};
  const reasoning = delta.reasoning_content ?? '';
  const content = delta.content ?? '';
  if (reasoning !== '' || content !== '') {
    clock.first ??= now;
    clock.last = now;
    clock.chunks += 1;
  }
  if (reasoning !== '') answer.reasoning = (answer.reasoning ?? '') + reasoning;
  if (content !== '') {
    if (answer.reasoning && clock.content === null) answer.stats.thought = (now - clock.first) / 1000;
    clock.content ??= now;
    answer.content += content;
  }
  if (choice?.finish_reason) answer.finish = choice.finish_reason;
  if (clock.first !== null) {
    answer.stats.first = (clock.first - clock.start) / 1000;
    answer.stats.seconds = (clock.last - clock.first) / 1000;
    answer.stats.tokens = clock.chunks; // nearly: a chunk is a token, mostly
  }
  if (chunk.usage) {
    answer.stats.tokens = chunk.usage.completion_tokens;
    answer.stats.prompt = chunk.usage.prompt_tokens;
    answer.stats.cached = chunk.usage.prompt_tokens_details?.cached_tokens ?? 0;
  }
}

// The conversation without what only this page's run needs.
export function stored(conversation) {
  const messages = {};
  for (const [id, message] of Object.entries(conversation.messages)) {
    const {running: wasRunning, failure, ...rest} = message;
    messages[id] = wasRunning ? {...rest, finish: 'stopped'} : rest;
  }
  return {...conversation, messages};
}
