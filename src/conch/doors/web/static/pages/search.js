// Search as you type. What matched is marked.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { get } from "../api.js";
import { named } from "../agents.js";
import { Refresh } from "../parts/refresh.js";
import { topicAddress } from "../router.js";
import { count, visible } from "../text.js";
import { clock, exact } from "../time.js";

const PAUSE = 120; // milliseconds after the last key

export class SearchPage {
  title = "Search";

  constructor(shell, route) {
    Object.assign(this, { shell, words: route.query.get("q") ?? "", mode: route.query.get("mode") ?? "fts", reply: null, abort: new AbortController() });
    this.refresh = new Refresh(() => this.load());
  }

  close() {
    clearTimeout(this.timer);
    this.abort.abort();
  }

  happened(entry) { if (entry.kind === "message") this.refresh.soon(); } // it may match, or redact what is shown

  async load() {
    if (!this.words.trim()) return;
    await new Promise((resolve) => { this.timer = setTimeout(resolve, PAUSE); });
    this.reply = await get("/api/search", { q: this.words, mode: this.mode, limit: 50 }, this.abort.signal);
    SearchPage.latest = this.reply;
    this.shell.update();
  }

  /** While the next results are on the way, the former ones stay, so that nothing jumps. */
  view() {
    const reply = this.reply ?? (this.words.trim() ? SearchPage.latest : null);
    return html`<div class="head"><h1 tabindex="-1">Search</h1>${this.words.trim() && this.reply ? html`<small role="status">${count(this.reply.hits.length, "message")} for “${visible(this.words)}”</small>` : nothing}</div>
      ${reply?.warnings?.map((warning) => html`<p class="soft">${visible(warning.message ?? warning)}</p>`) ?? nothing}
      ${!reply ? html`<p class="soft">Type in the field above. Quotes search for a phrase. Enter also finds messages of similar meaning.</p>`
        : reply.hits.length ? html`<div class="card"><ul class="list">${reply.hits.map(hit)}</ul></div>` : html`<p class="soft">Nothing was found.${this.mode === "fts" ? " Enter also looks for similar meanings." : ""}</p>`}`;
  }
}

/** A message that was found. */
export function hit(message) {
  return html`<li><div class="row">${named({ agent_id: message.agent_id, label: message.sender })} <small>in</small> <a href=${topicAddress(message.topic_id, message.seq)}>${visible(message.topic_name)} #${message.seq}</a>
    <span class="grow"></span><small><time datetime=${message.created_at} title=${exact(message.created_at)}>${clock(message.created_at)}</time></small></div>
    <p>${message.snippet.map((part) => (part.hit ? html`<mark>${visible(part.text)}</mark>` : visible(part.text)))}</p></li>`;
}
