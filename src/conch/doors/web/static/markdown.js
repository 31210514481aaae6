// A small Markdown: paragraphs, lists, quotes, headings, code, emphasis and links. It builds nodes from text and never
// parses HTML, so nothing that an agent wrote can become markup of its choice.

import { kept } from "./kept.js";
import { brief, visible } from "./text.js";

const FENCE = /^\s*(```|~~~)/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const BULLET = /^\s*(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/;
const QUOTE = /^\s*>\s?(.*)$/;
const INLINE = /(?<!`)(`+)(?!`)([^`]|[^`].*?[^`])\1(?!`)|\*\*([^*\n]+)\*\*|(?<![\w*])\*([^*\s][^*\n]*)\*(?!\w)|(?<!\w)_([^_\s][^_\n]*)_(?!\w)|\[([^[\]\n]+)\]\((https?:\/\/[^\s()]+)\)|(https?:\/\/[^\s<>"')\]]+)/g;
const MOST = 20_000; // characters that are formatted; the rest stays plain, because a long text would block the page

/** A text in a template. Its nodes stay as they are while the text does, so that a reader keeps a selection. */
export const formatted = (text) => kept([text], () => markdown(text));

/** The first line of a text, cut after this many characters. */
export const line = (text, most) => kept([text, most], () => gathered(inline(brief(text, most))));

function markdown(text) {
  const whole = visible(text), nodes = blocks(whole.slice(0, MOST).split("\n"), 0);
  return gathered(whole.length > MOST ? [...nodes, element("pre", [whole.slice(MOST)])] : nodes);
}

/** The nodes of one line: code, emphasis and links. */
function inline(text) {
  const nodes = [];
  let reached = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > reached) nodes.push(text.slice(reached, match.index));
    nodes.push(span(match));
    reached = match.index + match[0].length;
  }
  if (reached < text.length) nodes.push(text.slice(reached));
  return nodes;
}

function span([whole, , code, strong, starred, underlined, words, address]) {
  if (code !== undefined) return element("code", [code]);
  if (strong !== undefined) return element("strong", [strong]);
  if (starred !== undefined || underlined !== undefined) return element("em", [starred ?? underlined]);
  return link(words ?? whole, address ?? whole);
}

function link(words, address) {
  const node = element("a", [words]);
  node.href = address; // only http and https get here
  node.rel = "noopener noreferrer nofollow";
  node.target = "_blank";
  node.title = address;
  return node;
}

function blocks(lines, depth) {
  const found = [];
  for (let at = 0; at < lines.length; ) {
    const [node, next] = block(lines, at, depth);
    if (node) found.push(node);
    at = next;
  }
  return found;
}

function block(lines, at, depth) {
  if (!lines[at].trim()) return [null, at + 1];
  if (FENCE.test(lines[at])) return fenced(lines, at);
  const heading = HEADING.exec(lines[at]);
  // A heading in a message is not a heading of the page, so it is only bold.
  if (heading) return [element("p", [element("strong", inline(heading[2]))]), at + 1];
  if (QUOTE.test(lines[at]) && depth < 4) return quote(lines, at, depth);
  if (BULLET.test(lines[at])) return list(lines, at);
  return paragraph(lines, at);
}

function fenced(lines, at) {
  const mark = FENCE.exec(lines[at])[1];
  let end = at + 1;
  while (end < lines.length && !lines[end].trim().startsWith(mark)) end += 1;
  return [element("pre", [element("code", [lines.slice(at + 1, end).join("\n")])]), end + 1];
}

function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  const inner = lines.slice(at, end).map((line) => QUOTE.exec(line)[1]);
  return [element("blockquote", blocks(inner, depth + 1)), end];
}

function list(lines, at) {
  const first = BULLET.exec(lines[at]), items = [];
  let end = at;
  for (let match = first; match; match = end < lines.length ? BULLET.exec(lines[end]) : null) {
    items.push(element("li", inline(match[2])));
    end += 1;
  }
  const node = element(first[1] === undefined ? "ul" : "ol", items);
  if (first[1] !== undefined) node.start = Number(first[1]);
  return [node, end];
}

function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && ![FENCE, HEADING, BULLET, QUOTE].some((mark) => mark.test(lines[end])))
    end += 1;
  const nodes = [];
  lines.slice(at, end).forEach((line, index) => {
    if (index) nodes.push(element("br", []));
    nodes.push(...inline(line));
  });
  return [element("p", nodes), end];
}

const element = (name, children) => filled(document.createElement(name), children);
const gathered = (children) => filled(document.createDocumentFragment(), children);

function filled(node, children) {
  node.append(...children);
  return node;
}
