// A timeline that loads what it shows: the latest page, older ones as the reader scrolls down, new rows as they come.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { get } from "../api.js";
import { kept } from "../kept.js";
import { visible } from "../text.js";
import { entryRow, typeOf } from "./entries.js";

const PAGE = 50;
const MOST = 400; // rows kept; beyond that the newest make room for older ones
const FILTERS = {
  All: () => true,
  Handoffs: (entry) => entry.kind === "turn",
  Notices: (entry) => entry.kind === "protocol" || entry.kind === "mark" || typeOf(entry) === "RESUME",
  Messages: (entry) => entry.kind === "message",
  Reservations: (entry) => entry.kind === "reservation" || typeOf(entry) === "INCURSION",
};
// The source that each filter needs, so that the server need not send the others.
const SOURCES = { Handoffs: "log", Notices: "activity", Messages: "messages", Reservations: "activity" };
const isOther = (shown, entry) => Object.keys(entry).some((name) => JSON.stringify(shown[name]) !== JSON.stringify(entry[name]));

export class Timeline {
  /** `address` is that of its API; `context()` is what rows need; `id` is that of its list. */
  constructor(shell, address, context, id = "timeline") {
    Object.assign(this, { shell, address, context, id });
    this.entries = []; // newest first
    this.held = []; // arrived while the reader was further down
    this.filter = "All";
    this.beads = []; // work items to choose from
    this.bead = null;
    this.observer = new IntersectionObserver((seen) => seen.some((each) => each.isIntersecting) && this.older(), { rootMargin: "600px" });
  }

  close() { this.observer.disconnect(); }

  /** The latest page. Rows that are shown stay; if the gap to them is too large, the page starts afresh. */
  async load() {
    const page = await this.read({}), latest = page.entries.reverse();
    const known = new Set(this.entries.map((entry) => entry.key));
    if (this.hasNewest !== false && latest.some((entry) => known.has(entry.key))) {
      latest.reverse().forEach((entry) => this.put(entry));
    } else if (!this.entries.length || this.hasNewest !== false) {
      Object.assign(this, { entries: latest, start: page.start, hasOlder: page.has_older, hasNewest: true, held: [] });
    }
    this.shell.update();
    return page;
  }

  read(parameters) {
    return get(this.address, { limit: PAGE, source: SOURCES[this.filter], bead: this.bead, ...parameters });
  }

  /** What the stream brings. Only the server knows what belongs to a work item. */
  add(entry) {
    if (entry.message_type === "redaction") this.startAfresh(); // rows that are shown may have changed
    else if (!this.bead) this.put(entry);
  }

  /** A new entry, or a newer state of one that is shown. */
  put(entry) {
    if (entry.message_type === "answer") this.answered(entry.reply_to);
    for (const list of [this.entries, this.held]) {
      const at = list.findIndex((each) => each.key === entry.key);
      if (at >= 0) return void (isOther(list[at], entry) && (list[at] = { ...list[at], ...entry })); // draw only what changed
    }
    if (this.hasNewest === false || !this.isAtTop()) this.held.unshift(entry);
    else this.entries = this.inOrder([{ ...entry, isNew: true }, ...this.entries]);
    if (this.entries.length > MOST) this.startAfresh();
  }

  answered(questionId) {
    const at = this.entries.findIndex((entry) => entry.message_id === questionId), asked = this.entries[at];
    if (asked) this.entries[at] = { ...asked, question: { status: "pending", ...asked.question, answers: Math.max(1, asked.question?.answers ?? 0) } };
  }

  /** Read the latest page again, and drop the rest: the reader is at the top. */
  startAfresh() {
    Object.assign(this, { entries: [], held: [], hasNewest: true });
    return this.load();
  }

  inOrder(entries) {
    return entries.length > 1 && entries[0].created_at < entries[1].created_at
      ? entries.sort((one, other) => (one.created_at < other.created_at ? 1 : one.created_at > other.created_at ? -1 : 0)) : entries;
  }

  async older() {
    if (!this.hasOlder || this.isReading) return;
    this.isReading = true;
    try {
      const page = await this.read({ before: this.start });
      const known = new Set(this.entries.map((entry) => entry.key));
      this.entries.push(...page.entries.reverse().filter((entry) => !known.has(entry.key)));
      Object.assign(this, { start: page.start, hasOlder: page.has_older });
      if (this.entries.length > MOST) {
        this.entries.splice(0, this.entries.length - MOST);
        this.hasNewest = false;
      }
    } finally {
      this.isReading = false;
    }
    this.shell.update();
  }

  isAtTop() {
    const list = document.getElementById(this.id);
    return !list || list.getBoundingClientRect().top > 0;
  }

  /** Back to the newest rows. */
  async newest() {
    await this.startAfresh();
    document.getElementById(this.id)?.scrollIntoView({ block: "start" });
  }

  async choose(filter, bead = null) {
    Object.assign(this, { filter, bead });
    await this.startAfresh().catch((error) => this.shell.say(error.message, true));
  }

  /** Move the focus by one row. */
  step(by) {
    const rows = [...document.querySelectorAll(`#${this.id} > li`)], at = rows.indexOf(document.activeElement.closest("li"));
    rows[Math.max(0, Math.min(rows.length - 1, at + by))]?.focus();
  }

  view() {
    const shown = this.entries.filter(FILTERS[this.filter]);
    return html`
      ${this.id === "timeline" ? html`<div class="filters" role="group" aria-label="Show">${Object.keys(FILTERS).map((name) =>
        html`<button class="button quiet" aria-pressed=${this.filter === name && !this.bead} @click=${() => this.choose(name)}>${name}</button>`)}${this.beads.map((bead) =>
        html`<button class="button quiet" aria-pressed=${this.bead === bead} @click=${() => this.choose("All", bead)}>${visible(bead)}</button>`)}</div>` : nothing}
      ${this.fresh()}
      <ol class="timeline" id=${this.id}>${repeat(shown, (entry) => entry.key, (entry) =>
        html`<li tabindex="-1" class=${entry.isNew ? "new" : ""} data-type=${typeOf(entry)}>${kept([entry, this.shell.me], () => entryRow(entry, this.context()))}</li>`)}</ol>
      ${shown.length || this.hasOlder ? nothing : html`<p class="empty">Nothing yet.</p>`}
      ${this.hasOlder ? html`<div class="more-rows">${this.sentinel()}</div>` : nothing}`;
  }

  fresh() {
    const fresh = this.held.filter(FILTERS[this.filter]).length;
    if (!fresh && this.hasNewest !== false) return nothing;
    return html`<button class="button primary fresh" @click=${() => this.newest()}>${fresh ? `${fresh} new` : "Back to the newest"}</button>`;
  }

  sentinel() {
    requestAnimationFrame(() => {
      const button = document.querySelector(`#${this.id}-older`);
      if (button) { this.observer.disconnect(); this.observer.observe(button); }
    });
    return html`<button id=${`${this.id}-older`} class="button quiet" @click=${() => this.older()}>Show older</button>`;
  }
}
