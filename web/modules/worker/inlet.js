/**
 * Sound that comes in while a request is running, waiting to be heard.
 */

/** A queue of blocks that one reader takes from: Python, as `await inlet.take()`. */
export class Inlet {
  constructor() {
    /** @type {Float32Array[]} */
    this.blocks = [];
    this.ended = false;
    this.wake = null;
  }

  /** @param {Float32Array} block */
  push(block) {
    this.blocks.push(block);
    this.wake?.();
  }

  finish() {
    this.ended = true;
    this.wake?.();
  }

  /** @returns {Promise<Float32Array | null>} all that has come since, joined; null at the end */
  async take() {
    while (!this.blocks.length && !this.ended) await new Promise((resolve) => (this.wake = resolve));
    if (!this.blocks.length) return null;
    const blocks = this.blocks.splice(0);
    const joined = new Float32Array(blocks.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const block of blocks) {
      joined.set(block, at);
      at += block.length;
    }
    return joined;
  }
}
