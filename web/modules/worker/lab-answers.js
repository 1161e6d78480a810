/**
 * `input()` in cells: Python, which computes in this thread, waits for the page in shared memory.
 *
 * @typedef {{state: Int32Array, text: Uint8Array}} Answers `state[0]` is one of the numbers below, `state[1]` the bytes of `text`
 */
import { ANSWERED, ASKING, LONGEST_ANSWER } from "../shared/lab-protocol.js";
import { mayShare } from "../shared/threads.js";

/** @returns {Answers | null} null without shared memory */
export function makeAnswers() {
  if (!mayShare()) return null;
  return { state: new Int32Array(new SharedArrayBuffer(8)), text: new Uint8Array(new SharedArrayBuffer(LONGEST_ANSWER)) };
}

/** Asks the page, and waits. @param {Answers} answers @param {() => void} ask @returns {string | undefined} undefined: the cell is stopped */
export function waitForAnswer({ state, text }, ask) {
  Atomics.store(state, 0, ASKING);
  ask();
  while (Atomics.load(state, 0) === ASKING) Atomics.wait(state, 0, ASKING);
  if (Atomics.exchange(state, 0, 0) !== ANSWERED) return undefined;
  return new TextDecoder().decode(text.slice(0, Atomics.load(state, 1)));
}
