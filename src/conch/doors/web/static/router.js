// Which page an address means. The panel is part of the query, so that opening it keeps the page behind it.

const PANEL = ["item", "turn", "in"];

/** `{name, id, query, key}`; pages with the same key are the same page, whatever panel is open. */
export function parse(url) {
  const [name = "", id = "", rest] = url.pathname.split("/").filter(Boolean).map(decoded);
  const kept = [...url.searchParams].filter(([key]) => !PANEL.includes(key));
  const key = `${url.pathname}?${new URLSearchParams(kept)}`;
  return { name: rest === undefined ? name || "rooms" : "nowhere", id, query: url.searchParams, key };
}

/** A part of an address. A mistyped one names nothing. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The present address with other values in its query; null removes one. */
export function withQuery(values) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(values)) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  return url.pathname + url.search;
}

export const roomAddress = (roomId) => `/rooms/${encodeURIComponent(roomId)}`;
export const topicAddress = (topicId, seq) => `/topics/${encodeURIComponent(topicId)}${seq ? `?at=${seq}` : ""}`;

/** Calls `went` now and for every change of address. Links and `go` do not load the page again. */
export class Router {
  constructor(went) {
    this.went = () => went(parse(new URL(location.href)));
    addEventListener("popstate", this.went);
    document.addEventListener("click", (event) => this.follow(event));
  }

  go(address, replace = false) {
    if (replace) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    this.went();
  }

  follow(event) {
    const link = event.target.closest?.("a[href]");
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const url = new URL(link.href, location.href);
    if (url.origin !== location.origin || link.target || link.hasAttribute("download") || link.hash) return;
    event.preventDefault();
    this.go(url.pathname + url.search);
  }
}
