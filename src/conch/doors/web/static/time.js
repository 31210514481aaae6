// Times for people. Durations use the units of `conch status` and move by themselves.

import { now } from "./api.js";

const MINUTE = 60, HOUR = 3600, DAY = 86400;
// Creating a format takes longer than drawing a row, so each is created once.
const HOURS = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAYS = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const EXACT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });

/** A duration in one or two units. */
export function span(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < MINUTE) return `${seconds} s`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min`;
  if (seconds >= 2 * DAY) return `${Math.floor(seconds / DAY)} days`;
  return `${Math.floor(seconds / HOUR)} h ${String(Math.floor((seconds % HOUR) / MINUTE)).padStart(2, "0")} min`;
}

const UNITS = { h: 3_600_000, m: 60_000, s: 1_000 };

/** A length of time as the command line takes it: 4h, 45m, 0.25s. */
export function length(milliseconds) {
  const unit = Object.keys(UNITS).find((each) => milliseconds % UNITS[each] === 0) ?? "s";
  return `${milliseconds / UNITS[unit]}${unit}`;
}

/** The milliseconds of such a text; null if it is empty. Any other text stays as it is, and the server says what is wrong. */
export function milliseconds(text) {
  const [, number, unit] = /^\s*(\d+(?:\.\d+)?)\s*([hms])\s*$/.exec(text) ?? [];
  return unit ? Math.round(number * UNITS[unit]) : text.trim() || null;
}

/** The time of day, with the date if it is not today. */
export function clock(moment) {
  const time = new Date(moment), today = new Date(now());
  if (time.toDateString() === today.toDateString()) return HOURS.format(time);
  return `${DAYS.format(time)} ${HOURS.format(time)}`;
}

/** The moment in full, for a tooltip. */
export const exact = (moment) => EXACT.format(new Date(moment));

const GRACE = 250; // milliseconds until the server's clock has surely got there too
const shown = new Set();

/** `<time-span since=…>` or `<time-span until=…>`: a duration that is right every second. */
class TimeSpan extends HTMLElement {
  static observedAttributes = ["since", "until"];
  connectedCallback() { shown.add(this); this.refresh(); }
  disconnectedCallback() { shown.delete(this); }
  attributeChangedCallback() { this.hasLapsed = false; this.refresh(); }
  refresh() {
    const since = this.getAttribute("since"), until = this.getAttribute("until");
    const text = since ? span(now() - Date.parse(since)) : span(Date.parse(until) - now());
    if (this.textContent !== text) this.textContent = text;
    if (until && !this.hasLapsed && Date.parse(until) < now() - GRACE) {
      this.hasLapsed = true;
      document.dispatchEvent(new Event("lapsed")); // no bell rings when time is up
    }
  }
}

customElements.define("time-span", TimeSpan);
setInterval(() => shown.forEach((each) => each.refresh()), 1000);
