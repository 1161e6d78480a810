/**
 * Numbers in the memory that the page and the Lab's worker share.
 */
/** SIGINT: Pyodide raises KeyboardInterrupt. */
export const INTERRUPT = 2;
/** A cell waits for a line. */
export const ASKING = 1;
export const ANSWERED = 2;
/** The cell was stopped while it waited. */
export const REFUSED = 3;
/** Bytes of a line. */
export const LONGEST_ANSWER = 1 << 16;
