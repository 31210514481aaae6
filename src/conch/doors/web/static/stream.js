// The one event stream. It brings what happened, and says when to look again; the page then asks for what it shows.

const PATIENCE = 40_000; // the server sends something at least every 15 seconds
const PAUSES = [500, 1000, 2000, 4000, 8000];

/**
 * Calls `happened` with each new entry, and `changed` after every change, even one that leaves no entry. Calls `stated`
 * with true when the connection is there, and with false when it is lost. Calls `opened` for each new connection, because
 * something may have happened before it, and `replaced` if the server has another store.
 */
export class Stream {
  constructor(calls) {
    Object.assign(this, calls);
    this.failures = 0;
    this.open();
    addEventListener("online", () => this.again(0));
    document.addEventListener("visibilitychange", () => (document.hidden ? this.rest() : this.again(0)));
  }

  open() {
    this.source = new EventSource("/api/stream");
    this.source.onopen = () => this.heard();
    this.source.onerror = () => this.lost();
    for (const type of ["hello", "entry", "changed", "ping"]) {
      this.source.addEventListener(type, (event) => {
        this.heard();
        const data = JSON.parse(event.data);
        if (type === "entry") this.happened(data);
        if (type === "changed") this.changed();
        // Not before: only now does the server hear everything that happens.
        if (type === "hello") data.reset ? this.replaced() : this.opened();
      });
    }
  }

  heard() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.lost(), PATIENCE);
    this.failures = 0;
    this.stated(true);
  }

  lost() {
    this.stated(false);
    // The browser tries again by itself, unless the server refused the stream or fell silent.
    if (this.source.readyState === EventSource.CONNECTING) return;
    this.again(PAUSES[Math.min(this.failures++, PAUSES.length - 1)]);
  }

  /** A browser has six connections to a server for all its tabs. A tab that nobody sees gives its own back. */
  rest() {
    clearTimeout(this.timer);
    this.source.close();
  }

  again(pause) {
    this.rest();
    if (!document.hidden) this.timer = setTimeout(() => this.open(), pause);
  }
}
