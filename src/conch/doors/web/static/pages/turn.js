// One turn in the panel: how it began, how it ended, and what was handed over.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { get, path } from "../api.js";
import { entryRow } from "../parts/entries.js";
import { Refresh } from "../parts/refresh.js";

export class TurnPanel {
  /** `turn` is the event that began it, and after a dash the one that ended it. */
  constructor(shell, roomId, turn) {
    Object.assign(this, { shell, roomId, numbers: turn.split("-"), entries: [] });
    this.refresh = new Refresh(() => this.load());
  }

  changed() { this.refresh.soon(); } // what was handed over may be accepted

  async load() {
    const replies = await Promise.all(this.numbers.map((number) => get(path`/api/rooms/${this.roomId}/events/${number}`)));
    this.entries = replies.map((reply) => reply.entry);
    this.shell.update();
  }

  view() {
    const context = { me: this.shell.me, shell: this.shell, roomId: this.roomId }, [first] = this.entries;
    return html`<div class="head"><h1 tabindex="-1">Turn ${first?.turn_id ?? ""}</h1><span class="grow"></span>
        <button class="button quiet" @click=${() => this.shell.closePanel()}>Close</button></div>
      ${this.entries.length ? html`<section class="card"><ol class="timeline">${this.entries.map((entry) => html`<li>${entryRow(entry, context)}</li>`)}</ol></section>` : nothing}`;
  }
}
