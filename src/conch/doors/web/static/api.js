// Requests to the server. Every reply carries the server's time, because the browser's clock may be wrong.

let ahead = 0; // milliseconds that the server's clock is ahead of the browser's

/** A refused request: the server's code and its sentence for people. */
export class Refusal extends Error {
  constructor(status, body) {
    super(body.message || "The server refused the request.");
    this.status = status;
    this.code = body.error || "";
    this.body = body;
  }
}

/** The server's time, in milliseconds. */
export const now = () => Date.now() + ahead;

/** Read JSON. Parameters without a value are left out. */
export async function get(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given).toString();
  return answer(await fetch(query ? `${path}?${query}` : path, { signal, headers: { Accept: "application/json" } }));
}

/** Change something, as the person at this page. */
export async function post(path, body) {
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  return answer(await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

/** A path of the API with its variable parts escaped: path`/api/rooms/${id}`. */
export const path = (texts, ...parts) =>
  texts.reduce((whole, text, index) => whole + encodeURIComponent(parts[index - 1]) + text);

async function answer(response) {
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, body);
  if (body.now) ahead = Date.parse(body.now) - Date.now();
  return body;
}
