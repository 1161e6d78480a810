/**
 * Pictures of messages: made ready when they are attached, shown small, and as a model or a server gets them.
 *
 * @typedef {{file: string, name: string, width: number, height: number}} Picture `file`: its name among the files of the conversation;
 *   width and height in pixels, as it is kept
 */
import { checkPixels, decodedPicture, onCanvas } from "../../pictures/decoded-picture.js";
import { addressOf } from "../../pictures/svg-picture.js";
import { UserError } from "../../shared/protocol.js";
import { randomId } from "../../shared/random-id.js";

const SEEN_PIXELS = 1 << 22; // of a picture: more than the models here look at, or have room for
const KEPT_BYTES = 8 << 20; // of a file that is kept as it is
const KEPT_TYPES = ["image/png", "image/jpeg", "image/webp"]; // which every browser decodes, in a worker too
const SHOWN_PIXELS = 1 << 18; // of what the conversation shows

/** Addresses of small copies: the content policy allows data: for pictures. @type {WeakMap<Blob, Promise<string>>} */
const small = new WeakMap();

/**
 * Makes a file ready for a message: it is decoded, and copied: smaller where it is large, as JPEG where it is of a kind that is not kept.
 * @param {File} file @returns {Promise<{picture: Picture, blob: Blob, from: string}>} `from`: what was made smaller; "" for nothing.
 *   UserError for a file that is no picture, and for one that is too large
 */
export async function readied(file) {
  if (file.type === "application/pdf" || /\.pdf$/i.test(file.name)) {
    throw new UserError("This is a PDF, not a picture.", { where: file.name, hint: "Open it in the Read view, which reads the text of its pages." });
  }
  const drawn = await decodedPicture(file, SEEN_PIXELS);
  const from = `${drawn.width.toLocaleString("en")} × ${drawn.height.toLocaleString("en")}`;
  const { canvas, smaller } = onCanvas(drawn, SEEN_PIXELS, file.name);
  const { width, height } = canvas;
  const same = !smaller && file.size <= KEPT_BYTES && KEPT_TYPES.includes(file.type);
  const blob = same ? new Blob([await file.arrayBuffer()], { type: file.type }) : await encoded(canvas, file.name);
  small.set(blob, Promise.resolve(addressIn(canvas)));
  return { picture: { file: `picture ${randomId()}`, name: file.name || "picture", width, height }, blob, from: smaller ? from : "" };
}

/** @param {HTMLCanvasElement} canvas @param {string} name @returns {Promise<Blob>} */
async function encoded(canvas, name) {
  checkPixels(name);
  const failed = () => new UserError("There is not enough memory for this picture.", { where: name, hint: "Make it smaller, or close other tabs." });
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(failed())), "image/jpeg", 0.92));
}

/** @param {HTMLCanvasElement} canvas */
const addressIn = (canvas) => onCanvas(canvas, SHOWN_PIXELS, "").canvas.toDataURL("image/jpeg", 0.85);

/** Shows a kept picture, as soon as it is decoded. @param {HTMLImageElement} image @param {Blob} blob @param {string} name */
export async function showSmall(image, blob, name) {
  if (!small.has(blob)) small.set(blob, decodedPicture(new File([blob], name, { type: blob.type }), SHOWN_PIXELS).then((drawn) => onCanvas(drawn, SHOWN_PIXELS, name).canvas.toDataURL("image/jpeg", 0.85)));
  try {
    image.src = await /** @type {Promise<string>} */ (small.get(blob));
  } catch (error) {
    console.debug(error); // damaged: its alternative text is shown
  }
}

/**
 * Messages with what stands for their pictures.
 * @param {object[]} messages of Conversation.messages @param {(picture: Picture) => unknown} partOf the part of a message; a text stands for
 *   one that the model does not get @returns {any[]}
 */
export const withParts = (messages, partOf) => messages.map((/** @type {any} */ message) => {
  if (typeof message.content === "string") return message;
  const parts = message.content.map((/** @type {any} */ part) => (part.type === "image" ? partOf(part.image) : part));
  const asText = parts.every((/** @type {any} */ part) => part.type === "text");
  return { ...message, content: asText ? parts.map((/** @type {any} */ { text }) => text).join("\n\n") : parts };
});

/** What stands for a picture that a model does not get. @param {Picture} picture */
export const nameAlone = ({ name }) => ({ type: "text", text: `[picture: ${name}]` });

/** As OpenAI's interface has it. @param {Blob} blob */
export const urlPart = async (blob) => ({ type: "image_url", image_url: { url: await addressOf(blob) } });
