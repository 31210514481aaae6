// All topics, the latest talk first.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { get } from "../api.js";
import { question } from "../dialog.js";
import { Refresh } from "../parts/refresh.js";
import { roomAddress, topicAddress } from "../router.js";
import { visible } from "../text.js";

const PAGE = 100;

export class TopicsPage {
  title = "Topics";

  constructor(shell, route) {
    Object.assign(this, { shell, topics: null, status: route.query.get("status") ?? "open" });
    this.refresh = new Refresh(() => this.load());
  }

  /** As many pages as are shown. */
  async load() {
    const topics = [];
    let reply = null;
    do {
      reply = await get("/api/topics", { status: this.status, limit: PAGE, after: reply?.cursor });
      topics.push(...reply.topics);
    } while (reply.has_more && topics.length < (this.topics?.length ?? 0));
    this.show(topics, reply);
  }

  async more() {
    const reply = await get("/api/topics", { status: this.status, limit: PAGE, after: this.cursor });
    this.show([...this.topics, ...reply.topics], reply);
  }

  show(topics, reply) {
    this.topics = topics;
    this.cursor = reply.has_more ? reply.cursor : null;
    this.shell.update();
  }

  async create() {
    const values = await question({ title: "New topic", text: "Every room already has its own topic. This one belongs to no room.", fields: [{ name: "name", label: "Name" }], yes: "Create" });
    if (values) this.shell.act("create_topic", values, "Created.");
  }

  changed() { this.refresh.soon(); }

  view() {
    return html`<div class="head"><h1 tabindex="-1">Topics</h1><span class="grow"></span>
        <div class="filters" role="group" aria-label="Show">${["open", "closed", "all"].map((status) =>
          html`<a class="button quiet" href="/topics?status=${status}" aria-current=${this.status === status ? "true" : nothing}>${status}</a>`)}</div>
        <button class="button" @click=${() => this.create()}>New topic…</button></div>
      ${this.topics === null ? nothing : this.topics.length ? html`<div class="card"><ul class="list">${this.topics.map(topicRow)}</ul></div>`
        : html`<div class="card"><p class="empty">There are no topics here. Every room has its own topic.</p></div>`}
      ${this.cursor ? html`<div class="more-rows"><button class="button" @click=${() => this.more()}>Show more</button></div>` : nothing}`;
  }
}

function topicRow(topic) {
  return html`<li><div class="row"><h2 class="title"><a href=${topicAddress(topic.topic_id)}>${visible(topic.name)}</a></h2>${topic.shown_path ? html`<span class="path soft">${visible(topic.shown_path)}</span>` : nothing}
    ${topic.room_id ? html`<a class="pill" href=${roomAddress(topic.room_id)}>room</a>` : nothing}
    ${topic.status === "closed" ? html`<span class="pill">closed</span>` : nothing}
    <span class="grow"></span><small>${topic.last_seq ? html`last message #${topic.last_seq}, <time-span since=${topic.last_at}></time-span> ago` : "no messages"}</small></div></li>`;
}
