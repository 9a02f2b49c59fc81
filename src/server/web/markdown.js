// Markdown to elements: the part that models write (headings, emphasis, lists, quotes, tables, code, links). Text goes
// in as text nodes only; markup inside it is shown as it stands. Links lead to http, https and mailto alone, images
// become links: the page loads nothing from elsewhere.
//
// An answer grows at its end: blocks whose source has not changed keep their elements.
import {element, iconButton, copyWithSign} from './dom.js';
import {highlight} from './highlight.js';

const MOST_DEPTH = 10;
const MOST_LINK = 4000; // letters of a link's text
const FENCE = /^( {0,3})(`{3,}|~{3,})[ \t]*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const QUOTE = /^ {0,3}>[ ]?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:[ \t]+(.*)|[ \t]*)$/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

// Makes `container` show `text`.
export function renderMarkdown(container, text) {
  const blocks = parse(text.split('\n'), 0);
  const shown = container.blocks ?? [];
  let same = 0;
  while (same < blocks.length && same < shown.length && blocks[same].source === shown[same].source) ++same;
  if (same === blocks.length - 1 && same === shown.length - 1 && continueCode(container.lastChild, shown[same], blocks[same])) {
    container.blocks = blocks;
    return;
  }
  while (container.childNodes.length > same) container.lastChild.remove();
  for (const block of blocks.slice(same)) container.append(build(block));
  container.blocks = blocks;
}

// A code block that is still being written only gets the new text.
function continueCode(node, before, block) {
  if (block.type !== 'code' || before.type !== 'code' || before.closed || block.closed) return false;
  if (block.language !== before.language || !block.text.startsWith(before.text)) return false;
  node.querySelector('code').append(block.text.slice(before.text.length));
  return true;
}

// --- blocks

function startsBlock(lines, i) {
  const line = lines[i];
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || isTable(lines, i)) return true;
  const item = ITEM.exec(line);
  return item !== null && item[3] !== undefined && (item[2].length === 1 || item[2].startsWith('1'));
}

function isTable(lines, i) {
  return lines[i].includes('|') && i + 1 < lines.length && lines[i + 1].includes('-') && TABLE_RULE.test(lines[i + 1]) &&
    cells(lines[i]).length === cells(lines[i + 1]).length;
}

function parse(lines, depth) {
  const blocks = [];
  for (let i = 0; i < lines.length;) {
    if (lines[i].trim() === '') {
      ++i;
      continue;
    }
    const start = i;
    const block = readBlock(lines, i, depth);
    i = block.end;
    block.source = lines.slice(start, i).join('\n');
    blocks.push(block);
  }
  return blocks;
}

function readBlock(lines, i, depth) {
  const line = lines[i];
  const fence = FENCE.exec(line);
  if (fence) return readCode(lines, i, fence);
  const heading = HEADING.exec(line);
  if (heading) return {type: 'heading', level: heading[1].length, text: heading[2], end: i + 1};
  if (RULE.test(line)) return {type: 'rule', end: i + 1};
  if (depth < MOST_DEPTH) {
    if (QUOTE.test(line)) return readQuote(lines, i, depth);
    if (ITEM.test(line)) return readList(lines, i, depth);
    if (isTable(lines, i)) return readTable(lines, i);
  }
  let end = i + 1;
  while (end < lines.length && lines[end].trim() !== '' && (depth >= MOST_DEPTH || !startsBlock(lines, end))) ++end;
  return {type: 'paragraph', text: lines.slice(i, end).map((text) => text.replace(/^[ \t]+/, '')).join('\n'), end};
}

function readCode(lines, i, fence) {
  const [, indent, marks, info] = fence;
  const strip = new RegExp(`^ {0,${indent.length}}`);
  const closing = new RegExp(`^ {0,3}\\${marks[0]}{${marks.length},}[ \\t]*$`);
  let end = i + 1;
  while (end < lines.length && !closing.test(lines[end])) ++end;
  const closed = end < lines.length;
  const text = lines.slice(i + 1, end).map((line) => line.replace(strip, '')).join('\n');
  return {type: 'code', language: info.trim().split(/\s/)[0], text, closed, end: closed ? end + 1 : end};
}

function readQuote(lines, i, depth) {
  const inside = [];
  let end = i;
  while (end < lines.length && QUOTE.test(lines[end])) inside.push(lines[end++].replace(QUOTE, ''));
  return {type: 'quote', blocks: parse(inside, depth + 1), end};
}

const indentOf = (line) => line.length - line.trimStart().length;
const isOrdered = (marker) => /\d/.test(marker);

// Items nest by two or more columns: models are not exact about it.
function readList(lines, i, depth) {
  const [, first, marker] = ITEM.exec(lines[i]);
  const ordered = isOrdered(marker);
  const items = [];
  let inside = null;
  let end = i;
  for (; end < lines.length; ++end) {
    const line = lines[end];
    if (line.trim() === '') {
      const next = lines.slice(end + 1).find((text) => text.trim() !== '');
      if (next === undefined) break;
      const item = ITEM.exec(next);
      const goesOn = indentOf(next) >= first.length + 2 || (item && item[1].length >= first.length && isOrdered(item[2]) === ordered);
      if (!goesOn) break;
      inside.push('');
      continue;
    }
    const item = ITEM.exec(line);
    const indent = indentOf(line);
    if (indent >= first.length + 2 && inside !== null) {
      inside.push(line);
    } else if (item && !RULE.test(line)) {
      if (isOrdered(item[2]) !== ordered) break;
      inside = [item[3] ?? ''];
      items.push(inside);
    } else if (end > i && lines[end - 1].trim() === '') {
      break;
    } else if (startsBlock(lines, end)) {
      break;
    } else {
      inside.push(line);
    }
  }
  return {
    type: 'list',
    ordered,
    start: ordered ? parseInt(marker, 10) : 1,
    loose: items.some((item) => item.slice(0, -1).includes('')),
    items: items.map((item) => readItem(item, depth)),
    end,
  };
}

function readItem(lines, depth) {
  const task = /^\[([ xX])\][ \t]+/.exec(lines[0]);
  const rest = lines.slice(1);
  const indents = rest.filter((line) => line.trim() !== '').map(indentOf);
  const strip = indents.length === 0 ? 0 : Math.min(...indents);
  const inside = [task ? lines[0].slice(task[0].length) : lines[0], ...rest.map((line) => line.slice(Math.min(strip, indentOf(line))))];
  return {checked: task ? task[1] !== ' ' : null, blocks: parse(inside, depth + 1)};
}

function cells(line) {
  const inside = line.trim().replace(/^\|/, '').replace(/(^|[^\\])\|$/, '$1');
  const out = [''];
  let code = false;
  for (let i = 0; i < inside.length; ++i) {
    if (inside[i] === '\\' && inside[i + 1] === '|') out[out.length - 1] += inside[++i];
    else if (inside[i] === '|' && !code) out.push('');
    else {
      if (inside[i] === '`') code = !code;
      out[out.length - 1] += inside[i];
    }
  }
  return code ? inside.split('|').map((cell) => cell.trim()) : out.map((cell) => cell.trim());
}

