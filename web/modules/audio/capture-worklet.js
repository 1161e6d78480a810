/**
 * Runs in the audio thread: collects the microphone's samples and sends them to the page, 20 times a second.
 */
class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.block = new Float32Array(Math.round(sampleRate / 20));
    this.filled = 0;
    this.ended = false;
    this.port.onmessage = () => {
      this.port.postMessage(this.block.slice(0, this.filled));
      this.port.postMessage(null); // the end
      this.ended = true;
    };
  }

  /** @param {Float32Array[][]} inputs one input, its channels, 128 samples each */
  process([channels]) {
    if (this.ended) return false;
    const frames = channels[0]?.length ?? 0;
    for (let i = 0; i < frames; i += 1) {
      let sum = 0;
      for (const channel of channels) sum += channel[i];
      this.block[this.filled] = sum / channels.length;
      this.filled += 1;
      if (this.filled === this.block.length) this.#send();
    }
    return true;
  }

  #send() {
    this.port.postMessage(this.block.slice());
    this.filled = 0;
  }
}

registerProcessor("capture", Capture);
