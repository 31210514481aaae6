// The one event stream. It only says what changed; the page then asks for what it shows.

const PATIENCE = 40_000; // the server sends something at least every 15 seconds
const PAUSES = [500, 1000, 2000, 4000, 8000];

/** Calls `changed` for each change, and `stated` with true or false when the connection is there or lost. */
export class Stream {
  constructor(changed, stated) {
    this.changed = changed;
    this.stated = stated;
    this.failures = 0;
    this.open();
    addEventListener("online", () => this.again(0));
  }

  open() {
    this.source = new EventSource("/api/stream");
    this.source.onopen = () => this.heard(true);
    this.source.onerror = () => this.lost();
    for (const type of ["hello", "entry", "changed", "ping"]) {
      this.source.addEventListener(type, (event) => {
        this.heard(false);
        if (type === "entry" || type === "changed") this.changed({ entry: type === "entry" ? JSON.parse(event.data) : null });
      });
    }
  }

  heard(isNew) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.lost(), PATIENCE);
    this.failures = 0;
    this.stated(true, isNew);
  }

  lost() {
    this.stated(false);
    // The browser tries again by itself, unless the server refused the stream or fell silent.
    if (this.source.readyState === EventSource.CONNECTING) return;
    this.again(PAUSES[Math.min(this.failures++, PAUSES.length - 1)]);
  }

  again(pause) {
    clearTimeout(this.timer);
    this.source.close();
    this.timer = setTimeout(() => this.open(), pause);
  }
}
