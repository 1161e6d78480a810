/* Runs before anything is drawn: sets the colours, starts the worker, and shows the one message that is possible if the
   page was opened as a file. */
(function () {
  var root = document.documentElement;
  var stored = null;
  try {
    stored = localStorage.getItem("pyapp.theme");
  } catch (error) {
    stored = null; // no storage in this window: follow the system
  }
  var dark = window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = stored || (dark ? "dark" : "light");
  if (location.protocol === "file:") {
    document.addEventListener("DOMContentLoaded", function () {
      document.getElementById("boot-reason").textContent =
        "A browser cannot load the parts of a page that is opened as a file. Serve the folder instead: run " +
        "“make run”, or “python3 -m http.server” in it, and open the address that it prints.";
      root.dataset.boot = "failed";
    });
  } else if (window.crossOriginIsolated) {
    startWorker(); // without isolation the page may be about to be reloaded (modules/page/offline.js)
  }

  /* For the worker's name: the task, and the model of the last visit (modules/page/app.js remembers it). */
  function whatIsShown() {
    var speech = location.hash === "#transcribe";
    var model = null;
    try {
      model = JSON.parse(localStorage.getItem(speech ? "pyapp.speech-model" : "pyapp.model"));
    } catch (error) {
      // the first of the list
    }
    return ["pyapp", speech ? "transcribe" : "generate"].concat(model || []).join(" ");
  }

  /* Python takes longest, so it does not wait for the page's own modules. modules/page/engine.js takes the worker over,
     with what it has said until then. */
  function startWorker() {
    try {
      var early = { worker: new Worker("worker.js", { type: "module", name: whatIsShown() }), heard: [] };
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
