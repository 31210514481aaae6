// Stepping in between agents. Each dangerous action asks once, with the reason that the log will show.

import { label } from "../agents.js";
import { get, path } from "../api.js";
import { question } from "../dialog.js";
import { length, milliseconds } from "../time.js";

const REASON = { name: "reason", label: "Reason", hint: "The agents read it, and the log keeps it." };

export class Steering {
  constructor(shell, roomId) {
    Object.assign(this, { shell, roomId });
  }

  async ask(name, given, done, dialog) {
    const values = await question(dialog);
    return values && this.shell.act(name, { room_id: this.roomId, ...given, ...filled(values), confirm: true }, done);
  }

  take(holder) {
    return this.ask("force_take", {}, "You have the stick.", {
      title: "Take the stick?", text: `${holder ? label(holder) : "The next agent"} loses it at once, even in the middle of its work.`,
      fields: [REASON], yes: "Take over", danger: true,
    });
  }

  claim() { return this.shell.act("claim", { room_id: this.roomId }, "You have the stick."); }

  leave() {
    return this.ask("leave", {}, "You are no longer a member.", { title: "Leave the room?", text: "Your reservations end. You can still watch.", yes: "Leave" });
  }

  async reserve() {
    const given = await question({
      title: "Reserve a path", text: "No agent can reserve it until you release it or it expires. But if you do nothing for a while, an agent may take it over.",
      fields: [{ name: "scope", label: "Path in the workspace", hint: "A file, a folder, or folder/*" },
        { name: "ttl_minutes", label: "For", kind: "choice", value: "120", choices: [["30", "30 minutes"], ["120", "2 hours"], ["480", "8 hours"]] },
        { name: "bead_id", label: "Work item", optional: true }], yes: "Reserve",
    });
    return given && this.shell.act("reserve", { room_id: this.roomId, ...filled(given), ttl_minutes: Number(given.ttl_minutes) }, "Reserved.");
  }

  /** Move a member by one place in the sequence of those who take turns. */
  move(member, members, by) {
    const order = members.filter((each) => each.takes_turns && each.doing !== "gone").map((each) => each.agent_id);
    const at = order.indexOf(member.agent_id);
    [order[at], order[at + by]] = [order[at + by], order[at]];
    return this.shell.act("reorder", { room_id: this.roomId, order }, "The order has changed.");
  }

  /** The room's time limits and rules. Only what was changed is sent. */
  async policy() {
    const { policy } = await get(path`/api/rooms/${this.roomId}/policy`);
    const given = await question({
      title: "Rules of this room", text: "Write times as 90s, 45m or 4h. An empty field restores the default.",
      fields: policy.map((each) => ({
        name: each.name, label: sentence(each.about), optional: true, value: each.choices ? each.value : length(each.value),
        hint: `Default: ${each.choices ? each.default : length(each.default)}`,
        ...(each.choices ? { kind: "choice", choices: each.choices.map((choice) => [choice, choice]) } : {}),
      })), yes: "Save",
    });
    if (!given) return;
    const changed = policy.filter((each) => given[each.name] !== (each.choices ? each.value : length(each.value)));
    const values = changed.map((each) => [each.name, each.choices ? given[each.name] : milliseconds(given[each.name])]);
    if (changed.length) this.shell.act("set_policy", { room_id: this.roomId, policy: Object.fromEntries(values) }, "Saved.");
  }

  /** Go on as an agent that is gone. */
  resume(member) {
    const found = member.left ? member.left.evidence : "conch found no unfinished work of this agent. The log will say that you decided.";
    return this.ask("adopt", { agent_id: member.agent_id }, `You are ${member.name} now.`, {
      title: `Resume as ${member.name}?`, text: `You get its name, its reservations and its notices. ${found}`, yes: "Resume", danger: true,
    });
  }

  async releaseAll(member, reservations) {
    const scopes = reservations.map((each) => each.spelled ?? each.scope).join(", ");
    const given = await question({ title: `Release what ${label(member)} reserved?`, text: scopes, fields: [REASON], yes: "Release", danger: true });
    if (!given) return;
    for (const each of reservations)
      await this.shell.act("unreserve", { room_id: this.roomId, agent_id: each.agent_id, scope: each.scope, ...given, confirm: true }, "Released.");
  }

  nudge(holder) {
    return this.ask("nudge", { agent_id: holder.agent_id }, "Asked.", {
      title: `Ask ${label(holder)} for the stick`, text: "It sees this in its next reply.",
      fields: [{ name: "text", label: "Message", kind: "long", value: "Please hand over the stick." }], yes: "Ask",
    });
  }

