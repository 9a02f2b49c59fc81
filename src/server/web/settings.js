// What the user sets for all conversations: the sampler, the API key, the system prompt of new conversations. Kept in
// localStorage; an empty field is not sent, so that the server's own value holds.
import {element, byId} from './dom.js';

const KEY = 'minfer.settings';

// name in a request, label, least, most, step, further fields where it is one of the rarer ones
const FIELDS = [
  {name: 'temperature', label: 'Temperature', min: 0, max: 5, step: 0.05, hint: '0 takes the likeliest token'},
  {name: 'top_p', label: 'Top P', min: 0, max: 1, step: 0.01, hint: 'the likeliest tokens that make up this share'},
  {name: 'top_k', label: 'Top K', min: 0, step: 1, hint: 'the likeliest tokens, so many; 0: all'},
  {name: 'min_p', label: 'Min P', min: 0, max: 1, step: 0.01, hint: 'of the likeliest token\u2019s probability'},
  {name: 'max_tokens', label: 'Most tokens of an answer', min: 1, step: 1, hint: 'empty: until the model ends'},
  {name: 'seed', label: 'Seed', step: 1, hint: 'empty: another each time'},
  {name: 'repeat_penalty', label: 'Repeat penalty', min: 0.01, step: 0.01, more: true},
  {name: 'presence_penalty', label: 'Presence penalty', min: -2, max: 2, step: 0.1, more: true},
  {name: 'frequency_penalty', label: 'Frequency penalty', min: -2, max: 2, step: 0.1, more: true},
  {name: 'typical_p', label: 'Typical P', min: 0, max: 1, step: 0.01, more: true},
  {name: 'xtc_probability', label: 'XTC probability', min: 0, max: 1, step: 0.01, more: true},
  {name: 'xtc_threshold', label: 'XTC threshold', min: 0, max: 1, step: 0.01, more: true},
  {name: 'dry_multiplier', label: 'DRY multiplier', min: 0, step: 0.05, more: true},
  {name: 'mirostat', label: 'Mirostat', min: 0, max: 2, step: 1, more: true},
  {name: 'mirostat_tau', label: 'Mirostat tau', min: 0, step: 0.1, more: true},
  {name: 'mirostat_eta', label: 'Mirostat eta', min: 0, step: 0.01, more: true},
];

const EMPTY = {sampler: {}, stops: '', thinking: '', key: '', system: ''};

let current = read();

function read() {
  try {
    return {...EMPTY, ...JSON.parse(localStorage.getItem(KEY) ?? '{}')};
  } catch {
    return {...EMPTY};
  }
}

function keep() {
  try {
    localStorage.setItem(KEY, JSON.stringify(current));
  } catch {
    // No storage: the settings hold until the page is closed.
  }
}

export const settings = () => current;

export function change(values) {
  current = {...current, ...values};
  keep();
}

// The fields of a request that the user has set.
export function requestFields() {
  const fields = {...current.sampler};
  const stops = current.stops.split('\n').filter((text) => text !== '');
  if (stops.length > 0) fields.stop = stops;
  if (current.thinking !== '') fields.reasoning_effort = current.thinking;
  return fields;
}

const inputs = new Map();

// Fills the dialog; `onKey` is called when the API key was changed.
export function buildSettings(onKey) {
  for (const field of FIELDS) {
    const input = element('input', {type: 'number', id: `set-${field.name}`, min: field.min, max: field.max, step: field.step, inputmode: 'decimal'});
    const hint = field.hint ? element('span', {class: 'dim', id: `hint-${field.name}`}, field.hint) : null;
    if (hint) input.setAttribute('aria-describedby', hint.id);
    const value = current.sampler[field.name];
    input.value = value === undefined ? '' : value;
    input.addEventListener('input', () => takeField(field, input));
    byId(field.more ? 'more-fields' : 'fields').append(element('div', {class: 'field'}, element('label', {for: input.id}, field.label), input, hint));
    inputs.set(field.name, input);
  }
  const text = (id, name) => {
    byId(id).value = current[name];
    byId(id).addEventListener('input', () => change({[name]: byId(id).value}));
  };
  text('stop-texts', 'stops');
  text('thinking', 'thinking');
  text('key', 'key');
  byId('key').addEventListener('change', onKey);
  byId('settings-reset').addEventListener('click', () => {
    change({sampler: {}, stops: '', thinking: ''});
    for (const input of inputs.values()) {
      input.value = '';
      input.removeAttribute('aria-invalid');
    }
    byId('stop-texts').value = '';
    byId('thinking').value = '';
  });
}

// A value out of range is marked, and not used.
function takeField(field, input) {
  const value = input.valueAsNumber;
  const bad = input.value === '' ? input.validity.badInput : !Number.isFinite(value) || input.validity.rangeUnderflow || input.validity.rangeOverflow || (field.step === 1 && !Number.isInteger(value));
  input.setAttribute('aria-invalid', String(bad));
  const sampler = {...current.sampler};
  if (bad || input.value === '') delete sampler[field.name];
  else sampler[field.name] = value;
  change({sampler});
}

// Shows in gray what the server does where a field is empty.
export function showDefaults(sampler) {
  for (const [name, input] of inputs) {
    const value = sampler?.[name];
    input.placeholder = Number.isFinite(value) ? String(Number(value.toPrecision(6))) : '';
  }
}
