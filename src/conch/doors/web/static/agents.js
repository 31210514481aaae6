// How agents are named and coloured: the same in lanes, names, handoffs and reservations.

import { html, nothing } from "./vendor/lit-html/lit-html.js";
import { visible } from "./text.js";

const COLOURS = 8;
const given = new Map();

/** The class that sets an agent's colour. Two agents share one only if there are more agents than colours. */
export function colour(agentId) {
  if (!agentId) return "colour-none";
  if (!given.has(agentId)) given.set(agentId, freeColour(agentId));
  return `colour-${given.get(agentId)}`;
}

function freeColour(agentId) {
  const uses = Array(COLOURS).fill(0);
  for (const used of given.values()) uses[used] += 1;
  const fewest = Math.min(...uses);
  let choice = hash(agentId) % COLOURS;
  while (uses[choice] > fewest) choice = (choice + 1) % COLOURS;
  return choice;
}

const hash = (text) => Array.from(text).reduce((sum, mark) => (sum * 31 + mark.codePointAt(0)) >>> 0, 7);

/** The label in plain text: `claude·deft-osprey`. */
export const label = (agent) => visible(agent?.label || agent?.name || "conch");

/** The label as markup: the kind in bold, then the name. */
export function named(agent) {
  const [kind, ...rest] = label(agent).split("·");
  const name = rest.length ? html`<em>·${rest.join("·")}</em>` : nothing;
  return html`<bdi class="name ${colour(agent?.agent_id)}">${kind}${name}</bdi>`;
}

/** An agent that a sentence is about, but that did not act. */
export const mentioned = (agent) => html`<bdi>${label(agent)}</bdi>`;
