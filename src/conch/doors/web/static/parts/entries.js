// One row of the timeline: who did what, in plain words, and below it what an agent wrote.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { colour, label, mentioned, named } from "../agents.js";
import { formatted, line } from "../markdown.js";
import { topicAddress, withQuery } from "../router.js";
import { visible } from "../text.js";
import { clock, exact } from "../time.js";
import { answerBox } from "./forms.js";

const ICONS = {
  release: "→", pass: "→", takeover: "⇄", claim: "▸", return: "↩", resume: "↻", note: "✎", join: "+", leave: "−", reorder: "↕", policy: "⚙",
  close: "×", message: "“", reserved: "⚑", renewed: "⚑", released: "⚐", expired: "⚐", HANDOFF: "→", BLOCKED: "?", INCURSION: "!", RESUME: "↻",
  seen: "✓", accepted: "✓", registered: "+",
};
const WHY = {
  owner_gone: "owner gone", owner_timeout: "lease lapsed", recipient_gone: "recipient gone", claim_timeout: "not claimed in time",
};
const STATES = { seen: "Seen", accepted: "Accepted" };

// A Map, because agents choose the type: an object also has a "constructor".
const VERBS = new Map(Object.entries({ question: "asked", answer: "answered", nudge: "asked for the stick", redaction: "redacted", ack: "acknowledged" }));

/** A row. `context` is `{me, shell, roomId}`. */
export function entryRow(entry, context) {
  const isQuestion = asks(entry), tone = isQuestion ? "ask" : TONES[typeOf(entry)] ?? "";
  return html`<time datetime=${entry.created_at} title=${exact(entry.created_at)}>${clock(entry.created_at)}</time>
    <span class="icon ${tone}" aria-hidden="true">${isQuestion ? "?" : ICONS[typeOf(entry)] ?? "·"}</span>
    <div class=${QUIET.has(typeOf(entry)) ? "quiet-row" : ""}>${body(entry, context)}</div>`;
}

const TONES = { takeover: "bad", BLOCKED: "ask", INCURSION: "warn", RESUME: "ask" };
const QUIET = new Set(["join", "leave", "claim", "renewed", "released", "reserved", "expired", "registered", "seen", "accepted", "policy", "reorder"]);

/** What an entry is about: its type, or that of its notice. */
export const typeOf = (entry) => (entry.kind === "protocol" ? entry.protocol_event?.event_type : null) ?? entry.event_type;

/** Whether the entry is a question that still needs an answer. The stream brings new questions without their state. */
const asks = (entry) => entry.message_type === "question" && isOpen(entry.question);
export const isOpen = (question) => (question?.status ?? "pending") === "pending" && !question?.answers;

function body(entry, context) {
  if (entry.kind === "message") return message(entry, context);
  if (entry.handoff) return handoff(entry, context);
  const draw = { claim, takeover, note, INCURSION: incursion, RESUME: resumed, BLOCKED: blocked, HANDOFF: notice }[typeOf(entry)];
  if (draw) return draw(entry, context);
  if (entry.kind === "mark") return mark(entry);
  if (entry.kind === "reservation") return reservation(entry);
  return plain(entry);
}

// -- turns

function handoff(entry, context) {
  return html`${named(entry.from)} <b>${entry.to ? "Passed to" : "Released"}</b> ${entry.to ? mentioned(entry.to) : "the stick"}
    ${state(entry.protocol_event)} ${marks(entry, context)} ${handoffCard(entry.handoff, entry.from)}`;
}

const claim = (entry) => html`${named(entry.to)} <b>Claimed</b> the stick, turn ${entry.turn_id}`;

/** The log says from whom to whom the stick went. */
function takeover(entry) {
  const why = entry.details?.cause;
  return html`${named(entry.to)} <b>took over</b>${entry.from ? html` from ${mentioned(entry.from)}` : nothing}
    ${why ? html` <small>${WHY[why] ?? visible(why)}</small>` : nothing}
    ${entry.reason ? html`<div class="said">${visible(entry.reason)}</div>` : nothing}`;
}

const note = (entry) => html`${named(entry.from)} <b>Noted</b><div class="said">${formatted(entry.details?.note ?? "")}</div>`;

/** What one agent wrote down for the next: status, next step, files, and what not to do. */
export function handoffCard(given, from) {
  return html`<div class="hand ${colour(from?.agent_id)}"><dl class="facts">
    ${fact("Status", given.status)} ${fact("Next", given.next_action)}
    ${given.artifacts?.length ? html`<dt>Files</dt><dd>${given.artifacts.map(artifact)}</dd>` : nothing}
    ${facts("Questions", given.open_questions)} ${facts("Do not", given.do_not)}
  </dl></div>`;
}

function artifact(each) {
  const path = typeof each === "string" ? each : each.path ?? "", lines = each.lines ?? [];
  const at = lines.length ? `:${lines[0]}${lines[1] && lines[1] !== lines[0] ? `-${lines[1]}` : ""}` : "";
  return html`<div><code>${visible(path)}${at}</code> ${each.role ? html`<small>${visible(each.role)}</small>` : nothing}
    ${each.note ? html`<small>${visible(each.note)}</small>` : nothing}</div>`;
}

const fact = (name, text) => (text ? html`<dt>${name}</dt><dd>${formatted(text)}</dd>` : nothing);

