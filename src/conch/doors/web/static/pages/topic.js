// One topic: its messages with their threads, who reads it, and a box to write.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { repeat } from "../vendor/lit-html/directives/repeat.js";
import { get, path } from "../api.js";
import { named } from "../agents.js";
import { question } from "../dialog.js";
import { sayBox } from "../parts/forms.js";
import { threadView, threads } from "../parts/messages.js";
import { Refresh } from "../parts/refresh.js";
import { roomAddress } from "../router.js";
import { visible } from "../text.js";

const PAGE = 50, MOST = 400;

export class TopicPage {
  constructor(shell, route) {
    Object.assign(this, { shell, id: route.id, at: Number(route.query.get("at")) || null, topic: null, messages: [] });
    this.refresh = new Refresh(() => this.load());
    this.keys = { m: { text: "write a message", run: () => document.querySelector(".say textarea")?.focus() }, a: { text: "answer the first open question", run: () => document.querySelector("[data-answer]")?.focus() } };
  }

  get title() { return this.topic ? visible(this.topic.name) : "Topic"; }
  get address() { return path`/api/topics/${this.id}/messages`; }

  async load() {
    const isFirst = !this.topic;
    const [about, page] = await Promise.all([get(path`/api/topics/${this.id}`), this.latest()]);
    Object.assign(this, { topic: about.topic, peers: about.peers, questions: about.questions });
    this.put(page);
    const last = this.messages.at(-1)?.seq;
    if (page.has_newer && page.messages.at(-1).seq < last) this.put(await get(this.address, { after: last, limit: PAGE })); // long messages: the page ended early
    this.shell.update();
    if (isFirst) requestAnimationFrame(() => requestAnimationFrame(() => this.reveal()));
  }

  /** First the page around the message that the address names, or the newest page. Later, what follows the messages shown. */
  latest() {
    const last = this.messages.at(-1);
    if (!last) return get(this.address, this.at ? { after: Math.max(0, this.at - PAGE / 2), limit: PAGE } : { limit: PAGE });
    // Read the last page again too: a question in it may have been answered. A reader of older ones stays there.
    return get(this.address, { after: Math.max(0, last.seq - PAGE), limit: this.hasNewer ? PAGE : 2 * PAGE });
  }

  put(page) {
    const bySeq = new Map([...this.messages, ...page.messages].map((message) => [message.seq, message]));
    const isOlder = page.messages[0]?.seq <= (this.messages[0]?.seq ?? Infinity);
    this.messages = [...bySeq.values()].sort((one, other) => one.seq - other.seq);
    if (isOlder) this.hasOlder = page.has_older;
    if (this.messages.at(-1) === bySeq.get(page.messages.at(-1)?.seq)) this.hasNewer = page.has_newer;
  }

  reveal() {
    const shown = document.getElementById(`message-${this.at}`) ?? document.querySelector(".say");
    shown?.scrollIntoView({ block: this.at ? "center" : "end" });
  }

  async older() {
    const first = document.querySelector(".talk .message"), before = first?.getBoundingClientRect().top;
    this.put(await get(this.address, { before: this.messages[0].seq, limit: PAGE }));
    if (this.messages.length > MOST) Object.assign(this, { messages: this.messages.slice(0, MOST), hasNewer: true });
    this.shell.update();
    requestAnimationFrame(() => first?.isConnected && scrollBy(0, first.getBoundingClientRect().top - before));
  }

  async newer() {
    this.put(await get(this.address, { after: this.messages.at(-1).seq, limit: PAGE }));
    this.shell.update();
  }

  happened(entry) { if (entry.topic_id === this.id && entry.message_type === "redaction") this.reread(); }
  changed() { this.refresh.soon(); }

