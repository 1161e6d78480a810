/**
 * Pictures from files: decoded by the browser, after the size that the header announces was compared with a limit, and drawn on a canvas.
 */
import { disableTypes, imageSize } from "image-size";
import { UserError, megabytes } from "../shared/protocol.js";
import { elsewhere } from "../page/file-kinds.js";
import { drawSvg, isSvg } from "./svg-picture.js";

const FILE_LIMIT = 256 << 20; // bytes
const PIXEL_LIMIT = 1 << 27; // as pyapp/vision/reading.py has it
const HEAD = 1 << 20; // bytes in which the size of a picture is said
const KNOWN = "PNG, JPEG, WebP, GIF, BMP, AVIF and SVG can be read.";
const UNKNOWN = /\.(?!(png|apng|jpe?g|jfif|webp|gif|bmp|avif|svg)$)\w+$/i; // not known to most browsers
/** What files begin with that are no pictures that browsers know, whatever they are called. */
const BEGINNINGS = [
  { begins: /^.{4}ftyp(hei|hev|mif1|msf1)/s, what: "a HEIC picture, as iPhones take them" }, { begins: /^(II\*\0|MM\0\*)/, what: "a TIFF picture" },
  { begins: /^%PDF/, what: "a PDF" }, { begins: /^\s*<(!doctype )?html/i, what: "a web page" },
];

disableTypes(["psd", "dds", "ktx", "pnm", "tga", "icns"]); // no browser decodes these, so that their sizes do not matter

/**
 * A picture, by the browser's decoders: upright, as the file says. UserError for a file that is none, is damaged or too large.
 * @param {File} file @param {number} limit pixels of one without a size of its own (SVG) @returns {Promise<ImageBitmap | HTMLImageElement>}
 */
export async function decodedPicture(file, limit) {
  if (file.size === 0) throw new UserError("This file is empty.", { where: file.name, hint: "Choose another picture." });
  if (file.size > FILE_LIMIT) throw new UserError(`This picture has ${megabytes(file.size)}.`, { where: file.name, hint: `At most ${megabytes(FILE_LIMIT)} are read.` });
  const head = await headOf(file);
  if (isSvg(file)) {
    const picture = await drawSvg(file, limit);
    if (picture) return picture;
    throw new UserError("This picture cannot be decoded.", { where: file.name, hint: `It may be damaged. ${KNOWN}` });
  }
  checkSize(announcedSize(head), file);
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch (error) {
    console.debug(error);
    const reader = elsewhere(file, "picture");
    if (reader) throw new UserError("This is not a picture.", { where: file.name, hint: reader });
    if (UNKNOWN.test(file.name)) throw new UserError("This kind of picture cannot be read here.", { where: file.name, hint: "Save it as PNG or JPEG, then drop that." });
    const text = new TextDecoder("latin1").decode(head.subarray(0, 32));
    const found = BEGINNINGS.find(({ begins }) => begins.test(text));
    if (found) throw new UserError(`This is ${found.what}, whatever its name says.`, { where: file.name, hint: found.what === "a PDF" ? "Give it a name that ends in .pdf." : "Save it as PNG or JPEG, then drop that." });
    throw new UserError("This picture cannot be decoded.", { where: file.name, hint: `It may be damaged. ${KNOWN}` });
  }
  checkSize(bitmap, file);
  return bitmap;
}

/** @param {File} file */
async function headOf(file) {
  try {
    return new Uint8Array(await file.slice(0, HEAD).arrayBuffer());
  } catch {
    throw new UserError("The file has changed or is gone since you chose it.", { where: file.name, hint: "Choose it again." });
  }
}

/** The size that a file's header says, before anything is decoded. @param {Uint8Array} head @returns {{width: number, height: number} | null} */
function announcedSize(head) {
  try {
    return imageSize(head);
  } catch {
    return null; // the browser says what is wrong with it
  }
}

/** @param {{width: number, height: number} | null} size @param {File} file */
function checkSize(size, file) {
  if (!size) return;
  if (!size.width || !size.height) throw new UserError("This picture has no pixels.", { where: file.name, hint: "Save it again, then drop that." });
  if (size.width * size.height <= PIXEL_LIMIT) return;
  throw new UserError(`This picture has ${size.width.toLocaleString("en")} × ${size.height.toLocaleString("en")} pixels.`, {
    where: file.name,
    hint: `At most ${Math.floor(PIXEL_LIMIT / 1e6)} million are read. Make it smaller first.`,
  });
}

/**
 * Draws a picture on white, of at most `limit` pixels. Its memory is freed.
 * @param {ImageBitmap | HTMLImageElement | HTMLCanvasElement} drawn @param {number} limit @param {string} name for the error @param {number} [turns] quarters to the right
 * @returns {{canvas: HTMLCanvasElement, smaller: boolean}}
 */
export function onCanvas(drawn, limit, name, turns = 0) {
  const { width, height } = drawn;
  const scale = Math.min(1, Math.sqrt(limit / (width * height)));
  const canvas = document.createElement("canvas");
  const [across, down] = [width, height].map((side) => Math.max(1, Math.floor(side * scale)));
  [canvas.width, canvas.height] = turns % 2 ? [down, across] : [across, down];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) throw new UserError("There is not enough memory for this picture.", { where: name, hint: "Make it smaller, or close other tabs." });
  context.fillStyle = "#fff"; // behind what is transparent
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = "high";
  context.translate(canvas.width / 2, canvas.height / 2);
  context.rotate((turns * Math.PI) / 2);
  context.drawImage(drawn, -across / 2, -down / 2, across, down);
  context.resetTransform();
  if (drawn instanceof ImageBitmap) drawn.close();
  return { canvas, smaller: scale < 1 };
}

/** The pixels of a canvas. @param {HTMLCanvasElement} canvas @param {string} name for the error @returns {ImageData} */
export function pixelsOf(canvas, name) {
  const context = canvas.getContext("2d");
  if (!context) throw new UserError("There is not enough memory for this picture.", { where: name, hint: "Make it smaller, or close other tabs." });
  checkPixels(name);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

/** Browsers that resist fingerprinting (Tor, LibreWolf, a setting of Firefox) give pages other pixels than they have drawn. @param {string} name for the error */
export function checkPixels(name) {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  if (!context) return;
  context.fillStyle = "#14285a";
  context.fillRect(0, 0, 8, 8);
  const { data } = context.getImageData(0, 0, 8, 8);
  const wrong = data.filter((value, i) => Math.abs(value - [20, 40, 90, 255][i % 4]) > 8); // some add a little noise, which does no harm
  if (wrong.length > data.length / 8) throw new UserError("This browser hides the pixels of pictures from this page.", { where: name, hint: "It resists fingerprinting. Allow this site to use canvas data, by the sign beside its address or in the settings, then choose the picture again." });
}
