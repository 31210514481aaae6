// The shell of the console: the head, the page, the panel, and the stream that keeps them current.

import { html, nothing, render } from "./vendor/lit-html/lit-html.js";
import { get, post } from "./api.js";
import { Keys } from "./keys.js";
import { question } from "./dialog.js";
import { HealthPage } from "./pages/health.js";
import { ItemPanel } from "./pages/item.js";
import { ItemsPage } from "./pages/items.js";
import { RoomPage } from "./pages/room.js";
import { RoomsPage } from "./pages/rooms.js";
import { SearchPage } from "./pages/search.js";
import { TopicPage } from "./pages/topic.js";
import { TopicsPage } from "./pages/topics.js";
import { TurnPanel } from "./pages/turn.js";
import { Router, withQuery } from "./router.js";
import { Stream } from "./stream.js";

const NAVIGATION = [["rooms", "/", "Rooms"], ["items", "/items", "Work items"], ["topics", "/topics", "Topics"], ["health", "/health", "Health"]];
const PAGES = { rooms: [RoomsPage, RoomPage], items: [ItemsPage], topics: [TopicsPage, TopicPage], search: [SearchPage], health: [HealthPage] };
const TOAST = 6000;

class Shell {
  constructor() {
    this.isLive = true;
    this.me = null;
    this.page = this.panel = this.route = null;
    this.toast = nothing;
    this.router = new Router((route) => this.went(route));
    this.keys = new Keys(this);
    this.router.went();
    this.stream = new Stream({ happened: (entry) => this.happened(entry), changed: () => this.changed(), stated: (isLive) => this.stated(isLive), opened: () => this.reload(), replaced: () => this.startAfresh() });
    document.addEventListener("lapsed", () => this.changed());
    get("/api/me").then((reply) => { this.me = reply.me; this.update(); }, () => {});
  }

  // -- addresses

  go(address, replace) { this.router.go(address, replace); }

  went(route) {
    const isSame = route.key === this.route?.key;
    this.route = route;
    if (!isSame) this.open(route);
    this.openPanel(route);
    this.update();
  }

  open(route) {
    this.page?.close?.();
    const kinds = PAGES[route.name] ?? [];
    const Kind = route.id ? kinds[1] : kinds[0];
    this.page = Kind ? new Kind(this, route) : null;
    this.load(this.page);
    scrollTo(0, 0);
    if (document.activeElement?.id !== "search") requestAnimationFrame(() => document.querySelector("main h1")?.focus({ preventScroll: true }));
  }

  openPanel(route) {
    const room = route.query.get("in") || route.id, item = route.query.get("item"), turn = route.query.get("turn");
    const key = item || turn ? JSON.stringify([room, item, turn]) : "";
    if (key === (this.panelKey ?? "")) return;
    const hadPanel = Boolean(this.panel);
    this.panelKey = key;
    this.panel = !key ? null : item ? new ItemPanel(this, room, item) : new TurnPanel(this, room, turn);
    if (!this.panel) return this.focusBack();
    if (!hadPanel) this.opener = document.activeElement;
    this.load(this.panel);
    requestAnimationFrame(() => document.querySelector(".panel h1")?.focus());
  }

  closePanel() { this.go(withQuery({ item: null, turn: null, in: null })); }

  focusBack() {
    if (this.opener?.isConnected) this.opener.focus();
    this.opener = null;
  }

  // -- data

  /** Let a part of the page read what it shows. An error is shown in its place, unless it already shows something. */
  async load(part) {
    if (!part) return;
    try {
      await part.load();
      part.error = null;
      part.isRead = true;
    } catch (error) {
      if (error.name !== "AbortError" && !part.isRead) part.error = error;
    }
    this.update();
  }

  /** A new entry, to be drawn at once. */
  happened(entry) {
    for (const part of [this.page, this.panel]) part?.happened?.(entry);
  }

