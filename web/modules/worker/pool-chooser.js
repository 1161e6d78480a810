/**
 * Chooses by measured time whether work is shared among the workers or done by one: where other programs use the cores,
 * waiting for helpers can take longer than the work itself.
 */
const SAMPLES = 3; // runs that are compared, by their median
const FIRST_WAIT = 32; // runs until the other way is tried again; doubled each time that it is not better
const LONGEST_WAIT = 1024;
const BETTER = 0.95; // of the time now, from which the other way is taken
const HOPELESS_ALONE = 1.3; // times the time now, at which a try of one worker ends at once
const HOPELESS_SHARED = 2; // and one of all workers: their first run is long, since helpers have slept
const SLOWER = 1.3; // times the time at the last try, from which another try is due: the machine has changed
const MOST_KEYS = 4096;

/** @param {number[]} times */
const median = (times) => [...times].sort((a, b) => a - b)[times.length >> 1];

/** The times of one piece of work. */
class Times {
  sharing = true;
  wait = 2 * SAMPLES;
  runs = 0;
  /** The last times of the way that is taken. @type {number[]} */
  now = [];
  /** Those of the other way, while it is tried. @type {number[]} */
  tried = [];
  usual = Infinity;

  /** Whether the next run tries the other way. */
  get trying() {
    return this.now.length === SAMPLES && this.runs >= this.wait;
  }

  /** @param {number} time */
  add(time) {
    if (!this.trying) {
      this.runs += 1;
      this.now.push(time);
      if (this.now.length > SAMPLES) this.now.shift();
      if (this.now.length === SAMPLES && median(this.now) > SLOWER * this.usual) this.wait = Math.min(this.wait, this.runs);
      return;
    }
    this.tried.push(time);
    const before = median(this.now);
    const hopeless = time > (this.sharing ? HOPELESS_ALONE : HOPELESS_SHARED) * before;
    if (this.tried.length < SAMPLES && !hopeless) return;
    const better = !hopeless && median(this.tried) < BETTER * before;
    if (better) {
      this.sharing = !this.sharing;
      this.now = this.tried;
    }
    this.wait = better || this.usual === Infinity || before > SLOWER * this.usual ? FIRST_WAIT : Math.min(2 * this.wait, LONGEST_WAIT);
    this.usual = median(this.now);
    this.tried = [];
    this.runs = 0;
  }
}

export class Chooser {
  /** @param {() => number} clock in milliseconds */
  constructor(clock) {
    this.clock = clock;
    /** @type {Map<number, Times>} */
    this.times = new Map();
  }

  /**
   * Runs work, and measures it.
   * @param {number} key work of the same key takes the same time
   * @param {(sharing: boolean) => T} work @returns {T}
   * @template T
   */
  run(key, work) {
    let times = this.times.get(key);
    if (times === undefined) {
      if (this.times.size >= MOST_KEYS) this.times.clear();
      this.times.set(key, (times = new Times()));
    }
    const start = this.clock();
    const result = work(times.sharing !== times.trying);
    times.add(this.clock() - start);
    return result;
  }

  /** @param {number} key whose work has changed */
  forget(key) {
    this.times.delete(key);
  }
}
