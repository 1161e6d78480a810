/**
 * A helper of the pool (pool.js): an instance of the kernels over the shared memory, with a stack of its own. It takes
 * shares of the work as long as it lives; between records it sleeps.
 */
self.onmessage = async ({ data: { program, memory, stack } }) => {
  /** @type {any} */
  let exports;
  try {
    ({ exports } = await /** @type {Promise<any>} */ (WebAssembly.instantiate(program, { env: { memory } })));
    exports.__stack_pointer.value = stack;
    exports.pool_help();
  } catch (error) {
    exports?.pool_lose(); // the engine may be waiting for this helper's share
    postMessage({ problem: String(error) });
  }
};