  view() {
    if (!this.topic) return html`<h1 tabindex="-1" class="soft">Topic</h1>`;
    const topic = this.topic, isClosed = topic.status === "closed";
    const context = { me: this.shell.me, shell: this.shell, isClosed };
    return html`<div class="head"><h1 tabindex="-1">${visible(topic.name)}</h1>${topic.shown_path ? html`<span class="path">${visible(topic.shown_path)}</span>` : nothing}
        ${topic.room_id ? html`<a class="pill" href=${roomAddress(topic.room_id)}>room</a>` : nothing} ${isClosed ? html`<span class="pill">closed</span>` : nothing}
        <span class="grow"></span>
        <a class="button" download href=${`${path`/api/topics/${this.id}/export`}?format=markdown`}>Export</a>
        <a class="button quiet" download href=${`${path`/api/topics/${this.id}/export`}?format=jsonl`}>as JSON lines</a>
        ${topic.room_id ? nothing : html`<button class="button quiet" @click=${() => this.rename()}>Rename…</button>`}
        ${isClosed || topic.room_id ? nothing : html`<button class="button quiet" @click=${() => this.close_topic()}>Close…</button>`}</div>
      <div class="columns"><section class="card"><h2>Messages</h2>
        ${this.hasOlder ? html`<div class="more-rows"><button class="button quiet" @click=${() => this.older()}>Show older</button></div>` : nothing}
        <div class="talk">${repeat(threads(this.messages), (each) => each.message.message_id, (each) => threadView(each, context, this.at, (message) => this.tools(message, isClosed)))}</div>
        ${this.messages.length ? nothing : html`<p class="empty">Nobody has said anything yet.</p>`}
        ${this.hasNewer ? html`<div class="more-rows"><button class="button quiet" @click=${() => this.newer()}>Show newer</button></div>` : nothing}
        ${isClosed ? nothing : sayBox({ topic_id: this.id }, context, "Say something on this topic…")}</section>
        <section class="card"><h2>Who reads it</h2>${this.readers()}</section></div>`;
  }

  tools(message, isClosed) {
    return html`<span class="tools">${isClosed ? nothing : html`<button class="button quiet" aria-label="Reply to #${message.seq}" @click=${() => this.reply(message)}>Reply</button>`}
      ${message.metadata?.redacted_by ? nothing : html`<button class="button quiet" aria-label="Redact #${message.seq}" @click=${() => this.redact(message)}>Redact…</button>`}</span>`;
  }

  /** Remove a pasted secret from the store. */
  async redact(message) {
    const values = await question({
      title: `Redact #${message.seq}?`, text: "Its text is removed from the store for good, and so is everything that repeats it. Agents that have read it still know it: change the secret.",
      fields: [{ name: "reason", label: "Reason", hint: "It is shown instead of the text." },
        { name: "secret", label: "The secret itself", kind: "secret", optional: true, hint: "It is removed from every text." }], yes: "Redact", danger: true,
    });
    if (!values) return;
    const done = await this.shell.act("redact", { message_id: message.message_id, ...values, confirm: true }, "Redacted.");
    if (done?.copies?.length || done?.kept?.length || done?.is_clean === false) this.shell.say(`Redacted here. The text may still be in: ${[...done.kept, ...(done.is_clean ? [] : ["the file beside the store (-wal); redact it again later"]), ...done.copies].join(", ")}`);
    if (done) this.reread();
  }

  /** Show nothing that was read before. */
  reread() {
    this.messages = [];
    return this.load();
  }

  async rename() {
    const values = await question({ title: "Rename this topic", fields: [{ name: "name", label: "Name", value: this.topic.name }], yes: "Rename" });
    if (values) this.shell.act("rename_topic", { topic_id: this.id, ...values }, "Renamed.");
  }

  async reply(message) {
    const values = await question({ title: `Reply to #${message.seq}`, fields: [{ name: "content_markdown", label: "Message", kind: "long" }], yes: "Send" });
    if (values) this.shell.act("send", { topic_id: this.id, reply_to: message.message_id, ...values }, "Sent.");
  }

  readers() {
    if (!this.peers?.length) return html`<p class="empty">Nobody yet.</p>`;
    return html`<ul class="list">${this.peers.map((peer) => html`<li class="row">${named(peer)}<span class="grow"></span>
      ${peer.last_seen_at ? html`<small>seen <time-span since=${peer.last_seen_at}></time-span> ago</small>` : nothing}
      ${this.topic.room_id ? nothing : html`<button class="button quiet" @click=${() => this.free(peer)}>Free the name…</button>`}</li>`)}</ul>`;
  }

  async free(peer) {
    const values = await question({ title: `Free the name ${peer.name}?`, text: "Another agent may then take it. The agent that has it now keeps its messages.", yes: "Free it", danger: true });
    if (values) this.shell.act("free_name", { topic_id: this.id, name: peer.name, confirm: true }, "The name is free.");
  }

  async close_topic() {
    const values = await question({ title: "Close this topic?", text: "Nobody can write to it any more. Its messages stay.", fields: [{ name: "reason", label: "Reason", optional: true }], yes: "Close the topic", danger: true });
    if (values) this.shell.act("close_topic", { topic_id: this.id, ...(values.reason ? { reason: values.reason } : {}), confirm: true }, "The topic is closed.");
  }
}
