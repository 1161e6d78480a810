/**
 * Names of files that every system can store.
 */
const NAME_BYTES = 240; // file systems have room for 255; a number may come behind it
/** Names of devices, which Windows gives to no file, whatever their ending. */
const DEVICE = /^(con|prn|aux|nul|(com|lpt)[0-9\u00b9\u00b2\u00b3])(?=\s*(\.|$))/i;

/** The name without what file systems refuse, and marks that would turn the letters round. @param {string} name of one file or folder */
export function safeName(name) {
  const plain = name.replace(/[/\\:*?"<>|\u0000-\u001f\u007f]/g, "_").replace(/[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "");
  return shorter(plain.trim().replace(/^\.+/, "_").replace(/[. ]+$/, "").replace(DEVICE, "$1_") || "_");
}

/** A name before its ending, and the ending. @param {string} name */
export function parted(name) {
  const ending = /\.[^./]{1,5}$/.exec(name)?.[0] ?? "";
  return [name.slice(0, name.length - ending.length), ending];
}

/** A name that file systems have room for, with its ending. @param {string} name */
function shorter(name) {
  if (new TextEncoder().encode(name).length <= NAME_BYTES) return name;
  const [stem, ending] = parted(name);
  const { read } = new TextEncoder().encodeInto(stem, new Uint8Array(NAME_BYTES - new TextEncoder().encode(ending).length));
  return stem.slice(0, read).trimEnd() + ending;
}
