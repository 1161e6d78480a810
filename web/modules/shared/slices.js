/**
 * Long work of the page's own thread in slices, so that the page goes on answering, and the work can be stopped.
 *
 * @typedef {{signal?: AbortSignal, onProgress?: (done: number, total: number) => void}} Watch
 */
import { throwIfCancelled } from "./protocol.js";

const SLICE = 30; // ms
const LOOK = 256; // steps between two looks at the clock

/** Slices of one piece of work. */
export class Slices {
  /** @param {Watch} watch */
  constructor({ signal, onProgress = () => {} }) {
    this.signal = signal;
    this.onProgress = onProgress;
    this.begun = performance.now();
    this.steps = 0;
  }

  /**
   * Ends the slice if it has been long enough. @param {number} done @param {number} total
   * @returns {Promise<void> | undefined} for what the work waits, if it is to wait @throws Cancelled
   */
  step(done, total) {
    this.steps += 1;
    if (this.steps % LOOK || performance.now() - this.begun < SLICE) return undefined;
    this.onProgress(done, total);
    return this.#pause();
  }

  async #pause() {
    await new Promise((resolve) => setTimeout(resolve));
    throwIfCancelled(this.signal);
    this.begun = performance.now();
  }
}
