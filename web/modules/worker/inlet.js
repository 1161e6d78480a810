/**
 * Sound that arrives while a request runs: a queue of blocks with one reader. Python reads it with `await inlet.take()`.
 */
import { joined } from "../audio/blocks.js";
import { SAMPLE_RATE } from "../audio/wav-writer.js";

const MOST_WAITING = 120 * SAMPLE_RATE; // samples: 8 MB

export class Inlet {
  /** @param {() => void} onBehind called when the queue is full; it then accepts no more */
  constructor(onBehind) {
    this.onBehind = onBehind;
    /** @type {Float32Array[]} */
    this.blocks = [];
    this.waiting = 0; // samples
    this.ended = false;
    /** @type {((value?: any) => void) | null} */
    this.wake = null;
  }

  /** @param {Float32Array} block */
  push(block) {
    if (this.ended) return;
    this.blocks.push(block);
    this.waiting += block.length;
    if (this.waiting > MOST_WAITING) {
      this.onBehind();
      this.finish();
    }
    this.wake?.();
  }

  finish() {
    this.ended = true;
    this.wake?.();
  }

  /** @returns {Promise<Float32Array | undefined>} all new samples, joined; undefined at the end */
  async take() {
    while (!this.waiting && !this.ended) await new Promise((resolve) => (this.wake = resolve));
    if (!this.waiting) return undefined; // becomes None in Python, which null does not
    this.waiting = 0;
    return joined(this.blocks.splice(0));
  }
}
