/**
 * Detects features of this browser's WebAssembly by validating minimal modules that use them.
 */

/** A module `() -> v128` with the given function body. @param {number[]} instructions */
function moduleOf(instructions) {
  const body = [0x00, ...instructions, 0x0b];
  return new Uint8Array([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00], // magic, version
    ...[0x01, 0x05, 0x01, 0x60, 0x00, 0x01, 0x7b], // type 0: () -> v128
    ...[0x03, 0x02, 0x01, 0x00], // one function of type 0
    ...[0x0a, body.length + 2, 0x01, body.length, ...body],
  ]);
}

const ZERO_VECTOR = [0x41, 0x00, 0xfd, 0x0f]; // i32.const 0; i8x16.splat
const RELAXED_DOT = [0xfd, 0x93, 0x02]; // i32x4.relaxed_dot_i8x16_i7x16_add_s

/**
 * The best kernels that this browser runs: "relaxed" (relaxed SIMD), "simd" (128-bit SIMD), or null: neither.
 * @returns {"relaxed" | "simd" | null}
 */
export function bestInstructionSet() {
  if (typeof WebAssembly !== "object" || !WebAssembly.validate(moduleOf(ZERO_VECTOR))) return null;
  const relaxed = moduleOf([...ZERO_VECTOR, ...ZERO_VECTOR, ...ZERO_VECTOR, ...RELAXED_DOT]);
  return WebAssembly.validate(relaxed) ? "relaxed" : "simd";
}