  passFor(holder, members) {
    const others = members.filter((member) => member.agent_id !== holder.agent_id && member.doing !== "gone");
    return this.ask("pass_for", { agent_id: holder.agent_id }, "Passed on.", {
      title: `Pass the stick on for ${label(holder)}?`, text: "The next agent gets your reason, and the advice to look at what was changed.",
      fields: [{ name: "to", label: "Pass it to", kind: "choice", choices: others.map((each) => [each.agent_id, label(each)]) }, REASON], yes: "Pass on", danger: true,
    });
  }

  /** The person has the stick: hand it over in writing, as agents do. */
  async handOver(me, members) {
    const others = members.filter((member) => member.agent_id !== me.agent_id && !["gone", "watching"].includes(member.doing));
    const given = await question({
      title: "Hand over the stick", text: "The next agent reads this before it starts.",
      fields: [{ name: "to", label: "To", kind: "choice", choices: [["", "the next in the sequence"], ...others.map((each) => [each.agent_id, label(each)])] },
        { name: "status", label: "What is done", kind: "long" }, { name: "next_action", label: "What to do next", kind: "long" }], yes: "Hand over",
    });
    if (!given) return false;
    const { status, next_action } = given;
    return this.shell.act("hand_over", { room_id: this.roomId, handoff: { status, next_action }, ...(given.to ? { to: given.to } : {}) }, "Handed over.");
  }

  release(reservation) {
    return this.ask("unreserve", { agent_id: reservation.agent_id, scope: reservation.scope }, "Released.", {
      title: `Release ${reservation.scope}?`, text: `${label(reservation)} reserved it and may be changing it. It gets a message.`,
      fields: [REASON], yes: "Release", danger: true,
    });
  }

  kick(member) {
    return this.ask("kick", { agent_id: member.agent_id }, `${label(member)} is no longer a member.`, {
      title: `Remove ${label(member)} from the room?`, text: "It loses its place and its reservations, and any member may take its stick. It may join again.",
      fields: [REASON], yes: "Remove", danger: true,
    });
  }

  note() {
    return this.ask("note", {}, "Noted.", {
      title: "Add a note to the log", text: "Everyone sees it in the timeline.", fields: [{ name: "note", label: "Note", kind: "long" }], yes: "Add",
    });
  }

  /** Give an agent work, in a notice that it has to accept. */
  async giveWork(member) {
    const given = await question({
      title: `Give work to ${label(member)}`, text: "It gets a notice, which it has to accept.",
      fields: [{ name: "subject", label: "About" }, { name: "summary", label: "What is done", kind: "long" },
        { name: "next_action", label: "What to do next", kind: "long" }, { name: "bead_id", label: "Work item", optional: true }], yes: "Send",
    });
    return given && this.notify(member, "HANDOFF", given);
  }

  /** Tell an agent that the person cannot go on without it. */
  async block(member) {
    const given = await question({
      title: `Ask ${label(member)} for help`, text: "It gets a notice, which it has to accept.",
      fields: [{ name: "subject", label: "About" }, { name: "blocker", label: "What blocks you", kind: "long" }, { name: "requested_action", label: "What would help", kind: "long" },
        { name: "urgency", label: "How urgent", kind: "choice", value: "medium", choices: [["low", "low"], ["medium", "medium"], ["high", "high"]] },
        { name: "bead_id", label: "Work item", optional: true }], yes: "Send",
    });
    return given && this.notify(member, "BLOCKED", given);
  }

  notify(member, event_type, { bead_id, ...payload }) {
    const about = { room_id: this.roomId, agent_id: member.agent_id, event_type, payload: { ...payload, requires_ack: true } };
    return this.shell.act("notify", { ...about, ...filled({ bead_id }) }, "Sent.");
  }

  message(member) {
    return this.ask("send", { to: [member.name] }, "Sent.", {
      title: `Write to ${label(member)}`, text: "Everyone in the room can read it.", fields: [{ name: "content_markdown", label: "Message", kind: "long" }], yes: "Send",
    });
  }

  async close() {
    return this.ask("close_room", {}, "The room is closed.", {
      title: "Close this room?", text: "Nobody can work in it any more. Joining the path again opens a new room; the log stays.",
      fields: [{ ...REASON, optional: true }], yes: "Close the room", danger: true,
    });
  }
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** The values that the person gave; empty ones are left out. */
const filled = (values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value.trim()));
