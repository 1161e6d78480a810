/**
 * A recording by microphone, or of the sound of a tab. It is written to a WAVE file while the engine transcribes it.
 */
import { joined, peakOf, samplesIn } from "../../audio/blocks.js";
import { LONGEST } from "../../audio/decoder.js";
import { Microphone } from "../../audio/microphone.js";
import { WavWriter } from "../../audio/wav-writer.js";

const PUSH_SAMPLES = 3200; // in each message to the engine: 0.2 s

export class LiveRecording {
  /**
   * @param {import("../../page/engine.js").Engine} engine
   * @param {{onBlock: (peak: number, seconds: number) => void, onEvent: (event: any) => void, onPiece: (piece: Blob) => void}} listeners
   *   `onPiece` gets the samples, a few seconds at a time
   * @param {"microphone" | "tab"} source
   */
  constructor(engine, { onBlock, onEvent, onPiece }, source) {
    this.engine = engine;
    this.onBlock = onBlock;
    this.onEvent = onEvent;
    this.writer = new WavWriter(onPiece);
    /** @type {Float32Array[]} */
    this.waiting = [];
    this.id = null;
    /** Whether the engine still gets all of the sound. */
    this.heard = true;
    this.finishing = false;
    /** Whether the sound ended by itself. */
    this.lost = false;
    /** @type {Promise<void>} */
    this.closed = new Promise((resolve) => (this.close = resolve));
    this.microphone = new Microphone((block) => this.#take(block), () => this.#lose(), source);
  }

  /** Starts the microphone. Resolves when it records. */
  open() {
    return this.microphone.open();
  }

  /**
   * Transcribes the sound until its end.
   * @param {object} params @param {AbortSignal} signal @returns {Promise<import("../../shared/protocol.js").DoneEvent>} the last event of the request
   */
  listen(params, signal) {
    const onEvent = (/** @type {{type: string}} */ event) => {
      if (event.type === "behind") this.heard = false;
      this.onEvent(event);
    };
    const listening = this.engine.call("listen", params, { signal, onEvent, onStart: (id) => (this.id = id) });
    if (this.finishing) this.#tellEnd(); // the sound ended while the model was being loaded
    return listening;
  }

  /** @param {Float32Array} block */
  #take(block) {
    this.writer.write(block);
    this.waiting.push(block);
    this.onBlock(peakOf(block), this.writer.duration);
    if (samplesIn(this.waiting) >= PUSH_SAMPLES) this.#push();
    if (this.writer.duration >= LONGEST) this.finish();
  }

  #push() {
    if (this.id === null) return; // the engine does not listen yet
    const samples = joined(this.waiting.splice(0));
    if (samples.length && this.heard) this.engine.aside("push", { id: this.id, samples }, [samples.buffer]);
  }

  #lose() {
    this.lost = !this.finishing;
    this.finish();
  }

  /** Ends the recording. The sound so far is still transcribed. */
  async finish() {
    if (this.finishing) return;
    this.finishing = true;
    await this.microphone.close();
    this.#tellEnd();
    this.close();
  }

  #tellEnd() {
    this.#push();
    if (this.id !== null) this.engine.aside("finish", { id: this.id });
  }

  get duration() {
    return this.writer.duration;
  }

  /** @returns {Blob} the whole recording as a WAVE file */
  toWav() {
    return this.writer.finish();
  }
}
