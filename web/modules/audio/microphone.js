/**
 * The microphone: requests permission, records through an AudioWorklet, resamples to 16 kHz, explains errors.
 */
import { UserError } from "../shared/protocol.js";
import { siteUrl } from "../shared/site.js";
import { Resampler } from "./resampler.js";
import { SAMPLE_RATE } from "./wav-writer.js";

export class Microphone {
  /**
   * @param {(block: Float32Array) => void} onBlock mono at 16 kHz, about 50 ms
   * @param {() => void} onLost the device was unplugged, or the permission taken back
   */
  constructor(onBlock, onLost) {
    this.onBlock = onBlock;
    this.onLost = onLost;
  }

  /** Resolves when the microphone records. */
  async open() {
    if (!navigator.mediaDevices?.getUserMedia || typeof AudioWorkletNode === "undefined") throw notHere();
    const audio = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true };
    this.stream = await navigator.mediaDevices.getUserMedia({ audio }).catch((error) => {
      throw refused(error);
    });
    this.stream.getAudioTracks()[0].addEventListener("ended", () => this.onLost());
    try {
      await this.#listen();
    } catch (error) {
      this.#release();
      throw error;
    }
  }

  async #listen() {
    this.context = new AudioContext({ latencyHint: "interactive" }); // at the device's rate: not all browsers connect others
    await this.context.audioWorklet.addModule(siteUrl("modules/audio/capture-worklet.js"));
    const resampler = new Resampler(this.context.sampleRate, SAMPLE_RATE);
    this.node = new AudioWorkletNode(this.context, "capture", { numberOfInputs: 1, numberOfOutputs: 0 });
    /** @type {Promise<void>} */
    this.ended = new Promise((resolve) => {
      this.node.port.onmessage = ({ data }) => {
        if (data) return this.onBlock(resampler.process(data));
        this.onBlock(resampler.finish());
        resolve();
      };
    });
    this.source = this.context.createMediaStreamSource(this.stream);
    this.source.connect(this.node);
    await this.context.resume();
  }

  /** Ends the recording; resolves after the last block was delivered. */
  async close() {
    if (!this.node) return;
    this.node.port.postMessage("end");
    await Promise.race([this.ended, new Promise((resolve) => setTimeout(resolve, 300))]); // a removed device sends nothing
    this.#release();
  }

  #release() {
    this.stream?.getTracks().forEach((track) => track.stop());
    this.context?.close().catch(() => {});
    this.node = null;
  }
}

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
