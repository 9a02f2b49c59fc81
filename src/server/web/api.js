// The server's endpoints as this page uses them, and its failures in plain words.

let apiKey = '';

export function setKey(key) {
  apiKey = key;
}

// `kind`: 'network', 'key', 'loading', 'busy', 'request', 'server'.
export class ApiError extends Error {
  constructor(message, kind, details = {}) {
    super(message);
    this.kind = kind;
    this.progress = details.progress;
  }
}

function headers() {
  const all = {'Content-Type': 'application/json'};
  if (apiKey) all.Authorization = `Bearer ${apiKey}`;
  return all;
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, {...options, headers: headers(), cache: 'no-store'});
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ApiError('The server can\u2019t be reached. Is minfer still running?', 'network');
  }
  return response;
}

// The error that an answer with a bad status stands for.
async function failure(response) {
  let said = '';
  try {
    said = (await response.json()).error?.message ?? '';
  } catch {
    // Not from minfer: a proxy's page, perhaps.
  }
  const wait = Number(response.headers.get('Retry-After'));
  const later = wait > 0 ? ` Try again in ${wait} s.` : ' Try again in a moment.';
  switch (response.status) {
    case 401:
    case 403:
      return new ApiError('The server wants an API key, and this one is missing or wrong. Enter it in the settings.', 'key');
    case 429:
      return new ApiError(`The server has as much to do as it takes.${later}`, 'busy');
    case 503:
      return new ApiError(said || `The server is not ready.${later}`, 'loading');
    default: {
      const kind = response.status < 500 ? 'request' : 'server';
      return new ApiError(said || `The server answered with the status ${response.status}.`, kind);
    }
  }
}

// {status: 'ok' | 'loading' | 'draining' | 'failed', progress, error}
export async function health() {
  const response = await ask('health');
  try {
    return await response.json();
  } catch {
    throw new ApiError(`The server answered with the status ${response.status}.`, 'server');
  }
}

export async function props() {
  const response = await ask('props');
  if (!response.ok) throw await failure(response);
  return response.json();
}

// Calls onChunk with each chunk of a streamed chat completion. Throws ApiError, or the AbortError of `signal`.
export async function streamChat(body, signal, onChunk) {
  const response = await ask('v1/chat/completions', {
    method: 'POST',
    body: JSON.stringify({...body, stream: true, stream_options: {include_usage: true}}),
    signal,
  });
  if (!response.ok) throw await failure(response);
  let ended = false;
  try {
    for await (const data of events(response.body)) {
      if (data === '[DONE]') {
        ended = true;
        break;
      }
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ApiError(chunk.error.message ?? 'The server gave up on this answer.', 'server');
      onChunk(chunk);
    }
  } catch (error) {
    if (error.name === 'AbortError' || error instanceof ApiError) throw error;
    throw new ApiError('The connection broke while the answer was written.', 'network');
  }
  if (!ended) throw new ApiError('The answer ended early: the connection was closed.', 'network');
}

// The data of server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html
export async function* events(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let buffer = '';
  let data = [];
  try {
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      buffer += decoder.decode(value, {stream: true});
      let end;
      while ((end = buffer.indexOf('\n')) >= 0) {
        const line = buffer.slice(0, end).replace(/\r$/, '');
        buffer = buffer.slice(end + 1);
        if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
        if (line === '' && data.length > 0) {
          yield data.join('\n');
          data = [];
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
