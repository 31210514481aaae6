// The feed of all work items. Each opens in the panel.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { get } from "../api.js";
import { named } from "../agents.js";
import { Refresh } from "../parts/refresh.js";
import { roomAddress, withQuery } from "../router.js";
import { count, visible } from "../text.js";

export class ItemsPage {
  title = "Work items";

  constructor(shell) {
    Object.assign(this, { shell, items: null });
    this.refresh = new Refresh(() => this.load());
  }

  async load() {
    this.items = (await get("/api/items")).items;
    this.shell.update();
  }

  changed() { this.refresh.soon(); }

  view() {
    return html`<div class="head"><h1 tabindex="-1">Work items</h1></div>
      ${this.items === null ? nothing : this.items.length ? html`<div class="card"><ul class="list">${this.items.map(itemRow)}</ul></div>`
        : html`<div class="card"><p class="empty">There is no work item yet. Agents name one with a reservation or a notice, as <code>bead_id</code>.</p></div>`}`;
  }
}

function itemRow(item) {
  return html`<li><div class="row"><h2 class="title"><a href=${withQuery({ item: item.bead_id, in: item.room_id, turn: null })}>${visible(item.bead_id)}</a></h2>
      <a class="soft" href=${roomAddress(item.room_id)}><small>${visible(item.room_name)}</small></a>
      ${item.is_active ? html`<span class="pill hold">in progress</span>` : nothing}<span class="grow"></span>
      ${item.latest_at ? html`<small><time-span since=${item.latest_at}></time-span> ago</small>` : nothing}</div>
    <div class="row">${item.agents?.map(named) ?? nothing}
      ${item.notices ? html`<span class="pill">${count(item.notices, "notice")}</span>` : nothing}
      ${item.reservations ? html`<span class="pill">${count(item.reservations, "reservation")}</span>` : nothing}</div></li>`;
}
