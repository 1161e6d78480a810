/**
 * The hosts that cells of the Lab may reach besides this site, as the visitor has named them. The service worker says the
 * same in the policy of the Lab's worker (service-worker.js), which the browser keeps.
 */
const HOST = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?$/;
const MOST = 20;

/** @param {string} text of the visitor: hosts or addresses @returns {string} the hosts, with spaces between them */
export function hostsIn(text) {
  const hosts = text.split(/[\s,;]+/).map((part) => part.toLowerCase().replace(/^\w+:\/\//, "").split("/")[0]).filter((host) => HOST.test(host));
  return [...new Set(hosts)].slice(0, MOST).join(" ");
}

/** Whether a cell may reach an address: encrypted ones, and those of this machine. @param {URL} url @param {string} hosts */
export function mayReach(url, hosts) {
  if (url.origin === location.origin || ["blob:", "data:"].includes(url.protocol)) return true; // no one is asked
  const local = ["localhost", "127.0.0.1"].includes(url.hostname);
  return hosts.split(" ").includes(url.host) && (["https:", "wss:"].includes(url.protocol) || (local && ["http:", "ws:"].includes(url.protocol)));
}
