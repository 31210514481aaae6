// One room: what is wrong, who is here, who held the stick, what happened; beside it what a person glances at.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { get, path } from "../api.js";
import { label, named } from "../agents.js";
import { itemLink } from "../parts/entries.js";
import { answerBox, sayBox } from "../parts/forms.js";
import { Lanes } from "../parts/lanes.js";
import { Talk } from "../parts/messages.js";
import { Refresh } from "../parts/refresh.js";
import { reservationTree } from "../parts/reservations.js";
import { alerts, losses, memberRow } from "../parts/standing.js";
import { Steering } from "../parts/steering.js";
import { Timeline } from "../parts/timeline.js";
import { topicAddress } from "../router.js";
import { count, others, visible } from "../text.js";

const BEADS = 3; // filters of the timeline

export class RoomPage {
  constructor(shell, route) {
    Object.assign(this, { shell, id: route.id, room: null });
    this.timeline = new Timeline(shell, path`/api/rooms/${this.id}/timeline`, () => this.context);
    this.talk = new Talk();
    this.lanes = new Lanes(shell, this.id);
    this.steering = new Steering(shell, this.id);
    this.refresh = new Refresh(() => this.load());
    this.keys = {
      j: { text: "next row of the timeline", run: () => this.timeline.step(1) },
      k: { text: "previous row of the timeline", run: () => this.timeline.step(-1) },
      a: { text: "answer the first open question", run: () => document.querySelector("[data-answer]")?.focus() },
      m: { text: "write a message", run: () => document.querySelector(".say textarea")?.focus() },
    };
  }

  close() {
    this.timeline.close();
    this.lanes.close();
  }

  get title() { return this.room ? visible(this.room.name) : "Room"; }
  get context() { return { me: this.shell.me, shell: this.shell, roomId: this.id }; }

  async load() {
    await Promise.all([this.loadRoom(), this.shell.load(this.timeline), this.shell.load(this.lanes)]);
  }

  /** The room and its latest messages, read at the same time. The first time, the room must come first, because it names the topic. */
  async loadRoom() {
    const talk = this.talk.topicId ? this.shell.load(this.talk) : null;
    this.room = (await get(path`/api/rooms/${this.id}`)).room;
    this.timeline.beads = beadsOf(this.room).slice(0, BEADS);
    this.talk.topicId = this.room.topic_id;
    await (talk ?? this.shell.load(this.talk));
    this.shell.update();
  }

  happened(entry) {
    if (entry.room_id !== this.id) return;
    this.timeline.add(entry);
    this.shell.update();
  }

  changed() { this.refresh.soon(); }

  // -- drawing

  view() {
    if (!this.room) return html`<h1 tabindex="-1" class="soft">Room</h1>`;
    const room = this.room;
    return html`<div class="columns"><div>
        ${this.head(room)} ${alerts(room, (trouble) => this.remedy(trouble))} ${room.state === "closed" ? nothing : losses(room, (member, held) => this.rescue(member, held))}
        <section class="card"><h2>Who is here</h2>${this.members(room)}</section>
        <section class="card"><h2>Who held the stick ${this.lanes.controls()}</h2>${shown(this.lanes)}</section>
        <section class="card"><h2>Timeline</h2>${shown(this.timeline)}</section>
      </div><div>
        ${this.olderQuestions(room)}
        <section class="card"><h2>Reserved ${room.state === "closed" ? nothing : html`<button class="button quiet small" @click=${() => this.steering.reserve()}>Reserve…</button>`}</h2>${reservationTree(room.reservations, this.id, room.state === "closed" ? null : (each) => this.steering.release(each))}</section>
        <section class="card"><h2>Talk <a class="soft" href=${topicAddress(room.topic_id)}><small>all</small></a></h2>
          ${shown(this.talk)}
          ${room.state === "closed" ? nothing : sayBox({ room_id: this.id }, this.context, "Say something to the room…")}</section>
        ${this.items(room)}
      </div></div>`;
  }