function readTable(lines, i) {
  const sides = cells(lines[i + 1]).map((cell) => (cell.endsWith(':') ? (cell.startsWith(':') ? 'center' : 'right') : 'left'));
  const rows = [];
  let end = i + 2;
  while (end < lines.length && lines[end].trim() !== '' && lines[end].includes('|')) rows.push(cells(lines[end++]));
  return {type: 'table', head: cells(lines[i]), sides, rows, end};
}

// --- elements

function build(block) {
  switch (block.type) {
    case 'code':
      return buildCode(block);
    case 'heading':
      return withInline(element(`h${Math.min(block.level + 2, 6)}`, {class: `level-${block.level}`}), block.text);
    case 'rule':
      return element('hr');
    case 'quote':
      return element('blockquote', {}, ...block.blocks.map(build));
    case 'list':
      return element(block.ordered ? 'ol' : 'ul', {start: block.ordered && block.start !== 1 ? block.start : null}, ...block.items.map((item) => buildItem(item, block.loose)));
    case 'table':
      return buildTable(block);
    default:
      return withInline(element('p'), block.text);
  }
}

function buildItem(item, loose) {
  const node = element('li', {class: item.checked === null ? null : 'task'});
  if (item.checked !== null) node.append(element('input', {type: 'checkbox', disabled: true, checked: item.checked, 'aria-label': item.checked ? 'done' : 'not done'}));
  for (const block of item.blocks) {
    if (block.type === 'paragraph' && !loose) node.append(withInline(element('span'), block.text));
    else node.append(build(block));
  }
  return node;
}