function facts(name, texts) {
  const list = Array.isArray(texts) ? texts : texts ? [texts] : [];
  return list.length ? html`<dt>${name}</dt><dd>${list.map((text) => html`<div>${formatted(text)}</div>`)}</dd>` : nothing;
}

// -- notices

function blocked(entry, context) {
  const { payload, state: present } = entry.protocol_event;
  return html`${named(entry.from)} <b>Needs input</b> from ${mentioned(entry.to)}
    ${payload.urgency === "high" ? html`<span class="pill bad">urgent</span>` : nothing} ${state(entry.protocol_event)} ${item(entry)}
    <div class="hand ${colour(entry.from?.agent_id)}"><dl class="facts">
      ${fact("About", payload.subject)} ${fact("Blocked by", payload.blocker)} ${fact("Asks for", payload.requested_action)}</dl></div>
    ${present === "accepted" ? nothing : marks(entry, context)}`;
}

function notice(entry, context) {
  const { payload } = entry.protocol_event;
  return html`${named(entry.from)} <b>Passed to</b> ${mentioned(entry.to)} ${state(entry.protocol_event)} ${item(entry)}
    <div class="hand ${colour(entry.from?.agent_id)}"><dl class="facts">
      ${fact("About", payload.subject)} ${fact("Status", payload.summary)} ${fact("Next", payload.next_action)}</dl></div>
    ${marks(entry, context)}`;
}

function incursion(entry) {
  const event = entry.protocol_event, { payload } = event;
  return html`<b>Ran into</b> a reservation: ${named(entry.from)} wanted <code>${visible(event.scope ?? ".")}</code>, reserved by ${mentioned(entry.to)}
    <small>${visible(payload.incursion_kind)}, owner ${visible(payload.owner_liveness)}</small> ${times(event)} ${item(entry)}
    <div><small>${visible(payload.resolution_hint)}</small></div>`;
}

function resumed(entry) {
  const { payload } = entry.protocol_event;
  return html`${named(entry.from)} <b>Resumed</b> the work of ${visible(payload.adopted_agent)} ${item(entry)}
    <div><small>${visible(payload.evidence)}</small></div>`;
}

const mark = (entry) => html`${named(entry.from)} <b>${entry.label}</b> ${line(entry.protocol_event?.payload?.subject ?? "a notice")}`;

const state = (event) => (event && STATES[event.state] ? html`<span class="pill">${STATES[event.state]}</span>` : nothing);
const times = (event) => (event.times > 1 ? html`<span class="pill">${event.times} times</span>` : nothing);

/** Seen and Accept, on a notice to the person at this page. */
function marks(entry, { me, shell }) {
  const event = entry.protocol_event;
  if (!event || !me || entry.to?.agent_id !== me.agent_id || event.state === "accepted") return nothing;
  const send = (name, said) => () => shell.act(name, { event_id: event.id }, said);
  return html`<div class="row reply"><button class="button primary" @click=${send("accept", "Accepted.")}>Accept</button>
    ${event.state === "seen" ? nothing : html`<button class="button quiet" @click=${send("seen", "Marked as seen.")}>Seen</button>`}</div>`;
}

/** The work item of an entry, as a link that opens its panel. */
function item(entry) {
  const bead = entry.protocol_event?.bead_id ?? entry.details?.bead_id;
  return bead ? itemLink(bead, entry.room_id) : nothing;
}

export const itemLink = (bead, roomId) =>
  html`<a class="pill" href=${withQuery({ item: bead, in: roomId, turn: null })} title="Show this work item">${visible(bead)}</a>`;

// -- the rest

function message(entry, context) {
  const said = html`<div class="said">${formatted(entry.content_markdown ?? "")}</div>`;
  if (entry.message_type === "question") return questionRow(entry, context, said);
  return html`${named(entry.from)} ${verb(entry) ?? "said"} ${thread(entry)}${said}`;
}

function questionRow(entry, context, said) {
  if (!asks(entry)) return html`${named(entry.from)} asked <span class="pill">${entry.question.status === "cancelled" ? "Cancelled" : "Answered"}</span> ${thread(entry)}${said}`;
  return html`${named(entry.from)} <b>Needs input</b> from anyone ${thread(entry)}${said}${answerBox(entry, context)}`;
}

/** What the sender of a message did, unless it only said something. */
export const verb = (message) => VERBS.get(message.message_type);

const thread = (entry) => (entry.topic_id ? html`<a class="soft" href=${topicAddress(entry.topic_id, entry.seq)} title="Show in its topic"><small>#${entry.seq}</small></a>` : nothing);

function reservation(entry) {
  if (entry.details?.reason) return plain(entry); // a person has ended it for its owner
  const scope = html`<code>${visible(entry.details?.scope ?? "")}</code>`;
  if (entry.event_type === "expired")
    return html`The reservation of ${scope} by ${visible(entry.details?.owner ?? "its owner")} <b>Ended</b>: ${named(entry.from)} reserved an overlapping path`;
  return html`${named(entry.from)} <b>${entry.label}</b> ${scope} ${item(entry)}`;
}

/** Everything else, in the server's own sentence. */
function plain(entry) {
  const text = visible(entry.sentence ?? entry.label);
  const who = [entry.from, entry.to].find((agent) => agent && text.startsWith(label(agent)));
  return who ? html`${named(who)}${text.slice(label(who).length)}` : html`${text}`;
}
