/* Runs before anything is drawn: the colours, and the one message that a page opened as a file can still show. */
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
        "Browsers do not let a page that is opened as a file load its parts. Serve the folder instead: run " +
        "“make run”, or “python3 -m http.server” in it, and open the address that it prints.";
      root.dataset.boot = "failed";
    });
  }
})();
