// The rooms that changed last, those in trouble first.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { get } from "../api.js";
import { colour, label, named } from "../agents.js";
import { Refresh } from "../parts/refresh.js";
import { alerts, pill } from "../parts/standing.js";
import { roomAddress } from "../router.js";
import { count, others, visible } from "../text.js";

export class RoomsPage {
  title = "Rooms";

  constructor(shell, route) {
    Object.assign(this, { shell, rooms: null, all: route.query.get("all") });
    this.refresh = new Refresh(() => this.load());
  }

  async load() {
    const reply = await get("/api/rooms", { all: this.all });
    this.rooms = reply.rooms;
    this.hasMore = reply.has_more;
    this.shell.update();
  }

  changed() { this.refresh.soon(); }

  view() {
    return html`<div class="head"><h1 tabindex="-1">Rooms</h1><span class="grow"></span>
        <a class="button quiet" href=${this.all ? "/" : "/?all=1"}>${this.all ? "Only open rooms" : "Closed rooms too"}</a></div>
      ${this.rooms === null ? nothing : this.rooms.length ? this.list() : this.empty()}`;
  }

  list() {
    return html`<div class="card"><ul class="list">${this.rooms.map(roomRow)}</ul></div>
      ${this.hasMore ? html`<p class="soft">There are more rooms; <code>conch rooms --all</code> lists them all.</p>` : nothing}`;
  }

  empty() {
    return html`<div class="card"><p>There is no open room yet. An agent opens one when it joins a workspace.</p>
      <p class="soft">To open one yourself, run <code>conch join</code> in a checkout.</p></div>`;
  }
}

function roomRow(room) {
  return html`<li data-room=${room.room_id}><div class="row"><h2 class="title"><a href=${roomAddress(room.room_id)}>${visible(room.name)}</a></h2><span class="path soft">${visible(room.shown_path ?? room.canonical_path)}</span>
      <span class="grow"></span>
      ${room.questions.length ? html`<span class="pill ask">${count(room.questions.length, "open question")}</span>` : nothing}
      ${room.notices.length ? html`<span class="pill warn">${count(room.notices.length, "unaccepted notice")}</span>` : nothing}
      ${room.reservations?.length ? html`<span class="pill">${count(room.reservations.length, "reservation")}</span>` : nothing}
      <span class="pill ${room.troubles.length ? "bad" : room.owner ? "hold" : ""}">turn <span class="number">${room.turn_id}</span>${room.turn_since ? html` · <time-span since=${room.turn_since}></time-span>` : nothing}</span></div>
    <p>${visible(room.sentence)}</p>
    ${alerts(room, () => html`<a class="button" href=${roomAddress(room.room_id)}>Open</a>`)}
    <div class="row">${room.members.map((member) => memberChip(member, room))}
      ${room.gone ? html`<small>${others(room.gone)} gone or silent</small>` : nothing}</div></li>`;
}

function memberChip(member, room) {
  const asked = room.questions.filter((each) => each.agent_id === member.agent_id && !each.answers);
  const [text] = pill(member, room, asked);
  return html`<span class="row chip ${colour(member.agent_id)}" title="${label(member)}: ${text}"><i class="dot ${member.doing} ${member.liveness}" aria-hidden="true"></i>${named(member)} <small>${text}</small></span>`;
}
