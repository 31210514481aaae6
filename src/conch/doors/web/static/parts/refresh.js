// Reading again after a change: at once, and once more if something changed meanwhile, never twice at a time.

const PAUSE = 150; // milliseconds between two readings, so that a busy room costs no more than six a second

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
      await this.read().catch(() => {}); // the stream shows a lost connection
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
    this.isRunning = false;
  }
}
