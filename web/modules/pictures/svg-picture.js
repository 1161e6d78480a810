/**
 * Draws SVG files. The browser loads one as a picture, in which no script runs and nothing is fetched. Firefox draws none that says no
 * size, so each gets one: that at 200 pixels an inch, as pages of PDFs have.
 */
const SCALE = 200 / 96; // pixels in each of CSS
const LONGEST_SIDE = 16384; // pixels that every browser draws
/** CSS pixels of each unit. @type {Record<string, number>} */
const UNITS = { px: 1, pt: 96 / 72, pc: 16, in: 96, cm: 96 / 2.54, mm: 9.6 / 2.54, q: 2.4 / 2.54 };
const DEFAULT_SIZE = [300, 150]; // of CSS, for a picture that says none
const ROOT = /<(?:[\w-]+:)?svg(?=[\s>/])/;

/** @param {{name: string, type: string}} file */
export const isSvg = ({ name, type }) => type === "image/svg+xml" || /\.svg$/i.test(name);

/** @param {File} file @param {number} limit of pixels @returns {Promise<HTMLImageElement | null>} null: it is no SVG that the browser can draw */
export async function drawSvg(file, limit) {
  const text = await file.text();
  const start = text.search(ROOT);
  const root = start < 0 ? "" : tagAt(text, start);
  if (!root) return null;
  const [width, height] = sizeOf(root);
  if (!(width > 0 && height > 0)) return null;
  const scale = Math.min(SCALE, Math.sqrt(limit / (width * height)), LONGEST_SIDE / Math.max(width, height));
  const [across, down] = [width, height].map((side) => Math.max(1, Math.floor(side * scale)));
  const begin = text.slice(0, start) + withSize(root, [across, down], [width, height]);
  const picture = new Image(across, down);
  picture.src = await addressOf(new Blob([begin, text.slice(start + root.length)], { type: "image/svg+xml" }));
  return picture.decode().then(() => picture, () => null);
}

/** The tag that begins there, with its attributes; "" if it does not end. @param {string} text @param {number} start */
function tagAt(text, start) {
  let quote = "";
  for (let i = start; i < text.length; i += 1) {
    const letter = text[i];
    if (quote) quote = letter === quote ? "" : quote;
    else if (letter === ">") return text.slice(start, i + 1);
    else if (letter === '"' || letter === "'") quote = letter;
  }
  return "";
}

/** @param {string} root its tag @param {string} name @returns {string | null} */
function attribute(root, name) {
  const found = new RegExp(`\\s${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)')`).exec(root);
  return found && (found[1] ?? found[2]);
}

/** @param {string | null} text @returns {number} CSS pixels; NaN: it says none */
function lengthOf(text) {
  const [, number, unit] = /^([\d.]+(?:e[+-]?\d+)?)\s*([a-z]*)$/i.exec((text ?? "").trim()) ?? [];
  return Number(number) * (unit ? UNITS[unit.toLowerCase()] ?? NaN : 1);
}

/** In CSS pixels. @param {string} root */
function sizeOf(root) {
  const [width, height] = ["width", "height"].map((name) => lengthOf(attribute(root, name)));
  const [, , across, down] = (attribute(root, "viewBox") ?? "").trim().split(/[\s,]+/).map(Number);
  if (width && height) return [width, height];
  if (!across || !down) return DEFAULT_SIZE;
  if (width) return [width, (width * down) / across];
  return height ? [(height * across) / down, height] : [across, down];
}

/** @param {string} root @param {number[]} size in pixels @param {number[]} units as it was in CSS pixels */
function withSize(root, [width, height], units) {
  const box = attribute(root, "viewBox") ? "" : ` viewBox="0 0 ${units.join(" ")}"`;
  const without = root.replace(/\s(?:width|height)\s*=\s*(?:"[^"]*"|'[^']*')/g, "");
  return without.replace(/svg/, `svg width="${width}" height="${height}"${box}`);
}

/** As a data: address, which the page's content policy allows for pictures. @param {Blob} blob @returns {Promise<string>} */
export function addressOf(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(/** @type {string} */ (reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}
