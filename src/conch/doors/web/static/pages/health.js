// Whether everything works: the store, the bell, the processes, and calls that took long.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { get } from "../api.js";
import { named } from "../agents.js";
import { Refresh } from "../parts/refresh.js";
import { visible } from "../text.js";

const BELLS = { FileBell: "files that the system watches", PostgresBell: "notifications of PostgreSQL" };
const PAUSE = 5_000; // between two readings of what no event announces: slow calls, and pages that are open

export class HealthPage {
  title = "Health";

  constructor(shell) {
    Object.assign(this, { shell, health: null });
    this.refresh = new Refresh(() => this.load());
    this.timer = setInterval(() => this.load().catch(() => {}), PAUSE);
  }

  close() { clearInterval(this.timer); }
  changed() { this.refresh.soon(); }

  async load() {
    this.health = await get("/api/health");
    this.shell.update();
  }

  view() {
    const health = this.health;
    if (!health) return html`<h1 tabindex="-1">Health</h1>`;
    return html`<div class="head"><h1 tabindex="-1">Health</h1></div>
      ${health.trouble ? html`<div class="alert" role="alert"><b>The store does not answer.</b><span>${visible(health.trouble)}</span></div>` : nothing}
      <section class="card"><h2>Store</h2><dl class="facts">
        ${row("Store", html`<code>${visible(health.store)}</code>`)} ${row("Engine", visible(health.engine))} ${row("Schema", health.schema)}
        ${row("Size", size(health.size_bytes))} ${row("Bell", bell(health.bell))}</dl></section>
      <section class="card"><h2>This server</h2><dl class="facts">
        ${row("conch", visible(health.version))} ${row("Python", visible(health.python))} ${row("Running for", html`<time-span since=${health.started_at}></time-span>`)}
        ${row("Open pages", health.streams)}</dl></section>
      <section class="card"><h2>Processes</h2>${processes(health.processes ?? [])}</section>
      <section class="card"><h2>Slow calls</h2>${slow(health.slow ?? [])}</section>`;
  }
}

const row = (name, value) => (value === undefined || value === null ? nothing : html`<dt>${name}</dt><dd class="number">${value}</dd>`);

function bell(given) {
  if (!given) return null;
  return html`${BELLS[given.kind] ?? visible(given.kind)} ${given.is_reliable ? nothing : html`<span class="pill warn">looks again at intervals</span>`}`;
}

function size(bytes) {
  if (bytes === undefined || bytes === null) return null;
  return bytes < 1_000_000 ? `${Math.ceil(bytes / 1000)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

function processes(found) {
  if (!found.length) return html`<p class="empty">No agent is known.</p>`;
  return html`<div class="scroll-x" tabindex="0" role="group" aria-label="Processes"><table><thead><tr><th>Agent</th><th>State</th><th>Process</th><th>Last seen</th><th>Rooms</th></tr></thead>
    <tbody>${found.map((each) => html`<tr><td>${named(each)}</td><td><span class="pill ${tone(each)}">${each.life === "gone" ? "gone" : each.liveness}</span></td>
      <td class="number">${each.pid ?? "unknown"}</td><td><time-span since=${each.last_seen_at}></time-span> ago</td><td class="number">${each.rooms}</td></tr>`)}</tbody></table></div>`;
}

const tone = (each) => (each.life === "gone" || each.liveness === "evicted" ? "bad" : each.liveness === "stale" ? "warn" : "hold");

function slow(calls) {
  if (!calls.length) return html`<p class="empty">None.</p>`;
  return html`<table><thead><tr><th>Call</th><th>Took</th><th>When</th></tr></thead><tbody>${calls.map((each) =>
    html`<tr><td><code>${visible(each.what)}</code></td><td class="number">${Math.round(each.milliseconds)} ms</td><td><time-span since=${each.at}></time-span> ago</td></tr>`)}</tbody></table>`;
}
