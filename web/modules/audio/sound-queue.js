/**
 * Plays pieces of sound one after the other, each as soon as it is there.
 */
import { UserError } from "../shared/protocol.js";

const AHEAD = 0.05; // seconds between the arrival of a piece and its sound
const PATIENCE = 3000; // ms until the first piece must be heard: some loudspeakers need a while
const LOOK = 200; // ms between two looks at whether it is

/** The samples in an event of a task. @param {string} pcm base64 of 16-bit numbers @returns {Int16Array<ArrayBuffer>} */
export function samplesOf(pcm) {
  return new Int16Array(Uint8Array.from(atob(pcm), (letter) => letter.charCodeAt(0)).buffer);
}

export class SoundQueue {
  /** @param {AudioContext} sound open since the visitor pressed a button @param {AbortSignal} signal ends the waiting */
  constructor(sound, signal) {
    this.sound = sound;
    this.signal = signal;
    /** When the pieces so far end, in seconds of the sound. */
    this.due = 0;
    /** When the first one came, in ms of the page. @type {number | null} */
    this.begun = null;
  }

  /** Whether the browser plays nothing: there is no loudspeaker, or it does not let the page. */
  get mute() {
    return this.begun !== null && performance.now() - this.begun > PATIENCE && this.sound.currentTime === 0;
  }

  /** @param {Int16Array} samples @param {number} rate samples a second */
  add(samples, rate) {
    this.begun ??= performance.now();
    const buffer = this.sound.createBuffer(1, samples.length, rate);
    buffer.copyToChannel(Float32Array.from(samples, (value) => value / 32768), 0);
    const player = new AudioBufferSourceNode(this.sound, { buffer });
    player.connect(this.sound.destination);
    const start = Math.max(this.due, this.sound.currentTime + AHEAD);
    player.start(start);
    this.due = start + buffer.duration;
  }

  /** Waits until everything was heard, or nothing will be. */
  async ended() {
    const { signal } = this;
    while (this.due > this.sound.currentTime && !this.mute && !signal.aborted) await new Promise((resolve) => {
      setTimeout(resolve, Math.min((this.due - this.sound.currentTime) * 1000, LOOK));
      signal.addEventListener("abort", resolve, { once: true });
    });
  }

  /** Says that nothing is heard. @param {string} button what begins it anew */
  check(button) {
    if (this.mute) throw new UserError("The browser does not play the sound.", { hint: `Connect loudspeakers or headphones, permit this page to play sound, then press ${button} again.` });
  }

  /** Ends the sound. */
  close() {
    if (this.sound.state !== "closed") this.sound.close();
  }
}
