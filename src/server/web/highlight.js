// Colors for code: comments, text, numbers and common words, told apart by one pattern a family of languages. Coarse on
// purpose: it never changes a letter, and what it does not know stays plain.
import {element} from './dom.js';

const MOST_BYTES = 100000;

const words = (text) => new Set(text.split(' '));

const C_WORDS = words('abstract as async await auto bool boolean break byte case catch char class const constexpr continue def default defer delete do double else enum export extends extern false final finally float fn for from func function go if impl implements import in inline int interface internal let long loop match mod module move mut namespace new nil null nullptr object of operator override package private protected pub public readonly ref return self short signed sizeof static string struct super switch template this throw throws trait true try type typedef typename typeof undefined union unsafe unsigned use using val var virtual void volatile where while with yield');
const SCRIPT_WORDS = words('and as assert async await begin break case class continue def del do done elif else elsif end ensure esac except export False fi finally for from function global if import in is lambda let local module next nil None nonlocal not or pass raise rescue require return self set super then true false True try unless until when while with yield echo exit');
const SQL_WORDS = words('add all alter and as asc between by case create delete desc distinct drop else end exists false from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references right select set table then true union unique update values view when where with');

const C_TEXT = '"(?:[^"\\\\\\n]|\\\\.)*"|\'(?:[^\'\\\\\\n]|\\\\.)*\'|`(?:[^`\\\\]|\\\\.)*`';
const NUMBER = '\\b(?:0[xX][0-9a-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)\\b';
const family = (comment, text, known, fold = false) => ({
  pattern: new RegExp(`(?<comment>${comment})|(?<text>${text})|(?<number>${NUMBER})|(?<word>[A-Za-z_$][\\w$]*)`, 'g'),
  known,
  fold,
});

const C_LIKE = family('//[^\\n]*|/\\*[^]*?(?:\\*/|$)', C_TEXT, C_WORDS);
const SCRIPT = family('#[^\\n]*', `"""[^]*?(?:"""|$)|'''[^]*?(?:'''|$)|${C_TEXT}`, SCRIPT_WORDS);
const SQL = family('--[^\\n]*|/\\*[^]*?(?:\\*/|$)', C_TEXT, SQL_WORDS, true);
const MARKUP = family('<!--[^]*?(?:-->|$)', '"[^"\\n]*"', new Set());

const FAMILIES = new Map();
for (const name of 'c cc cpp c++ cs csharp cuda css d dart go golang h hpp java javascript js json json5 jsonc jsx kotlin kt php rs rust scala scss swift ts tsx typescript zig'.split(' ')) FAMILIES.set(name, C_LIKE);
for (const name of 'bash cmake console dockerfile elixir ini julia make makefile nim perl pl powershell py python r rb ruby sh shell toml yaml yml zsh'.split(' ')) FAMILIES.set(name, SCRIPT);
for (const name of 'lua mysql postgres postgresql sql sqlite'.split(' ')) FAMILIES.set(name, SQL);
for (const name of 'html svg vue xml'.split(' ')) FAMILIES.set(name, MARKUP);

export function highlight(node, text, language) {
  const rules = FAMILIES.get(language.toLowerCase());
  if (rules === undefined || text.length > MOST_BYTES) {
    node.append(text);
    return;
  }
  let at = 0;
  for (const match of text.matchAll(rules.pattern)) {
    const {comment, text: quoted, number, word} = match.groups;
    const known = word !== undefined && rules.known.has(rules.fold ? word.toLowerCase() : word);
    if (word !== undefined && !known) continue;
    const kind = comment !== undefined ? 'comment' : quoted !== undefined ? 'text' : number !== undefined ? 'number' : 'word';
    node.append(text.slice(at, match.index), element('span', {class: `hl-${kind}`}, match[0]));
    at = match.index + match[0].length;
  }
  node.append(text.slice(at));
}
