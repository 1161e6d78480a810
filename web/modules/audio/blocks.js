/**
 * Sound in blocks.
 */

/** @param {Float32Array[]} blocks @returns {Float32Array} all of them, one after another */
export function joined(blocks) {
  const whole = new Float32Array(samplesIn(blocks));
  let at = 0;
  for (const block of blocks) {
    whole.set(block, at);
    at += block.length;
  }
  return whole;
}

/** @param {Float32Array[]} blocks */
export const samplesIn = (blocks) => blocks.reduce((sum, { length }) => sum + length, 0);

/** @param {Float32Array} block @returns {number} the largest value, without its sign */
export const peakOf = (block) => block.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
