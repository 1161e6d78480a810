/**
 * A value that other parts of this page put there: it is missing only if they are wrong.
 * @template T @param {T | null | undefined} value @param {string} what @returns {T}
 */
export function present(value, what) {
  if (value === null || value === undefined) throw new Error(`${what} is missing`);
  return value;
}
