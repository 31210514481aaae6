// One work item in the panel: its reservations, notices and handoffs in one conversation, and the messages that name it.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { get, path } from "../api.js";
import { Refresh } from "../parts/refresh.js";
import { reservationTree } from "../parts/reservations.js";
import { Timeline } from "../parts/timeline.js";
import { count, visible } from "../text.js";
import { hit } from "./search.js";

const MENTIONS = 20;

export class ItemPanel {
  constructor(shell, roomId, bead) {
    Object.assign(this, { shell, roomId, bead, reservations: [], notices: [], messages: [] });
    this.timeline = new Timeline(shell, path`/api/rooms/${roomId}/items/${bead}`, () => ({ me: shell.me, shell, roomId }), "item-timeline");
    this.refresh = new Refresh(() => this.load());
  }

  async load() {
    const page = await this.timeline.load();
    Object.assign(this, { reservations: page.reservations ?? [], notices: page.notices ?? [] });
    this.shell.update();
    const found = await get("/api/search", { q: `"${this.bead}"`, topic: page.topic_id, mode: "fts", limit: MENTIONS });
    this.messages = found.hits.sort((one, other) => other.seq - one.seq);
    this.shell.update();
  }

  get open() { return this.notices.filter((notice) => notice.state !== "accepted"); }

  changed() { this.refresh.soon(); }

  view() {
    return html`<div class="head"><h1 tabindex="-1">Work item ${visible(this.bead)}</h1><span class="grow"></span>
        <button class="button quiet" @click=${() => this.shell.closePanel()}>Close</button></div>
      <div class="row">${this.open.length ? html`<span class="pill warn">${count(this.open.length, "unaccepted notice")}</span>` : nothing}
        ${this.reservations.length ? html`<span class="pill">${count(this.reservations.length, "reservation")}</span>` : nothing}</div>
      ${this.reservations.length ? html`<section class="card"><h2>Reserved</h2>${reservationTree(this.reservations, this.roomId, null)}</section>` : nothing}
      <section class="card"><h2>Conversation</h2>${this.timeline.view()}</section>
      ${this.messages.length ? html`<section class="card"><h2>Messages that name it</h2><ul class="list">${this.messages.map(hit)}</ul></section>` : nothing}`;
  }
}
