/**
 * Chooses by measured time whether work is shared among the workers or done by one: where other programs use the cores,
 * waiting for helpers can take longer than the work itself.
 *
 * The other way is tried now and then. While work is shared, a try costs little, and comes less and less often. While one worker does it,
 * a try comes after PAUSE of such work, so that the end of a disturbance is soon noticed; later where tries cost more than a share of the
 * time: a small one for work that has never gained by sharing, a larger one for work that has.
 */
const SAMPLES = 3; // runs that are compared, by their median
const FIRST_WAIT = 32; // shared runs until one worker is tried; doubled each time that it is not better
const LONGEST_WAIT = 1024;
const PAUSE = 300; // ms of work of one worker until sharing is tried
const COST = 0.01; // of the time, that tries to share may cost
const COST_OF_HOPE = 0.08; // where sharing has been better before
const HOPE = 2; // times that sharing must have been better for that
const MOST_HOPE = 4;
const BETTER = 0.95; // of the time now, from which the other way is taken
const HOPELESS = 1.3; // times the time now, at which a try ends at once
const WAKING = 5; // ms that the first shared run may take longer: it does not count, a core that slept can take 2 ms
const SLOWER = 1.3; // times the time at the last try, from which another try is due: the machine has changed
const MOST_KEYS = 4096;

/** @param {number[]} times */
const median = (times) => [...times].sort((a, b) => a - b)[times.length >> 1];

/** The times of one piece of work, in milliseconds. */
class Times {
  sharing = true;
  /** Shared runs until one worker is tried, and how many there were. */
  wait = 2 * SAMPLES;
  runs = 0;
  /** Milliseconds of one worker until sharing is tried, and how many there were. */
  pause = PAUSE;
  spent = 0;
  /** The last times of the way that is taken. @type {number[]} */
  now = [];
  /** Those of the other way, while it is tried. @type {number[]} */
  tried = [];
  /** What the present try has cost. */
  cost = 0;
  /** Whether the present try has woken the helpers. */
  woken = false;
  /** Whether the present try was given up within a run. */
  lost = false;
  usual = Infinity;
  /** How often sharing was better, less how often it was not. */
  hope = 0;
  /** Of the chooser, when this was last run. */
  recoveries = 0;

  /** Whether the next run tries the other way. */
  get trying() {
    return this.now.length === SAMPLES && (this.sharing ? this.runs >= this.wait : this.spent >= this.pause);
  }

  /** Tries the other way next. */
  hurry() {
    this.wait = Math.min(this.wait, this.runs);
    this.pause = Math.min(this.pause, this.spent);
  }

  /** Whether a try to share has lost, when so much of a run is done. @param {number} time of the run so far @param {number} done from 0 to 1 */
  losing(time, done) {
    const most = median(this.now) * (done + HOPELESS - 1) + (this.woken ? 0 : WAKING);
    return (this.lost = time > most);
  }

  /** @param {number} time @returns {boolean} whether the work is shared from now on, and was not before */
  add(time) {
    if (!this.trying) {
      this.runs += 1;
      this.spent += time;
      this.now.push(time);
      if (this.now.length > SAMPLES) this.now.shift();
      if (this.now.length === SAMPLES && median(this.now) > SLOWER * this.usual) this.hurry();
      return false;
    }
    const before = median(this.now);
    this.cost += Math.max(0, time - before);
    if (!this.sharing && !this.woken && !this.lost && time <= before + WAKING) {
      this.woken = true;
      return false;
    }
    this.tried.push(time);
    const hopeless = this.lost || time > HOPELESS * before;
    if (this.tried.length < SAMPLES && !hopeless) return false;
    return this.#decide(before, hopeless);
  }

  /** @param {number} before @param {boolean} hopeless @returns {boolean} as `add` */
  #decide(before, hopeless) {
    const better = !hopeless && median(this.tried) < BETTER * before;
    const gains = this.sharing ? hopeless || median(this.tried) * BETTER > before : better; // whether sharing does
    if (gains) this.hope = Math.min(this.hope + 1, MOST_HOPE);
    else if (this.sharing && better) this.hope = Math.max(this.hope - 1, 0);
    if (better) {
      this.sharing = !this.sharing;
      this.now = this.tried;
    }
    this.wait = better || this.usual === Infinity || before > SLOWER * this.usual ? FIRST_WAIT : Math.min(2 * this.wait, LONGEST_WAIT);
    this.pause = better ? PAUSE : Math.max(PAUSE, this.cost / (this.hope >= HOPE ? COST_OF_HOPE : COST));
    this.usual = median(this.now);
    this.tried = [];
    this.woken = this.lost = false;
    this.cost = this.runs = this.spent = 0;
    return better && this.sharing;
  }
}

export class Chooser {
  /** @param {() => number} clock in milliseconds */
  constructor(clock) {
    this.clock = clock;
    /** @type {Map<number, Times>} */
    this.times = new Map();
    /** How often some work was shared again: the machine is free, for the others too. */
    this.recoveries = 0;
  }

  /**
   * Runs work, and measures it.
   * @param {number} key work of the same key takes the same time
   * @param {(sharing: boolean, losing: ((done: number) => boolean) | null) => T} work `losing`: a run that tries to share asks, when a part of it
   *   (from 0 to 1) is done, whether one worker should do the rest; null: there is nothing to ask @returns {T}
   * @template T
   */
  run(key, work) {
    let times = this.times.get(key);
    if (times === undefined) {
      if (this.times.size >= MOST_KEYS) this.times.clear();
      this.times.set(key, (times = new Times()));
      times.recoveries = this.recoveries;
    }
    if (times.recoveries !== this.recoveries) {
      times.recoveries = this.recoveries;
      if (!times.sharing && times.hope >= HOPE) times.hurry();
    }
    const { trying } = times;
    const sharing = times.sharing !== trying;
    const start = this.clock();
    const result = work(sharing, trying && sharing ? (done) => times.losing(this.clock() - start, done) : null);
    if (times.add(this.clock() - start)) times.recoveries = this.recoveries += 1;
    return result;
  }

  /** @param {number} key whose work has changed */
  forget(key) {
    this.times.delete(key);
  }
}
