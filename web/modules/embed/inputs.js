/**
 * What other pages give to models, as the worker reads it: sounds as WAVE files, pictures as pixels, conversations with pictures.
 *
 * @typedef {Blob | HTMLImageElement | HTMLCanvasElement | OffscreenCanvas | ImageBitmap | ImageData} Picture
 * @typedef {{type: "text", text: string} | {type: "image", image: Blob}} Part of a message
 * @typedef {{role: string, content: string | Part[]}} Message `role`: system, user or assistant
 */
import { toWav } from "../audio/decoder.js";
import { WavWriter } from "../audio/wav-writer.js";
import { decodedPicture, onCanvas, pixelsOf } from "../pictures/decoded-picture.js";
import { UserError } from "../shared/protocol.js";

const PIXELS = 1 << 23; // of a picture; larger ones are made smaller

/** @param {string} text @returns {string} */
export function textIn(text) {
  if (typeof text !== "string") throw new UserError("This is not a text.", { where: String(text), hint: "Give a string." });
  return text;
}

/** @param {Blob | Float32Array} sound a recording in any format of the browser, or samples of one channel at 16 kHz @param {AbortSignal} signal */
export async function soundIn(sound, signal) {
  if (sound instanceof Float32Array) {
    const writer = new WavWriter();
    writer.write(sound);
    return { audio: writer.finish(), name: "samples" };
  }
  if (!(sound instanceof Blob)) throw new UserError("This is not a sound.", { hint: "Give a File, a Blob, or a Float32Array of samples at 16 kHz." });
  const file = sound instanceof File ? sound : new File([sound], "recording");
  return { audio: await toWav(file, { signal, onProgress: () => {} }), name: file.name };
}

/** @param {Picture} picture @returns {Promise<{pixels: Uint8ClampedArray, width: number, height: number, name: string}>} */
export async function pixelsIn(picture) {
  const name = picture instanceof File ? picture.name : "picture";
  const { data, width, height } = picture instanceof ImageData ? picture : pixelsOf(onCanvas(await drawable(picture), PIXELS, name).canvas, name);
  return { pixels: data, width, height, name };
}

/** @param {Exclude<Picture, ImageData>} picture @returns {Promise<ImageBitmap | HTMLImageElement>} */
async function drawable(picture) {
  if (picture instanceof Blob) return decodedPicture(picture instanceof File ? picture : new File([picture], "picture"), PIXELS);
  if (picture instanceof HTMLImageElement) await picture.decode();
  const known = [HTMLImageElement, HTMLCanvasElement, ImageBitmap, globalThis.OffscreenCanvas].some((kind) => kind && picture instanceof kind);
  if (!known) throw new UserError("This is not a picture.", { hint: "Give a File, a Blob, an image, a canvas, an ImageBitmap or ImageData." });
  return createImageBitmap(picture); // it is closed when it was drawn
}

/**
 * The messages of a conversation, and the files of their pictures: parts have the numbers of these.
 * @param {string | Message[]} input a text is a user's message
 */
export async function conversationIn(input) {
  /** @type {Message[]} */
  const messages = typeof input === "string" ? [{ role: "user", content: input }] : input;
  if (!Array.isArray(messages)) throw new UserError("This is no conversation.", { where: String(input), hint: 'Give a string, or messages: [{ role: "user", content: "…" }].' });
  /** @type {Blob[]} */
  const seen = [];
  const numbered = (/** @type {Part} */ part) => (part.type === "image" ? { type: "image", image: seen.push(part.image) - 1 } : part);
  const asked = messages.map(({ role, content }) => ({ role, content: Array.isArray(content) ? content.map(numbered) : content }));
  const pictures = await Promise.all(seen.map(async (blob, i) => ({ name: `picture ${i + 1}`, bytes: await blob.arrayBuffer() })));
  return { messages: asked, pictures };
}