function buildTable(table) {
  const row = (name, texts) =>
    element('tr', {}, ...table.sides.map((side, i) => withInline(element(name, {class: `side-${side}`, scope: name === 'th' ? 'col' : null}), texts[i] ?? '')));
  return element('div', {class: 'table', tabindex: 0, role: 'region', 'aria-label': 'Table'},
    element('table', {}, element('thead', {}, row('th', table.head)), element('tbody', {}, ...table.rows.map((texts) => row('td', texts)))));
}

function buildCode(block) {
  const code = element('code');
  const copy = iconButton('copy', 'Copy the code', () => copyWithSign(code.textContent, copy));
  if (block.closed) highlight(code, block.text, block.language);
  else code.append(block.text);
  return element('figure', {class: 'code'},
    element('figcaption', {}, element('span', {}, block.language || 'text'), copy), element('pre', {tabindex: 0}, code));
}

// --- inside a block

function withInline(node, text) {
  inline(node, text, 0);
  return node;
}

const MARKS = [['**', 'strong'], ['__', 'strong'], ['~~', 'del'], ['*', 'em'], ['_', 'em']];
const isWord = (letter) => letter !== undefined && /[\p{L}\p{N}]/u.test(letter);

function inline(node, text, depth) {
  const missing = new Set(); // marks that have no end any more
  let plain = '';
  const flush = () => {
    if (plain !== '') node.append(plain);
    plain = '';
  };
  for (let i = 0; i < text.length;) {
    const piece = depth < MOST_DEPTH ? readPiece(text, i, missing) : null;
    if (piece === null) {
      plain += text[i++];
      continue;
    }
    if (piece.text !== undefined) {
      plain += piece.text;
    } else {
      flush();
      if (piece.inside !== undefined) inline(piece.node, piece.inside, depth + 1);
      node.append(piece.node);
    }
    i = piece.end;
  }
  flush();
}