  /** Anything may have changed. */
  changed() {
    for (const part of [this.page, this.panel]) part?.changed?.();
  }

  stated(isLive) {
    if (isLive !== this.isLive) this.update();
    this.isLive = isLive;
  }

  /** Read everything again. */
  reload() {
    this.load(this.page);
    this.load(this.panel);
  }

  /** Forget what was read: the server has another store. */
  startAfresh() {
    this.open(this.route);
    this.panelKey = "";
    this.openPanel(this.route);
    this.update();
  }

  /** Do something as the person at this page. Returns the reply, or null: a refusal is shown in the server's words. */
  async act(name, body, done = "") {
    try {
      const reply = await post(`/api/act/${name}`, body);
      this.say(done);
      return reply;
    } catch (error) {
      if (error.code === "CONFIRM" && (await question({ title: "Are you sure?", text: error.message, yes: "Yes", danger: true })))
        return this.act(name, { ...body, confirm: true }, done);
      if (error.code !== "CONFIRM") this.say(error.message, true);
      return null;
    }
  }

  say(text, isRefusal = false) {
    clearTimeout(this.toastTimer);
    this.toast = text ? html`<span class="toast ${isRefusal ? "refused" : ""}">${text}</span>` : nothing;
    this.toastTimer = setTimeout(() => this.say(""), TOAST);
    this.update();
  }

  // -- drawing

  update() {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      render(this.view(), document.querySelector("#console"));
      document.title = this.page?.title ? `${this.page.title} · conch` : "conch";
    });
  }

  view() {
    return html`
      <a class="skip" href="#main">Skip to the page</a>
      ${this.head()}
      ${this.isLive ? nothing : html`<div class="lost-banner" role="alert">The connection to <code>conch serve</code> is lost. Trying again; what you see may be old.</div>`}
      <main id="main" tabindex="-1">${this.part(this.page)}</main>
      ${this.panel ? html`<aside class="panel" aria-label="Details">${this.part(this.panel)}</aside>` : nothing}
      <div role="status" aria-live="polite">${this.toast}</div>`;
  }

  head() {
    return html`<header class="top">
      <a class="brand" href="/" aria-label="conch, rooms">con<i>ch</i></a>
      <nav aria-label="Main">${NAVIGATION.map(([name, address, text]) =>
        html`<a href=${address} aria-current=${this.route.name === name ? "page" : nothing}>${text}</a>`)}</nav>
      <form class="search" role="search" @submit=${(event) => { event.preventDefault(); this.search(event.target.elements.search.value, "hybrid"); }}>
        <input type="search" id="search" aria-label="Search messages" placeholder="Search messages" autocomplete="off"
          .value=${this.route.name === "search" ? this.route.query.get("q") ?? "" : ""} @input=${(event) => this.search(event.target.value)}>
        <kbd aria-hidden="true">/</kbd></form>
      <span class="live ${this.isLive ? "" : "lost"}" role="status" title=${this.isLive ? "Changes appear at once" : "Not connected"}><span>${this.isLive ? "live" : "not connected"}</span></span>
    </header>`;
  }

  part(part) {
    if (!part) return html`<h1 tabindex="-1">There is no such page</h1><p><a href="/">Go to the rooms</a></p>`;
    if (part.error) return failure(part.error, () => this.load(part));
    return part.view();
  }

  /** While the person types, by words only: that is quick. */
  search(words, mode) {
    const address = `/search?${new URLSearchParams({ q: words, ...(mode ? { mode } : {}) })}`;
    this.go(address, this.route.name === "search");
  }
}

const failure = (error, again) => html`
  <h1 tabindex="-1">${error.status === 401 ? "This browser has no access" : error.status === 404 ? "Not found" : "This did not work"}</h1>
  <p>${error.status === 401 ? html`Open the address that <code>conch serve</code> prints.` : error.message}</p>
  <button class="button" @click=${again}>Try again</button>`;

new Shell();
