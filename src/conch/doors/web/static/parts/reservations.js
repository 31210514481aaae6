// What is reserved, as a tree of the workspace: the holder, whether it is alive, and how much time is left.

import { html, nothing } from "../vendor/lit-html/lit-html.js";
import { colour, label } from "../agents.js";
import { visible } from "../text.js";
import { itemLink } from "./entries.js";

/** `release(reservation)` ends one; without it the tree only shows. */
export function reservationTree(reservations, roomId, release) {
  if (!reservations.length) return html`<p class="empty">Nothing is reserved.</p>`;
  return html`<ul class="tree">${branches(grown(reservations), roomId, release)}</ul>`;
}

/** A tree of folders from the paths of reservations. */
function grown(reservations) {
  const root = { parts: new Map(), held: [] };
  for (const each of reservations) {
    let node = root;
    for (const part of (each.path ?? each.scope).split("/").filter((text) => text && text !== ".")) {
      if (!node.parts.has(part)) node.parts.set(part, { parts: new Map(), held: [] });
      node = node.parts.get(part);
    }
    node.held.push(each);
  }
  return root;
}

function branches(root, roomId, release) {
  const whole = root.held.map((each) => html`<li>${leaf("the whole workspace", each, roomId, release)}</li>`);
  return [...whole, ...[...root.parts].sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, node]) => branch(name, node, roomId, release))];
}

function branch(name, node, roomId, release) {
  // A folder that only leads to one other stands in its line.
  while (!node.held.length && node.parts.size === 1) {
    const [[next, inner]] = node.parts;
    [name, node] = [`${name}/${next}`, inner];
  }
  const shown = node.parts.size ? `${name}/` : name;
  const inside = branches({ parts: node.parts, held: [] }, roomId, release);
  const own = node.held.length ? node.held.map((each) => leaf(shown, each, roomId, release)) : html`<div class="leaf"><span class="path">${visible(shown)}</span></div>`;
  return html`<li>${own}${inside.length ? html`<ul>${inside}</ul>` : nothing}</li>`;
}

function leaf(shown, each, roomId, release) {
  const isAlive = each.liveness === "active" && each.life !== "gone";
  const state = each.life === "gone" ? "gone" : each.liveness;
  return html`<div class="leaf ${colour(each.agent_id)}" title=${label(each)}>
    <span class="path">${visible(shown)}</span> ${each.bead_id ? itemLink(each.bead_id, roomId) : nothing}
    <span class="holder">${visible(each.name)}</span>
    ${isAlive ? nothing : html`<span class="pill ${state === "stale" ? "warn" : "bad"}">${state}</span>`}
    <span class="end"><small title="Time left"><time-span until=${each.expires_at}></time-span></small>
    ${release ? html`<button class="button quiet" aria-label="Release ${shown}, reserved by ${label(each)}" title="Release…" @click=${() => release(each)}>×</button>` : nothing}</span></div>`;
}
