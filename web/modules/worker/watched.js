/**
 * Requests from which nothing comes any more, as after a change of networks: browsers wait for ever.
 */
const SILENCE = 30; // seconds without a byte

/**
 * A signal for one request: aborted by the user's, and where `heard` was not called for SILENCE. `end` it afterwards.
 * @param {AbortSignal} user
 */
export function watched(user) {
  const controller = new AbortController();
  const stop = () => controller.abort();
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(stop, SILENCE * 1000);
  };
  const end = () => {
    clearTimeout(timer);
    user.removeEventListener("abort", stop);
  };
  if (user.aborted) stop();
  user.addEventListener("abort", stop);
  heard();
  return { signal: controller.signal, heard, end };
}
