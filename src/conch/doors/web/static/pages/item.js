// One work item in the panel: its reservations, notices and handoffs, in one conversation.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { path } from "../api.js";
import { Refresh } from "../parts/refresh.js";
import { reservationTree } from "../parts/reservations.js";
import { Timeline } from "../parts/timeline.js";
import { count, visible } from "../text.js";

export class ItemPanel {
  constructor(shell, roomId, bead) {
    Object.assign(this, { shell, roomId, bead, reservations: [], notices: [] });
    this.timeline = new Timeline(shell, path`/api/rooms/${roomId}/items/${bead}`, () => ({ me: shell.me, shell, roomId }), "item-timeline");
    this.refresh = new Refresh(() => this.load());
  }

  async load() {
    const page = await this.timeline.load();
    Object.assign(this, { reservations: page.reservations ?? [], notices: page.notices ?? [] });
    this.shell.update();
  }

  concerns({ entry }) { return !entry || entry.room_id === this.roomId; }
  changed() { this.refresh.soon(); }

  view() {
    return html`<div class="head"><h1 tabindex="-1">Work item ${visible(this.bead)}</h1><span class="grow"></span>
        <button class="button quiet" @click=${() => this.shell.closePanel()}>Close</button></div>
      <div class="row">${this.notices.length ? html`<span class="pill warn">${count(this.notices.length, "unaccepted notice")}</span>` : nothing}
        ${this.reservations.length ? html`<span class="pill">${count(this.reservations.length, "reservation")}</span>` : nothing}</div>
      ${this.reservations.length ? html`<section class="card"><h2>Reserved</h2>${reservationTree(this.reservations, this.roomId, null)}</section>` : nothing}
      <section class="card"><h2>Conversation</h2>${this.timeline.view()}</section>`;
  }
}
