// Messages of a topic, with replies below what they reply to.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { get, path } from "../api.js";
import { named } from "../agents.js";
import { formatted } from "../markdown.js";
import { count, visible } from "../text.js";
import { clock, exact } from "../time.js";
import { isOpen, verb } from "./entries.js";
import { answerBox } from "./forms.js";

const LATEST = 6;

/** `[{message, replies}]`: each message below the first one of its thread that is here. */
export function threads(messages) {
  const byId = new Map(messages.map((message) => [message.message_id, message]));
  const roots = new Map();
  for (const message of messages) {
    let root = message;
    for (let steps = 0; root.reply_to && byId.has(root.reply_to) && steps < messages.length; steps += 1) root = byId.get(root.reply_to);
    if (!roots.has(root.message_id)) roots.set(root.message_id, { message: root, replies: [] });
    if (root !== message) roots.get(root.message_id).replies.push(message);
  }
  return [...roots.values()];
}

/** The latest messages of a topic. */
export class Talk {
  messages = [];

  async load() {
    this.messages = (await get(path`/api/topics/${this.topicId}/messages`, { limit: LATEST })).messages;
  }

  view() { return html`<div class="talk">${this.messages.map((each) => messageView(each))}</div>`; }
}

/** One message. `tools` stand beside its head, `below` under it. */
export function messageView(message, { tools = nothing, below = nothing, isAt = false } = {}) {
  const sender = { agent_id: message.agent_id, label: message.sender };
  return html`<div class="message ${isAt ? "at" : ""}" id=${`message-${message.seq}`}>${named(sender)} ${verb(message) ? html`<small>${verb(message)}</small>` : nothing}
    <small><time datetime=${message.created_at} title=${exact(message.created_at)}>${clock(message.created_at)}</time> #${message.seq}</small>
    ${questionState(message)} ${addressed(message)} ${tools}
    <div class="said">${formatted(message.content_markdown)}</div>${below}</div>`;
}

/** A message with its thread, and a box for the answer if it is an open question. */
export function threadView({ message, replies }, context, at, tools) {
  const answer = message.question && isOpen(message.question) && !context.isClosed ? answerBox(message, context) : nothing;
  const below = html`${replies.length ? html`<div class="thread">${replies.map((each) => messageView(each, { tools: tools(each), isAt: each.seq === at }))}</div>` : nothing}${answer}`;
  return messageView(message, { tools: tools(message), below, isAt: message.seq === at });
}

function questionState({ question }) {
  if (!question) return nothing;
  if (isOpen(question)) return html`<span class="pill ask">needs an answer</span>`;
  return html`<span class="pill">${question.answers ? count(question.answers, "answer") : visible(question.status)}</span>`;
}

const addressed = (message) => (message.metadata?.to?.length ? html`<small>to ${visible([].concat(message.metadata.to).join(", "))}</small>` : nothing);
