/**
 * The frame: colours, views by the address's hash, dialogs that close, files dropped anywhere.
 */
import { byId, h } from "./dom.js";

/** The button between light and dark; until it is used, the system decides. */
export function setUpTheme() {
  const root = document.documentElement;
  const button = byId("toggle-theme");
  const show = () => button.setAttribute("aria-pressed", String(root.dataset.theme === "dark"));
  const stored = () => {
    try {
      return localStorage.getItem("pyapp.theme");
    } catch {
      return null;
    }
  };
  button.addEventListener("click", () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("pyapp.theme", root.dataset.theme);
    } catch {
      // No storage: the choice lasts as long as the page.
    }
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", ({ matches }) => {
    if (!stored()) root.dataset.theme = matches ? "dark" : "light";
    show();
  });
  show();
}

/**
 * Shows one view at a time; the bar of views appears when there are several.
 * @param {{id: string, title: string}[]} views each with a section `view-<id>` in the page
 */
export function setUpViews(views) {
  const bar = byId("views");
  bar.append(...views.map(({ id, title }) => h("a", { href: `#${id}` }, title)));
  bar.hidden = views.length < 2;
  const show = () => {
    const wanted = views.find(({ id }) => `#${id}` === location.hash) ?? views[0];
    for (const { id } of views) byId(`view-${id}`).hidden = id !== wanted.id;
    for (const link of bar.children) {
      if (link.hash === `#${wanted.id}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  };
  addEventListener("hashchange", show);
  show();
}

/** Close buttons, and a click beside the dialog. */
export function setUpDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }
}

/** @param {(files: File[]) => void} take */
export function setUpDropping(take) {
  const overlay = byId("drop-overlay");
  const withFiles = (event) => event.dataTransfer?.types.includes("Files");
  let depth = 0;
  addEventListener("dragenter", (event) => {
    if (!withFiles(event)) return;
    depth += 1;
    overlay.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (withFiles(event)) depth = Math.max(0, depth - 1);
    overlay.hidden = depth === 0;
  });
  addEventListener("dragover", (event) => withFiles(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!withFiles(event)) return;
    event.preventDefault();
    depth = 0;
    overlay.hidden = true;
    take([...event.dataTransfer.files]);
  });
}
