/**
 * The microphone, or the sound of another tab: requests permission, records through an AudioWorklet, resamples to 16 kHz,
 * explains errors.
 */
import { UserError } from "../shared/protocol.js";
import { siteUrl } from "../shared/site.js";
import { Resampler } from "./resampler.js";
import { SAMPLE_RATE } from "./wav-writer.js";

const PATIENCE = 5000; // ms from the permission until there is sound
const WATCH = 1000; // ms between two looks whether there still is
const [WAKE, LOST] = [2, 8]; // looks without sound, after which it is asked to go on, and after which it is lost

/** Whether this browser can record the sound of a tab. */
export const canHearTabs = () => Boolean(navigator.mediaDevices?.getDisplayMedia) && typeof AudioWorkletNode !== "undefined";

export class Microphone {
  /**
   * @param {(block: Float32Array) => void} onBlock mono at 16 kHz, about 50 ms
   * @param {() => void} onLost the device was unplugged, the permission taken back, the sharing of a tab ended, or no sound arrives any more
   * @param {"microphone" | "tab"} [source]
   */
  constructor(onBlock, onLost, source = "microphone") {
    this.source = source;
    this.onBlock = onBlock;
    this.onLost = onLost;
    /** @type {MediaStream | null} */
    this.stream = null;
    /** @type {AudioContext | null} */
    this.context = null;
    /** Sends the sound. @type {AudioWorkletNode | null} */
    this.node = null;
    /** Resolves after the last block. @type {Promise<void>} */
    this.ended = Promise.resolve();
    /** How many looks found no sound. */
    this.quiet = 0;
    /** @type {ReturnType<typeof setInterval> | undefined} */
    this.watch = undefined;
  }

  /** Resolves when the microphone records. */
  async open() {
    if (!navigator.mediaDevices?.getUserMedia || typeof AudioWorkletNode === "undefined") throw notHere();
    const stream = (this.stream = await (this.source === "tab" ? tabSound() : microphoneSound()));
    stream.getAudioTracks()[0].addEventListener("ended", () => this.onLost());
    try {
      await this.#listen(stream);
    } catch (error) {
      this.#release();
      throw error;
    }
  }

  /** @param {MediaStream} stream */
  async #listen(stream) {
    const context = (this.context = new AudioContext({ latencyHint: "interactive" })); // at the device's rate: not all browsers connect others
    await withinTime(context.audioWorklet.addModule(siteUrl("modules/audio/capture-worklet.js")), this.source);
    const resampler = new Resampler(context.sampleRate, SAMPLE_RATE);
    const node = (this.node = new AudioWorkletNode(context, "capture", { numberOfInputs: 1, numberOfOutputs: 0 }));
    let begun = () => {};
    /** Resolves at the first sound. @type {Promise<void>} */
    const first = new Promise((resolve) => (begun = resolve));
    this.ended = new Promise((resolve) => {
      node.port.onmessage = ({ data }) => {
        begun();
        this.quiet = 0;
        if (data) return this.onBlock(resampler.process(data));
        this.onBlock(resampler.finish());
        resolve();
      };
    });
    this.input = context.createMediaStreamSource(stream);
    this.input.connect(node);
    // Browsers without an output for sound, and telephones during a call, may never start the context.
    await withinTime(context.resume(), this.source);
    if (this.source === "tab") return; // it may be silent
    await withinTime(first, this.source);
    this.watch = setInterval(() => this.#look(context), WATCH);
  }

  /** A call, or the sleep of the device, may stop the sound without a word. @param {AudioContext} context */
  #look(context) {
    this.quiet += 1; // counted, as a clock goes on while the device sleeps
    if (this.quiet >= WAKE) context.resume().catch(() => {});
    if (this.quiet >= LOST) this.onLost();
  }

  /** Ends the recording; resolves after the last block was delivered. */
  async close() {
    if (!this.node) return;
    this.node.port.postMessage("end");
    await Promise.race([this.ended, new Promise((resolve) => setTimeout(resolve, 300))]); // a removed device sends nothing
    this.#release();
  }

  #release() {
    clearInterval(this.watch);
    this.stream?.getTracks().forEach((track) => track.stop());
    this.context?.close().catch(() => {});
    this.node = null;
  }
}

/** @template T @param {Promise<T>} work @param {string} source @returns {Promise<T>} */
function withinTime(work, source) {
  /** @type {ReturnType<typeof setTimeout>} */
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(silent(source)), PATIENCE)));
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

function microphoneSound() {
  const audio = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };
  return navigator.mediaDevices.getUserMedia({ audio }).catch((error) => {
    throw refused(error);
  });
}

async function tabSound() {
  const audio = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  const stream = await navigator.mediaDevices.getDisplayMedia({ audio, video: true }).catch((error) => {
    if (error.name === "NotAllowedError") throw new UserError("Nothing is shared.", { hint: "Press the button again, and choose a tab.", action: "retry" });
    throw new UserError("The sound of a tab cannot be recorded in this browser.", { where: error.message || error.name, hint: "Use Chrome or Edge, or save the recording and choose the file." });
  });
  if (stream.getAudioTracks().length) return stream;
  stream.getTracks().forEach((track) => track.stop());
  throw new UserError("What you shared has no sound.", { hint: "Choose a tab, and switch on “Also share tab audio”. Windows often cannot be shared with sound.", action: "retry" });
}

/** @param {string} source */
const silent = (source) => new UserError(`${source === "tab" ? "The sound of the tab" : "The microphone"} did not start within ${PATIENCE / 1000} seconds.`, {
  hint: "Check that this device has an output for sound (loudspeakers or headphones) and that no call is going on; then press Record again, or reload the page.",
  action: "retry",
});

const notHere = () => new UserError("This page cannot use the microphone in this browser.", {
  hint: isSecureContext ? "Use another browser, or choose a recording." : "Open the page by https:// or on localhost: browsers permit the microphone only there.",
});

/** @param {DOMException} error of getUserMedia */
function refused(error) {
  if (error.name === "NotAllowedError" || error.name === "SecurityError") {
    return new UserError("The browser refused access to the microphone.", {
      hint: "Allow it with the icon beside the address, then press Record again. The sound stays on this device.",
      action: "retry",
    });
  }
  if (error.name === "NotFoundError" || error.name === "OverconstrainedError") {
    return new UserError("No microphone was found.", { hint: "Connect one, then press Record again; or choose a recording.", action: "retry" });
  }
  return new UserError("The microphone cannot be used.", {
    where: error.message || error.name,
    hint: "Another program may be using it. Close that program, then press Record again.",
    action: "retry",
  });
}
