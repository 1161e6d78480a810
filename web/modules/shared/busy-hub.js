/**
 * Answers of a hub that a later request may not get.
 */

/** Whether the hub refuses the request for now. @param {number} status of its answer */
export const isBusy = (status) => status === 429 || status >= 500;

/** What to do then. */
export const BUSY_HINT = "The hub gets too many requests, or does not work at the moment. Wait a minute, then try again.";
