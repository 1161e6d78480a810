/** What the page's scripts share besides their imports. */

interface Window {
  /** The worker that boot.js has started, and what it has said so far (modules/page/engine.js takes both). */
  pyappEarly?: { worker: Worker; heard: (MessageEvent | ErrorEvent)[] } | null;
  /** The parts of the page, for tests and debugging. */
  pyappPage?: Record<string, any>;
}
declare var pyappEarly: Window["pyappEarly"];
declare var pyappPage: Window["pyappPage"];

/** The page's own events are CustomEvents; a listener's parameter is an Event. */
interface Event {
  readonly detail?: any;
}

interface ElementsById {}
