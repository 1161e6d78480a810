/**
 * Resamples a stream of mono blocks with a windowed sinc in polyphase form, as pyapp.audio.resampling does for files.
 */
const ZERO_CROSSINGS = 32; // of the sinc on each side: more make the cutoff sharper
const PASS = 0.95; // fraction of the lower Nyquist frequency
const BETA = 9; // of the Kaiser window: 90 dB of attenuation above the cutoff

const MOST = 1 << 22; // numbers of the filters: more take seconds to make

/** Whether there is room for the filters between two rates in Hz; a file may name any. @param {number} from @param {number} to */
export function canResample(from, to) {
  if (!Number.isInteger(from) || from < 1000) return false;
  return (to / greatestCommonDivisor(from, to)) * 2 * Math.ceil((ZERO_CROSSINGS / PASS) * Math.max(1, from / to)) <= MOST;
}

export class Resampler {
  /** @param {number} from @param {number} to in Hz, whole numbers */
  constructor(from, to) {
    const divisor = greatestCommonDivisor(from, to);
    this.up = to / divisor;
    this.down = from / divisor;
    const cutoff = PASS * Math.min(1, to / from);
    this.half = Math.ceil(ZERO_CROSSINGS / cutoff);
    this.filters = makeFilters(this.up, this.half, cutoff);
    this.buffer = new Float32Array(this.half); // silence before the first sample
    this.first = -this.half; // index in the input of buffer[0]
    this.received = 0;
    this.made = 0;
  }

  /** @param {Float32Array} block @returns {Float32Array} the complete output samples */
  process(block) {
    if (this.up === this.down) return block;
    this.received += block.length;
    return this.#extend(block, Infinity);
  }

  /** @returns {Float32Array} the rest */
  finish() {
    if (this.up === this.down) return new Float32Array(0);
    return this.#extend(new Float32Array(this.half + 1), Math.ceil((this.received * this.up) / this.down));
  }

  /** @param {Float32Array} block @param {number} most samples of output @returns {Float32Array} */
  #extend(block, most) {
    const joined = new Float32Array(this.buffer.length + block.length);
    joined.set(this.buffer);
    joined.set(block, this.buffer.length);
    const end = this.first + joined.length; // end of the input so far
    const ready = Math.max(0, Math.floor(((end - this.half - 1) * this.up) / this.down) + 1);
    const stop = Math.max(this.made, Math.min(most, ready));
    const result = new Float32Array(stop - this.made);
    for (let i = 0; i < result.length; i += 1) result[i] = this.#at(this.made + i, joined);
    this.made = stop;
    const next = Math.floor((this.made * this.down) / this.up) - this.half + 1;
    const keep = Math.max(0, Math.min(joined.length, next - this.first));
    this.buffer = joined.slice(keep);
    this.first += keep;
    return result;
  }

  /** @param {number} index of the output @param {Float32Array} samples */
  #at(index, samples) {
    const position = index * this.down;
    const whole = Math.floor(position / this.up);
    const filter = this.filters[position % this.up];
    const start = whole - this.half + 1 - this.first;
    let sum = 0;
    for (let i = 0; i < filter.length; i += 1) sum += filter[i] * samples[start + i];
    return sum;
  }
}

/** The filters, one for each fraction of a sample, of 2·half coefficients. @param {number} phases @param {number} half @param {number} cutoff */
function makeFilters(phases, half, cutoff) {
  const edge = bessel(BETA);
  return Array.from({ length: phases }, (_, phase) => {
    const filter = new Float32Array(2 * half);
    let sum = 0;
    for (let i = 0; i < filter.length; i += 1) {
      const x = i - half + 1 - phase / phases;
      const window = Math.abs(x) < half ? bessel(BETA * Math.sqrt(1 - (x / half) ** 2)) / edge : 0;
      const angle = Math.PI * x * cutoff;
      filter[i] = window * (angle === 0 ? 1 : Math.sin(angle) / angle);
      sum += filter[i];
    }
    return filter.map((value) => value / sum);
  });
}

/** The modified Bessel function of order 0, by its series. @param {number} x */
function bessel(x) {
  let term = 1;
  let sum = 1;
  for (let k = 1; term > sum * 1e-10; k += 1) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

/** @param {number} a @param {number} b @returns {number} */
const greatestCommonDivisor = (a, b) => (b === 0 ? a : greatestCommonDivisor(b, a % b));