  head(room) {
    const holder = this.holder;
    return html`<div class="head"><h1 tabindex="-1">${visible(room.name)}</h1><span class="path">${visible(room.shown_path ?? room.canonical_path)}</span>
      <span class="pill ${room.owner ? "hold" : ""}">turn <span class="number">${room.turn_id}</span>${room.turn_since ? html` · <time-span since=${room.turn_since}></time-span>` : nothing}</span>
      <span class="grow"></span>
      ${room.state === "closed" ? html`<span class="pill bad">closed</span>` : html`
        ${this.stickActions(room, holder)}
        ${menu("More actions for this room", html`<button class="button quiet" @click=${() => this.steering.note()}>Add a note…</button>
        <button class="button quiet" @click=${() => this.steering.policy()}>Rules of this room…</button>
        ${holder && !this.isMine(room) ? html`<button class="button quiet" @click=${() => this.steering.passFor(holder, room.members)}>Pass on for ${label(holder)}…</button>` : nothing}
        ${room.members.some((each) => each.agent_id === this.shell.me?.agent_id) && !this.isMine(room) ? html`<button class="button quiet" @click=${() => this.steering.leave()}>Leave the room…</button>` : nothing}
        <button class="button quiet" @click=${() => this.steering.close()}>Close the room…</button>`)}`}</div>
      <p class="state">${visible(room.sentence)}${this.deadline(room)}</p>`;
  }

  stickActions(room, holder) {
    if (this.isMine(room)) return html`<button class="button primary" @click=${() => this.steering.handOver(this.shell.me, room.members)}>Hand over…</button>`;
    if (!holder) return html`<button class="button" @click=${() => this.steering.claim()}>Take the stick</button>`;
    return html`<button class="button" @click=${() => this.steering.nudge(holder)}>Ask for the stick</button>
      <button class="button quiet" @click=${() => this.steering.take(holder)}>Take over…</button>`;
  }

  isMine(room) { return Boolean(this.shell.me) && room.owner === this.shell.me.agent_id; }

  /** The member that has the stick or is to claim it. */
  get holder() {
    const id = this.room.owner ?? this.room.reserved_for;
    return this.room.members.find((member) => member.agent_id === id);
  }

  deadline(room) {
    const until = room.owner ? room.lease_expires_at : room.claim_expires_at;
    if (!until || room.troubles.some((trouble) => trouble.code === "takeover")) return nothing;
    return html` ${room.owner ? "Its lease ends in" : "Its time to claim ends in"} <time-span until=${until}></time-span>.`;
  }

  members(room) {
    if (!room.members.length) return html`<p class="empty">Nobody is here.</p>`;
    return html`<ul class="members">${room.members.map((member) => memberRow(member, room, this.memberMenu(member)))}</ul>
      ${room.gone ? html`<small>${others(room.gone)} gone or silent, and left nothing.</small>` : nothing}
      ${room.left_out ? html`<small>Not shown: ${Object.entries(room.left_out).map(([what, number]) => `${number} ${what}`).join(", ")}.</small>` : nothing}`;
  }

  memberMenu(member) {
    if (member.agent_id === this.shell.me?.agent_id || this.room.state === "closed") return html`<span></span>`;
    return menu(`Actions for ${label(member)}`, html`
      <button class="button quiet" @click=${() => this.steering.message(member)}>Write to it…</button>
      <button class="button quiet" @click=${() => this.steering.giveWork(member)}>Give it work…</button>
      <button class="button quiet" @click=${() => this.steering.block(member)}>Ask it for help…</button>
      ${this.moves(member)}
      ${member.agent_id === this.holder?.agent_id ? html`<button class="button quiet" @click=${() => this.steering.passFor(member, this.room.members)}>Pass the stick on for it…</button>` : nothing}
      ${member.doing === "gone" ? html`<button class="button quiet" @click=${() => this.steering.resume(member)}>Resume as ${visible(member.name)}…</button>` : nothing}
      <button class="button quiet" @click=${() => this.steering.kick(member)}>Remove from the room…</button>`);
  }

