/**
 * Converts any recording that the browser can decode to a WAVE file for the engine: mono, 16 kHz, 16 bits.
 *
 * WAVE files are used directly: the engine reads them by blocks. Short files of other formats are decoded at once (decodeAudioData);
 * what is short depends on the memory of the device. Long ones are taken apart by Mediabunny and decoded packet by packet (WebCodecs), so that two hours need no more memory
 * than two minutes; where a browser has no WebCodecs, there is a limit.
 */
import { Cancelled, UserError, throwIfCancelled } from "../shared/protocol.js";
import { importPart } from "../shared/site-parts.js";
import { elsewhere } from "../page/file-kinds.js";
import { Resampler, canResample } from "./resampler.js";
import { SAMPLE_RATE, WavWriter } from "./wav-writer.js";

export const LONGEST = 10 * 3600; // seconds: 1.2 GB as a WAVE file
const SHORT = 10 * 60; // seconds: the browser needs half a gigabyte while it decodes that at once,
const SHORT_ON_PHONES = 60; // too much for phones
const LONGEST_AT_ONCE = 30 * 60;
const BYTES_AT_ONCE = 64 << 20; // limit for a file of unknown duration
const FORMATS = "WAV, MP3, M4A, AAC, Ogg, Opus, FLAC, WebM, MP4 and QuickTime can be read.";

/** @typedef {{signal: AbortSignal, onProgress: (done: number, total: number | null) => void}} DecodeOptions progress in seconds */

/**
 * @param {File} file
 * @param {DecodeOptions} options
 * @returns {Promise<Blob>} a WAVE file
 */
export async function toWav(file, options) {
  if (file.size === 0) throw new UserError("This file is empty.", { where: file.name, hint: "Choose a complete recording." });
  return (await isWav(file)) ? file : decode(file, options);
}

/**
 * Decodes formats that the browser supports, and rare WAVE encodings (A-law, ADPCM …). Arguments and result as of toWav.
 * @param {File} file @param {DecodeOptions} options @returns {Promise<Blob>}
 */
export async function decode(file, options) {
  const duration = await durationOf(file);
  checkDuration(duration, file);
  if (duration !== null && duration <= (onPhone() ? SHORT_ON_PHONES : SHORT)) {
    const whole = await decodeAtOnce(file, options).catch(/** @returns {null} */ () => null); // a codec that only decodeAudioData supports
    if (whole) return whole;
  }
  const streamed = await decodeStreamed(file, options);
  if (streamed) return streamed;
  if (duration === null && file.size > BYTES_AT_ONCE) throw canStream() ? unreadable(file, "nothing knows its duration") : tooLong(file);
  if (duration !== null && duration > LONGEST_AT_ONCE) throw tooLong(file);
  return decodeAtOnce(file, options);
}

const canStream = () => typeof AudioDecoder !== "undefined";

/** Whether this device has little memory. Not all browsers tell, but phones have a touch screen and no mouse. */
function onPhone() {
  const { deviceMemory = null } = /** @type {{deviceMemory?: number}} */ (navigator);
  return deviceMemory === null ? matchMedia("(pointer: coarse)").matches : deviceMemory <= 4;
}

/** @param {Blob} file */
async function isWav(file) {
  const head = new TextDecoder("latin1").decode(await file.slice(0, 12).arrayBuffer());
  return /^(RIFF|RF64)....WAVE/s.test(head);
}

/** @param {File} file @param {DecodeOptions} options @returns {Promise<Blob | null>} null if another method must be tried */
async function decodeStreamed(file, { signal, onProgress }) {
  if (!canStream()) return null;
  const library = await loadMediabunny();
  const input = new library.Input({ source: new library.BlobSource(file), formats: library.ALL_FORMATS });
  try {
    if (!(await input.canRead())) return null;
    const track = await input.getPrimaryAudioTrack();
    if (!track && !(await input.getPrimaryVideoTrack())) throw unreadable(file, "no tracks"); // its end may be missing, which lists them
    if (!track) throw new UserError("There is no sound in this file.", { where: file.name, hint: "Choose a recording, or a video with sound." });
    if (!(await track.canDecode())) return null;
    const duration = await track.getDurationFromMetadata().catch(/** @returns {null} */ () => null);
    checkDuration(duration, file);
    return await collect(new library.AudioSampleSink(track), { signal, onProgress, duration, file });
  } catch (error) {
    if (error instanceof UserError || error instanceof Cancelled) throw error;
    throw unreadable(file, error);
  } finally {
    input.dispose();
  }
}

