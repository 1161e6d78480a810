/**
 * A growing WAVE file of 16-bit mono samples. The browser may store its pieces on disk: two hours of sound take a few
 * megabytes of the page's memory.
 */
const PIECE = 1 << 17; // samples: 8 s

export const SAMPLE_RATE = 16000; // Hz: the sample rate of Whisper

export class WavWriter {
  /** @param {(piece: Blob) => void} [onPiece] gets each piece of 16-bit samples when it is full */
  constructor(onPiece = () => {}) {
    this.onPiece = onPiece;
    /** @type {Blob[]} */
    this.pieces = [];
    this.samples = new Int16Array(PIECE);
    this.filled = 0;
    this.length = 0;
  }

  /** @param {Float32Array} block full scale is 1; larger values are clipped */
  write(block) {
    this.length += block.length;
    for (const value of block) {
      this.samples[this.filled] = Math.max(-32768, Math.min(32767, Math.round(value * 32768)));
      this.filled += 1;
      if (this.filled === PIECE) this.#flush();
    }
  }

  #flush() {
    if (this.filled === 0) return;
    const piece = new Blob([this.samples.subarray(0, this.filled)]);
    this.pieces.push(piece);
    this.filled = 0;
    this.onPiece(piece);
  }

  /** The duration so far, in seconds. */
  get duration() {
    return this.length / SAMPLE_RATE;
  }

  /** @returns {Blob} */
  finish() {
    this.#flush();
    return wavOf(this.pieces);
  }
}

/** @param {Blob[]} pieces of 16-bit samples @param {number} [rate] samples a second @returns {Blob} a WAVE file */
export function wavOf(pieces, rate = SAMPLE_RATE) {
  const samples = pieces.reduce((bytes, { size }) => bytes + size, 0) / 2;
  return new Blob([header(samples, rate), ...pieces], { type: "audio/wav" });
}

/** @param {number} samples @param {number} rate */
function header(samples, rate) {
  const view = new DataView(new ArrayBuffer(44));
  const text = (/** @type {number} */ at, /** @type {string} */ letters) => [...letters].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  const bytes = samples * 2;
  text(0, "RIFF");
  view.setUint32(4, 36 + bytes, true);
  text(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // channels
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, "data");
  view.setUint32(40, bytes, true);
  return view.buffer;
}