  /** The stick goes round in this order, so only members that take turns have a place in it. */
  moves(member) {
    const turns = this.room.members.filter((each) => each.takes_turns && each.doing !== "gone"), at = turns.indexOf(member);
    const button = (by, text) => (at >= 0 && turns[at + by] ? html`<button class="button quiet" @click=${() => this.steering.move(member, this.room.members, by)}>${text}</button>` : nothing);
    return html`${button(-1, "Move up in the order")}${button(1, "Move down in the order")}`;
  }

  /** What a person can do about a trouble, on the alert itself. */
  remedy(trouble) {
    if (trouble.code === "takeover")
      return html`<button class="button" @click=${() => this.steering.take(this.holder)}>Take over…</button>${this.holder?.doing === "gone" ? this.rescue(this.holder, []) : nothing}`;
    if (trouble.code === "unanswered") return html`<button class="button" @click=${() => document.querySelector("[data-answer]")?.focus()}>Answer</button>`;
    return this.remind(trouble);
  }

  /** A notice that waits: the person accepts it, or writes to the agent that should. */
  remind({ notice, agent }) {
    const member = this.room.members.find((each) => each.agent_id === agent?.agent_id);
    if (notice.mine) return html`<button class="button" @click=${() => this.shell.act("accept", { event_id: notice.id }, "Accepted.")}>Accept</button>`;
    return member ? html`<button class="button" @click=${() => this.steering.message(member)}>Write to it…</button>` : nothing;
  }

  /** What a person can do about work that an agent left behind. */
  rescue(member, held) {
    return html`<button class="button" @click=${() => this.steering.resume(member)}>Resume as ${visible(member.name)}…</button>
      ${held.length ? html`<button class="button quiet" @click=${() => this.steering.releaseAll(member, held)}>Release…</button>` : nothing}`;
  }

  /** Open questions that the timeline does not show yet. */
  olderQuestions(room) {
    const shown = new Set(this.timeline.entries.map((entry) => entry.seq));
    const older = room.questions.filter((each) => !shown.has(each.seq));
    return older.length ? html`<section class="card"><h2>Open questions</h2><div class="talk">${older.map((each) => this.question(each))}</div></section>` : nothing;
  }

  question(each) {
    const asker = { agent_id: each.agent_id, label: each.asked_by };
    const entry = { ...each, topic_id: each.topic_id ?? this.room.topic_id };
    return html`<div class="message">${named(asker)} <small><a class="soft" href=${topicAddress(entry.topic_id, each.seq)}><time-span since=${each.asked_at}></time-span> ago</a></small>
      <p>${visible(each.question_text)}</p>${answerBox(entry, this.context)}</div>`;
  }

  items(room) {
    const beads = beadsOf(room);
    if (!beads.length) return nothing;
    return html`<section class="card"><h2>Work items</h2>${beads.map((bead) => html`<div class="row item-line">${itemLink(bead, this.id)}
      ${tally(room.reservations, bead, "reservation")} ${tally(room.notices, bead, "open notice")}</div>`)}</section>`;
  }
}

/** The work items that open reservations and notices name. */
const beadsOf = (room) => [...new Set([...room.reservations, ...room.notices].map((each) => each.bead_id).filter(Boolean))];

function tally(found, bead, word) {
  const number = found.filter((each) => each.bead_id === bead).length;
  return number ? html`<small>${count(number, word)}</small>` : nothing;
}

/** A part of the page, or why it is not there. */
const shown = (part) => (part.error ? html`<p class="soft">${part.error.message}</p>` : part.view());

const menu = (name, inside) => html`<details class="more"><summary aria-label=${name}>⋯</summary><div class="menu">${inside}</div></details>`;