/** @param {any} sink an AudioSampleSink of Mediabunny @param {DecodeOptions & {duration: number | null, file: File}} options */
async function collect(sink, { signal, onProgress, duration, file }) {
  const writer = new WavWriter();
  let resampler = null;
  let told = 0;
  for await (const sample of sink.samples()) {
    try {
      throwIfCancelled(signal);
      checkRate(sample.sampleRate, file);
      resampler ??= new Resampler(sample.sampleRate, SAMPLE_RATE);
      writer.write(resampler.process(monoOf(sample)));
    } finally {
      sample.close();
    }
    if (performance.now() - told > 60) {
      told = performance.now();
      checkDuration(writer.duration, file);
      onProgress(writer.duration, duration);
      await new Promise((resolve) => setTimeout(resolve)); // lets the page respond
    }
  }
  if (resampler) writer.write(resampler.finish());
  return finished(writer, file);
}

/** The mean of the channels. @param {any} sample an AudioSample of Mediabunny */
function monoOf(sample) {
  const planes = Array.from({ length: sample.numberOfChannels }, (_, planeIndex) => {
    const plane = new Float32Array(sample.numberOfFrames);
    sample.copyTo(plane, { planeIndex, format: "f32-planar" });
    return plane;
  });
  return mean(planes);
}

/** @param {Float32Array[]} planes */
function mean(planes) {
  if (planes.length === 1) return planes[0];
  return planes[0].map((_, i) => planes.reduce((sum, plane) => sum + plane[i], 0) / planes.length);
}

/** Decodes with decodeAudioData, which needs the whole file in memory. @param {File} file @param {{signal?: AbortSignal}} options */
async function decodeAtOnce(file, { signal }) {
  let buffer;
  try {
    buffer = await new OfflineAudioContext(1, 1, SAMPLE_RATE).decodeAudioData(await file.arrayBuffer());
  } catch (error) {
    throw unreadable(file, error);
  }
  throwIfCancelled(signal);
  const writer = new WavWriter();
  writer.write(mean(Array.from({ length: buffer.numberOfChannels }, (_, channel) => buffer.getChannelData(channel))));
  return finished(writer, file);
}

/** The duration by the file's header. @param {File} file @returns {Promise<number | null>} in seconds */
function durationOf(file) {
  const url = URL.createObjectURL(file);
  const audio = new Audio();
  const found = new Promise((resolve) => {
    audio.onloadedmetadata = () => resolve(Number.isFinite(audio.duration) ? audio.duration : null);
    audio.onerror = () => resolve(null);
  });
  audio.preload = "metadata";
  audio.src = url;
  return found.finally(() => URL.revokeObjectURL(url));
}

/** @param {WavWriter} writer @param {{name: string}} file */
function finished(writer, file) {
  if (writer.length === 0) throw empty(file);
  return writer.finish();
}

/** @param {number | null} seconds @param {{name: string}} file */
export function checkDuration(seconds, file) {
  if (seconds === null || seconds <= LONGEST) return;
  throw new UserError(`This recording is longer than ${LONGEST / 3600} hours.`, { where: file.name, hint: "Cut it into parts." });
}

/** @param {number} rate in Hz @param {{name: string}} file */
export function checkRate(rate, file) {
  if (canResample(rate, SAMPLE_RATE)) return;
  throw new UserError(`This recording has ${rate.toLocaleString("en")} samples a second, which cannot be converted here.`, { where: file.name, hint: "Convert it to WAV with 16,000 samples a second." });
}

/** @param {{name: string}} file */
const tooLong = (file) => new UserError("This recording is too long for this browser.", {
  where: file.name,
  hint: `It decodes up to ${LONGEST_AT_ONCE / 60} minutes of this format. Cut it, or convert it to WAV, which may be ${LONGEST / 3600} hours long.`,
});

/** @param {{name: string}} file */
const empty = (file) => new UserError("The recording is 0 seconds long.", { where: file.name, hint: "Choose another one." });

/** @param {File} file @param {unknown} error */
function unreadable(file, error) {
  console.debug(error);
  return new UserError("This file could not be read as sound.", {
    where: file.name,
    hint: elsewhere(file, "sound") ?? `It may be damaged, or its format is one that this browser cannot decode. ${FORMATS}`,
  });
}

/** @type {Promise<any> | null} */
let library = null;

async function loadMediabunny() {
  library ??= importPart("mediabunny/mediabunny.min.js", "WAV files work without it.");
  try {
    return await library;
  } catch (error) {
    library = null;
    throw error;
  }
}
