// Reading again after a change: at once, and once more if something changed meanwhile, never twice at a time.

const PAUSE = 50; // milliseconds between two readings: short for the eye, long enough for the server to do other work

export class Refresh {
  constructor(read) {
    this.read = read;
    this.isRunning = this.isWanted = false;
  }

  async soon() {
    this.isWanted = true;
    if (this.isRunning) return;
    this.isRunning = true;
    while (this.isWanted) {
      this.isWanted = false;
      const began = performance.now();
      await this.read().catch(() => {}); // the stream shows a lost connection
      const took = performance.now() - began; // a slow server gets as much time for its other work
      await new Promise((resolve) => setTimeout(resolve, Math.max(PAUSE, took)));
    }
    this.isRunning = false;
  }
}
