/**
 * Compiles WebAssembly that is fetched.
 *
 * Firefox (seen in 140) compiles a stream in a thread that waits for the bytes. If the worker ends in the meantime, because
 * the page is reloaded, that thread waits for ever. It has as many such threads as the device has cores. When none is left,
 * no page of this site compiles anything in that tab. So Firefox gets all bytes at once.
 */
const STREAMS = !/ Firefox\//.test(globalThis.navigator?.userAgent ?? "");

/** Compiles while the file arrives, if the browser can and the host sends it with the type of .wasm files. @param {Response} response */
export async function compiled(response) {
  if (STREAMS && response.headers.get("Content-Type")?.startsWith("application/wasm")) return WebAssembly.compileStreaming(response);
  return WebAssembly.compile(await response.arrayBuffer());
}
