// The lane chart: who held the stick when. Arrows are handoffs, dashed arrows takeovers, and a cross a process that died.

import { html, nothing, svg } from "../vendor/lit-html/lit-html.js";
import { get, now, path } from "../api.js";
import { colour, label } from "../agents.js";
import { kept } from "../kept.js";
import { withQuery } from "../router.js";
import { clock, span } from "../time.js";

const PRESENT = 5_000; // milliseconds after which the present has moved on
const TOP = 8, LANE = 38, BAR = 20, FOOT = 26, TURNS = 14, SHORTEST = 1_000, NARROWEST = 280, NARROW = 560;
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].map((seconds) => seconds * 1000);

export class Lanes {
  constructor(shell, roomId) {
    Object.assign(this, { shell, roomId, turns: [], range: null, drag: null, width: 860 });
    this.timer = setInterval(() => shell.update(), PRESENT);
    this.resized = new ResizeObserver(([{ contentRect }]) => this.fit(contentRect.width));
  }

  close() {
    clearInterval(this.timer);
    this.resized.disconnect();
  }

  fit(width) {
    const wide = Math.max(NARROWEST, Math.round(width));
    if (wide !== this.width) Object.assign(this, { width: wide }) && this.shell.update();
  }

  get isNarrow() { return this.width < NARROW; }
  /** Where the bars begin, right of the labels. */
  get left() { return this.isNarrow ? 68 : 132; }

  /** The turns of the chosen time, or the latest. */
  async load() {
    const iso = (moment) => new Date(moment).toISOString();
    const chosen = this.range ? { from: iso(this.range[0]), to: iso(this.range[1]) } : { limit: TURNS };
    const reply = await get(path`/api/rooms/${this.roomId}/turns`, chosen);
    this.turns = reply.turns.map((turn) => ({ ...turn, start: Date.parse(turn.from), end: turn.to ? Date.parse(turn.to) : null }));
    this.first = reply.first_at ? Date.parse(reply.first_at) : now();
    this.hasMore = reply.has_more;
    this.shell.update();
  }

  // -- the chosen time

  shown() {
    if (this.range) return this.range;
    const latest = this.turns[0]?.start ?? now() - 3_600_000, end = now();
    const pad = Math.max(1_000, (end - latest) * 0.03);
    return [latest - pad, end];
  }

  choose(range) {
    this.range = range;
    this.shell.update();
    this.load().catch((error) => this.shell.say(error.message, true));
  }

  zoom(factor) {
    const [from, to] = this.shown(), half = Math.max(SHORTEST, (to - from) * factor) / 2, middle = (from + to) / 2;
    // Zooming in on the present keeps the present in sight.
    const end = !this.range ? to : middle + half;
    this.choose([end - 2 * half, end]);
  }

  move(share) {
    const [from, to] = this.shown(), by = (to - from) * share;
    this.choose([from + by, to + by]);
  }

