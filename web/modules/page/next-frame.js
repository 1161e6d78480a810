/**
 * Waits until the browser has drawn.
 */

const LATEST = 200; // ms: in a tab behind others it does not draw

/** Resolves in a task of its own after the next frame. @returns {Promise<void>} */
export function nextFrame() {
  return new Promise((resolve) => {
    requestAnimationFrame(() => setTimeout(resolve));
    setTimeout(resolve, LATEST);
  });
}
