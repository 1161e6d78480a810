/**
 * Chooses by measured time whether work is shared among the workers or done by one: where other programs use the cores,
 * waiting for helpers can take longer than the work itself.
 */
const SAMPLES = 3; // runs that are compared, by their median
const FIRST_WAIT = 32; // runs until the other way is tried again; doubled each time that it is not better
const LONGEST_WAIT = 1024;
const BETTER = 0.95; // of the time now, from which the other way is taken
const HOPELESS = 1.3; // times the time now, at which a try ends at once
const WAKING = 10; // times the time now, up to which the first shared run does not count: a core that slept can take 2 ms
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
  /** Whether the present try has woken the helpers. */
  woken = false;
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
    const before = median(this.now);
    if (!this.sharing && !this.woken && time <= WAKING * before) {
      this.woken = true;
      return;
    }
    this.tried.push(time);
    const hopeless = time > HOPELESS * before;
    if (this.tried.length < SAMPLES && !hopeless) return;
    const better = !hopeless && median(this.tried) < BETTER * before;
    if (better) {
      this.sharing = !this.sharing;
      this.now = this.tried;
    }
    this.wait = better || this.usual === Infinity || before > SLOWER * this.usual ? FIRST_WAIT : Math.min(2 * this.wait, LONGEST_WAIT);
    this.usual = median(this.now);
    this.tried = [];
    this.woken = false;
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
