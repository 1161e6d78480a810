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
    return this.steps % LOOK ? undefined : this.look(done, total);
  }

  /**
   * As step, for work whose steps are long: it looks at the clock each time. @param {number} done @param {number} total
   * @returns {Promise<void> | undefined} @throws Cancelled
   */
  look(done, total) {
    if (performance.now() - this.begun < SLICE) return undefined;
    this.onProgress(done, total);
    return this.#pause();
  }

  async #pause() {
    const { port1, port2 } = new MessageChannel(); // in a tab behind others a timer waits for a second
    await new Promise((resolve) => {
      port1.onmessage = resolve;
      port2.postMessage(null);
    });
    port1.close();
    throwIfCancelled(this.signal);
    this.begun = performance.now();
  }
}
