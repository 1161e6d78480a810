/**
 * What cells can reach: this site, and the hosts that the visitor has allowed. The browser keeps to that by the policy that
 * the service worker gives the Lab's worker; here is the error that says so, also where there is no service worker.
 */
import { mayReach } from "../shared/lab-hosts.js";

/** @param {string} hosts with spaces between them */
export function limitNetwork(hosts) {
  const check = (/** @type {unknown} */ address) => {
    const url = new URL(String(/** @type {any} */ (address)?.url ?? address), location.href);
    if (mayReach(url, hosts)) return;
    throw new TypeError(`Cells may not reach ${url.host}. Add it to the hosts that cells may reach, under "Keys and settings", and restart Python.`);
  };
  const { fetch } = self;
  self.fetch = async (input, init) => {
    check(input);
    return fetch(input, init);
  };
  const { open } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function (/** @type {any[]} */ ...parts) {
    check(parts[1]);
    return open.apply(this, /** @type {any} */ (parts));
  };
  const kinds = /** @type {Record<string, any>} */ (self);
  for (const name of ["WebSocket", "EventSource", "WebTransport"]) {
    if (!kinds[name]) continue;
    kinds[name] = new Proxy(kinds[name], {
      construct(kind, parts) {
        check(parts[0]);
        return Reflect.construct(kind, parts);
      },
    });
  }
}
