// What each member does and what is wrong, in the words of `conch status`.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { colour, label, named } from "../agents.js";
import { line } from "../markdown.js";
import { brief, count, visible } from "../text.js";
import { clock } from "../time.js";

const PILLS = { holding: ["has the stick", "hold"], next: ["next", "hold"], waiting: ["waiting", ""], here: ["here", ""], watching: ["watching", ""], gone: ["gone", "bad"] };

/** One member in a sentence. `menu` is what can be done about it. */
export function memberRow(member, room, menu = nothing) {
  const asked = room.questions.filter((each) => each.agent_id === member.agent_id && !each.answers);
  const [text, tone] = pill(member, room, asked);
  return html`<li class=${colour(member.agent_id)}><i class="dot ${member.doing} ${member.liveness}" aria-hidden="true"></i>${named(member)}
    <small>${doing(member, asked)}</small><span class="pill ${tone}">${text}</span>${menu}</li>`;
}

export function pill(member, room, asked) {
  if (asked.length && member.doing !== "gone") return ["needs an answer", "ask"];
  if (member.doing === "waiting" && room.next === member.agent_id) return ["next", ""];
  if (member.doing === "here" && member.liveness !== "active") return [member.liveness, member.liveness === "stale" ? "warn" : "bad"];
  return PILLS[member.doing] ?? [member.doing, ""];
}

function doing(member, asked) {
  const lasted = html`<time-span since=${member.since}></time-span>`;
  if (member.doing === "gone") return html`gone${member.is_last_seen ? html`, last seen ${lasted} ago` : html` for ${lasted}`}${left(member.left)}`;
  if (asked.length) return html`asked <time-span since=${asked[0].asked_at}></time-span> ago: “${line(asked[0].question_text, 90)}”`;
  if (member.doing === "holding") return html`for ${lasted}${member.work ? html`: ${line(member.work)}` : nothing}`;
  if (member.doing === "next") return html`has not claimed the stick for ${lasted}`;
  if (member.doing === "waiting") return html`waiting for ${lasted}`;
  return html`last seen ${lasted} ago${member.unread ? `, ${member.unread} unread from you` : ""}`;
}

function left(work) {
  if (!work) return nothing;
  return work.uncommitted_files ? `, left ${count(work.uncommitted_files, "uncommitted file")}` : `, left work: ${brief(work.evidence, 90)}`;
}

/** What is wrong, with the next action on it. */
export function alerts(room, actions) {
  return room.troubles.map((trouble) => html`<div class="alert" role="alert"><b>${TITLES[trouble.code]}</b>
    <span>${visible(trouble.sentence)} <small>${trouble.is_last_seen ? html`last seen <time-span since=${trouble.since}></time-span> ago` : html`for <time-span since=${trouble.since}></time-span>`}</small></span>${actions?.(trouble) ?? nothing}</div>`);
}

/** Agents that are gone and left work or reservations behind. The holder of the stick has an alert of its own. */
export function losses(room, actions) {
  return room.members.filter((member) => member.doing === "gone" && member.agent_id !== (room.owner ?? room.reserved_for)).map((member) => {
    const held = room.reservations.filter((each) => each.agent_id === member.agent_id);
    if (!member.left && !held.length) return nothing;
    return html`<div class="alert" role="alert"><b>${label(member)} is gone.</b><span>It ${leftWork(member.left)}${member.left && held.length ? " and " : ""}${reserved(held)}.</span>
      <span class="row acts">${actions(member, held)}</span></div>`;
  });
}

function leftWork(work) {
  if (!work) return "";
  return work.uncommitted_files ? html`left <span title=${visible(work.evidence)}>${count(work.uncommitted_files, "uncommitted file")}</span>` : `left work behind: ${brief(work.evidence, 90).replace(/\.$/, "")}`;
}

function reserved(held) {
  if (!held.length) return "";
  const [first] = held, rest = held.length > 1 ? ` and ${count(held.length - 1, "more path")}` : "";
  return html`reserved <code>${visible(first.spelled ?? first.scope)}</code>${rest} until ${clock(first.expires_at)}`;
}

const TITLES = { takeover: "The stick is stuck.", unanswered: "A question waits.", unaccepted: "A notice waits." };
