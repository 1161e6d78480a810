/**
 * Ids of what the visitor makes.
 */

/** A random UUID, as `crypto.randomUUID` makes them, which browsers lack on pages of http:// addresses other than localhost. */
export function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40; // version 4, and its variant: RFC 9562, section 5.4
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