// What begins at text[i], other than plain text: {end, text} or {end, node, inside}.
function readPiece(text, i, missing) {
  switch (text[i]) {
    case '\\':
      if (text[i + 1] === '\n') return {end: i + 2, node: element('br')};
      return /[!-/:-@[-`{-~]/.test(text[i + 1] ?? '') && !'()[]'.includes(text[i + 1]) ? {end: i + 2, text: text[i + 1]} : null;
    case '\n':
      return {end: i + 1, node: element('br')};
    case '`':
      return readCodeSpan(text, i);
    case '!':
      return text[i + 1] === '[' ? readLink(text, i + 1, missing) : null;
    case '[':
      return readLink(text, i, missing);
    case '<':
      return readAutolink(text, i);
    case 'h':
      return isWord(text[i - 1]) ? null : readAddress(text, i);
    case '*':
    case '_':
    case '~':
      return readEmphasis(text, i, missing);
    default:
      return null;
  }
}

function readCodeSpan(text, i) {
  const marks = /^`+/.exec(text.slice(i, i + 64))[0];
  let end = text.indexOf(marks, i + marks.length);
  while (end >= 0 && text[end + marks.length] === '`') {
    while (text[end] === '`') ++end;
    end = text.indexOf(marks, end);
  }
  if (end < 0) return {end: i + marks.length, text: marks};
  let inside = text.slice(i + marks.length, end).replace(/\n/g, ' ');
  if (/^ .*[^ ].* $|^ `|` $/.test(inside)) inside = inside.replace(/^ | $/g, '');
  return {end: end + marks.length, node: element('code', {}, inside)};
}

function readEmphasis(text, i, missing) {
  for (const [mark, name] of MARKS) {
    if (!text.startsWith(mark, i) || missing.has(mark)) continue;
    const begin = i + mark.length;
    if (/\s/.test(text[begin] ?? ' ')) continue;
    if (mark[0] === '_' && isWord(text[i - 1])) continue;
    const end = findEnd(text, begin, mark);
    if (end < 0) {
      missing.add(mark);
      continue;
    }
    return {end: end + mark.length, node: element(name), inside: text.slice(begin, end)};
  }
  return null;
}

// The end mark of emphasis: behind text, not inside code, not part of a longer mark.
function findEnd(text, begin, mark) {
  for (let i = begin; i < text.length; ++i) {
    if (text[i] === '\\') {
      ++i;
    } else if (text[i] === '`') {
      i = readCodeSpan(text, i).end - 1;
    } else if (text.startsWith(mark, i)) {
      const run = /^(.)\1*/s.exec(text.slice(i, i + 8))[0].length;
      const fits = mark.length === 2 ? run >= 2 : run !== 2;
      if (fits && i > begin && !/\s/.test(text[i - 1]) && !(mark[0] === '_' && isWord(text[i + mark.length]))) {
        return mark.length === 2 && run === 3 ? i + 1 : i;
      }
      i += run - 1;
    }
  }
  return -1;
}

function safeUrl(address) {
  try {
    const url = new URL(address);
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function link(url) {
  return element('a', {href: url, target: '_blank', rel: 'noopener noreferrer nofollow'});
}

// [text](address "title"): nested brackets in the text, one pair of parentheses in the address.
function readLink(text, i, missing) {
  if (missing.has('[')) return null;
  let depth = 0;
  let close = i;
  const most = Math.min(text.length, i + MOST_LINK);
  for (; close < most; ++close) {
    if (text[close] === '\\') ++close;
    else if (text[close] === '[') ++depth;
    else if (text[close] === ']' && --depth === 0) break;
  }
  if (close >= most) {
    if (most === text.length) missing.add('[');
    return null;
  }
  const target = /^\(\s*<?((?:[^\s()<>]|\([^\s()<>]*\))+)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(text.slice(close + 1, close + 2100));
  const url = target ? safeUrl(target[1]) : null;
  if (url === null) return null;
  return {end: close + 1 + target[0].length, node: link(url), inside: text.slice(i + 1, close) || target[1]};
}

function readAutolink(text, i) {
  const match = /^<((?:https?:|mailto:)[^\s<>]{1,2000})>/.exec(text.slice(i, i + 2010));
  const url = match ? safeUrl(match[1]) : null;
  if (url === null) return null;
  const node = link(url);
  node.append(match[1]);
  return {end: i + match[0].length, node};
}

function readAddress(text, i) {
  const match = /^https?:\/\/[^\s<>"`|]{1,2000}/.exec(text.slice(i, i + 2010));
  if (!match) return null;
  let address = match[0].replace(/[.,;:!?'*_~]+$/, '');
  while (address.endsWith(')') && address.split('(').length <= address.split(')').length - 1) address = address.slice(0, -1);
  const url = safeUrl(address);
  if (url === null) return null;
  const node = link(url);
  node.append(address);
  return {end: i + address.length, node};
}