  pressed(event) {
    const run = { "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), ArrowLeft: () => this.move(-0.3), ArrowRight: () => this.move(0.3), 0: () => this.choose(null) }[event.key];
    if (!run || event.target.closest("button")) return;
    event.preventDefault();
    run();
  }

  // -- dragging chooses a time

  down(event) {
    if (event.button || event.pointerType === "touch" || event.target.closest(".turn")) return;
    this.drag = [this.at(event), this.at(event)];
    event.currentTarget.setPointerCapture(event.pointerId);
  }

  moved(event) {
    if (!this.drag) return;
    this.drag[1] = this.at(event);
    this.shell.update();
  }

  up() {
    if (!this.drag) return;
    const [from, to] = [...this.drag].sort((one, other) => one - other), [start, end] = this.shown();
    this.drag = null;
    if ((to - from) / (end - start) > 0.01) this.choose([from, Math.max(to, from + SHORTEST)]);
    else this.shell.update();
  }

  at(event) {
    const box = event.currentTarget.getBoundingClientRect(), [from, to] = this.shown();
    const share = ((event.clientX - box.left) * (this.width / box.width) - this.left) / (this.width - this.left - 8);
    return from + Math.max(0, Math.min(1, share)) * (to - from);
  }

  // -- drawing

  view() {
    if (!this.turns.length && !this.range) return html`<p class="empty">Nobody has held the stick yet.</p>`;
    this.watch();
    return kept([this.turns, this.range, this.width, this.drag?.[1], Math.floor(now() / PRESENT)], () => this.chart());
  }

  chart() {
    const [from, to] = this.shown();
    const seen = this.turns.filter((turn) => turn.start <= to && (turn.end ?? now()) >= from);
    const lanes = [...new Map(seen.map((turn) => [turn.agent.agent_id, turn.agent])).values()];
    const height = TOP + Math.max(1, lanes.length) * LANE;
    const x = (moment) => this.left + ((Math.max(from, Math.min(to, moment)) - from) / (to - from)) * (this.width - this.left - 8);
    const y = (agentId) => TOP + lanes.findIndex((agent) => agent.agent_id === agentId) * LANE;
    return html`<div class="chart" role="group" aria-label="Who held the stick from ${clock(from)} to ${clock(to)}" tabindex="0" @keydown=${(event) => this.pressed(event)}>
      <svg viewBox="0 0 ${this.width} ${height + FOOT}" height=${height + FOOT} @pointerdown=${(event) => this.down(event)} @pointermove=${(event) => this.moved(event)}
        @pointerup=${() => this.up()} @dblclick=${() => this.zoom(2)}>
        ${this.grid(from, to, x, height)}
        ${lanes.map((agent) => svg`<text class="who" x="0" y=${y(agent.agent_id) + 25}>${this.isNarrow ? short(agent).split("·")[0] : short(agent)}<title>${label(agent)}</title></text>
          <line class="lane" x1=${this.left} x2=${this.width} y1=${y(agent.agent_id) + 20} y2=${y(agent.agent_id) + 20}></line>`)}
        ${seen.map((turn) => this.bar(turn, x, y))}
        ${seen.map((turn, index) => this.arrow(turn, seen[index + 1], x, y))}
        ${to >= now() - 1_000 ? svg`<line class="now" x1=${x(now())} x2=${x(now())} y1="4" y2=${height}></line>` : nothing}
        ${this.drag ? svg`<rect class="chosen" x=${Math.min(...this.drag.map(x))} y="0" width=${Math.abs(x(this.drag[0]) - x(this.drag[1]))} height=${height}></rect>` : nothing}
      </svg></div>
      <small>${seen.length ? "Arrows are handoffs, dashed arrows are takeovers, and ✗ marks a process that died. Drag to zoom. Click a turn to read its handoff." : "Nobody held the stick at that time."}
      ${this.range && this.hasMore ? "There are more turns than fit: zoom in to see them." : ""}</small>`;
  }

  /** The buttons above the chart. */
  controls() {
    if (!this.turns.length && !this.range) return nothing;
    const button = (text, name, run) => html`<button class="button quiet" aria-label=${name} title=${name} @click=${run}>${text}</button>`;
    return html`<span class="zoom">${button("‹", "Earlier", () => this.move(-0.5))}${button("›", "Later", () => this.move(0.5))}
      ${button("−", "Zoom out", () => this.zoom(2))}${button("+", "Zoom in", () => this.zoom(0.5))}
      ${button("All", "All turns", () => this.choose([this.first - 1_000, now()]))}${this.range ? button("Now", "Now and the latest turns", () => this.choose(null)) : nothing}</span>`;
  }

  grid(from, to, x, height) {
    const most = Math.max(1, Math.min(7, Math.floor((this.width - this.left) / 75)));
    const step = STEPS.find((each) => (to - from) / each <= most) ?? 30 * 86_400_000;
    const offset = new Date(from).getTimezoneOffset() * 60_000;
    const first = Math.ceil((from - offset) / step) * step + offset;
    const ticks = Array.from({ length: Math.max(0, Math.floor((to - first) / step) + 1) }, (_, index) => first + index * step);
    return ticks.map((tick) => svg`<line class="grid" x1=${x(tick)} x2=${x(tick)} y1="4" y2=${height}></line>
      <text x=${x(tick)} y=${height + 18} text-anchor="middle">${moment(tick, step)}</text>`);
  }

  bar(turn, x, y) {
    const left = x(turn.start), width = Math.max(3, x(turn.end ?? now()) - left), top = y(turn.agent.agent_id) + 10;
    const text = `${label(turn.agent)}, turn ${turn.turn_id}, ${span((turn.end ?? now()) - turn.start)}: ${outcome(turn)}`;
    const end = turn.end_event_seq ? `-${turn.end_event_seq}` : "";
    const open = () => this.shell.go(withQuery({ turn: `${turn.event_seq}${end}`, in: this.roomId, item: null }));
    const keyed = (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), open());
    return svg`<g class="turn ${colour(turn.agent.agent_id)} ${turn.is_gone ? "lost" : ""}" role="button" tabindex="0" aria-label=${text} @click=${open} @keydown=${keyed}>
      <rect x=${left} y=${top} width=${width} height=${BAR} rx="5"><title>${text}</title></rect>
      ${turn.is_gone ? svg`<path class="died" d="M${left + width - 5} ${top - 2}l10 24m0-24l-10 24"></path>` : nothing}</g>`;
  }

  arrow(turn, next, x, y) {
    if (!next || turn.end === null || next.agent.agent_id === turn.agent.agent_id) return nothing;
    const isTaken = next.started_by === "takeover";
    const x1 = x(turn.end), x2 = x(next.start), y1 = y(turn.agent.agent_id) + 20, y2 = y(next.agent.agent_id) + 20;
    const bend = Math.max(8, (x2 - x1) / 2), kind = isTaken ? "taken" : "";
    return svg`<path class="arrow ${kind}" d="M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend - 4} ${y2} ${x2 - 1} ${y2}"></path>
      <path class="tip ${kind}" d="M${x2 + 1} ${y2}l-6 -3.5v7z"></path>`;
  }

  /** Observe the width of the chart, so that its text keeps its size. */
  watch() {
    requestAnimationFrame(() => {
      const chart = document.querySelector(".chart");
      if (chart && chart !== this.watched) this.resized.disconnect(), this.resized.observe((this.watched = chart));
    });
  }
}

const ENDS = { released: "released", passed: "passed on", taken_over: "taken over", returned: "taken back", kicked: "removed from the room", closed: "the room was closed" };

/** How a turn ended, in words. */
export const outcome = (turn) => {
  const to = turn.handoff_to ? ` to ${label(turn.handoff_to)}` : "";
  return `${turn.is_gone ? "its process ended; " : ""}${turn.end === null && !turn.ended_by ? "has the stick" : (ENDS[turn.ended_by] ?? "ended") + to}`;
};

/** Labels of lanes are short; the tooltip has the rest. */
function short(agent) {
  const text = label(agent);
  return text.length > 20 ? `${text.slice(0, 19)}…` : text;
}

function moment(tick, step) {
  const options = step < 60_000 ? { minute: "2-digit", second: "2-digit", hour: "2-digit" } : step >= 86_400_000 ? { day: "numeric", month: "short" } : { hour: "2-digit", minute: "2-digit" };
  return step >= 86_400_000 ? new Date(tick).toLocaleDateString("en-GB", options) : new Date(tick).toLocaleTimeString("en-GB", options);
}
