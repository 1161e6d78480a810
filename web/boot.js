/**
 * Runs before anything is drawn: sets the colours, starts the worker, and says why the page cannot start: if it was opened
 * as a file, if the browser lacks something, or if a script does not arrive. The bundle of this script is for old
 * browsers too (scripts/bundle.py).
 */
import { allowOwnScripts } from "./modules/shared/trusted-types.js";

(function () {
  var root = document.documentElement;
  root.dataset.boot = "starting"; // without JavaScript the style hides what would never work
  var stored = null;
  try {
    stored = localStorage.getItem("pyapp.theme");
  } catch (error) {
    stored = null; // no storage in this window: follow the system
  }
  var dark = window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = stored === "light" || stored === "dark" ? stored : dark ? "dark" : "light";
  if (location.protocol === "file:") {
    refuse("A browser cannot load the parts of a page that is opened as a file. Serve the folder instead: run " +
      "“make run”, or “python3 -m http.server” in it, and open the address that it prints.", false);
    return;
  }
  window.pyappStartWorker = start; // modules/page/engine.js starts the others
  var lacking = lacks();
  if (lacking) {
    refuse("This browser has no " + lacking + ". ", true);
    return;
  }
  if (self.origin === "null") {
    refuse("It is in a frame that keeps it from its own files. Open it in a tab, or allow the frame its origin (sandbox=\"allow-scripts allow-same-origin\").", false);
    return;
  }
  addEventListener("error", function (event) {
    if (event.target instanceof HTMLScriptElement) missing(event.target.getAttribute("src"));
  }, true); // such errors do not bubble
  addEventListener("DOMContentLoaded", function () {
    var style = /** @type {HTMLLinkElement} */ (document.querySelector("link[rel=stylesheet]"));
    try {
      if (/** @type {CSSStyleSheet} */ (style.sheet).cssRules.length) return;
    } catch (error) {
      // it has none
    }
    missing(style.getAttribute("href"));
  });
  allowOwnScripts();
  if (window.crossOriginIsolated) {
    startWorker(); // without isolation the page may be about to be reloaded (modules/page/offline.js)
  }

  /* What the page's scripts use and this browser lacks; "" if nothing. */
  function lacks() {
    if (typeof WebAssembly !== "object" || typeof Worker !== "function") return "WebAssembly";
    if (!("noModule" in document.createElement("script"))) return "JavaScript modules";
    if (!Object.hasOwn) return "Object.hasOwn";
    if (!Array.prototype.findLast) return "Array.findLast";
    if (!window.HTMLDialogElement) return "dialogs";
    if (!window.CanvasRenderingContext2D || !CanvasRenderingContext2D.prototype.roundRect) return "rounded rectangles on canvases";
    return "";
  }

  /** @param {string | null} address of a script or style that did not arrive, or as something else */
  function missing(address) {
    refuse("A part of it did not arrive: " + address + ". Check your connection, then reload the page. Whoever serves it: " +
      ".js files must be sent as text/javascript, .css files as text/css.", false);
  }

  /**
   * Shows why the page does not start.
   * @param {string} why @param {boolean} browsers whether the list of browsers in index.html follows
   */
  function refuse(why, browsers) {
    root.dataset.boot = "failed";
    function show() {
      var reason = document.getElementById("boot-reason");
      if (reason) reason.textContent = why + (browsers ? reason.textContent : "");
    }
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", show);
    else show();
  }

  /** A worker of modules. Browsers without them do not ask for the type of the worker. @param {string} url @param {string} name */
  function start(url, name) {
    var modules = false;
    var worker = new Worker(url, {
      get type() {
        modules = true;
        return /** @type {"module"} */ ("module");
      },
      name: name,
    });
    if (modules) return worker;
    worker.terminate();
    refuse("This browser has no workers of modules. ", true);
    throw new Error("no workers of modules");
  }

  /* For the worker's name: the number of threads (modules/page/engine-settings.js), the task, and the model of the last
     visit (modules/page/app.js remembers it). */
  function whatIsShown() {
    /** @type {Record<string, string[]>} */
    var shown = { "#transcribe": ["transcribe", "speech-model"], "#chat": ["chat", "chat-model"], "#search": ["embed", "search-model"], "#translate": ["translate", "translate-model"], "#speak": ["speak", "voice"], "#forecast": ["forecast", "forecast-model"], "#read": ["read", "read-model"], "#pictures": ["detect", "detect-model"] };
    var task = shown[location.hash] || ["generate", "model"];
    var threads = null;
    var model = null;
    try {
      threads = JSON.parse(localStorage.getItem("pyapp.threads") || "null");
      model = JSON.parse(localStorage.getItem("pyapp." + task[1]) || "null");
    } catch (error) {
      // the first of the list, and as many threads as there are cores for
    }
    return ["pyapp", typeof threads === "number" ? threads : "auto", task[0]].concat(model || []).join(" ");
  }

  /* Python takes longest, so it does not wait for the page's own modules. modules/page/engine.js takes the worker over,
     with what it has said until then. */
  function startWorker() {
    try {
      /** @type {NonNullable<Window["pyappEarly"]>} */
      var early = { worker: start("worker.js", whatIsShown()), heard: [] };
      early.worker.onmessage = early.worker.onerror = /** @type {(event: any) => void} */ (function (event) {
        event.preventDefault();
        early.heard.push(event);
      });
      window.pyappEarly = early;
    } catch (error) {
      // The page tries again, and reports the error.
    }
  }
})();
