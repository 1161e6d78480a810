/**
 * The frame of the page: colours, views by the address's hash, closing of dialogs, files dropped anywhere.
 */
import { byId, h } from "./dom.js";

/** The button that switches between light and dark. Until the user presses it, the system decides. */
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
      // No storage: the setting is lost with the page.
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
 * Shows one view at a time, by the address's hash. The section of the view fires "shown".
 * @param {{id: string, title: string, page: string}[]} views each with a section `view-<id>`; `page` is the page's title
 */
export function setUpViews(views) {
  const bar = byId("views");
  bar.append(...views.map(({ id, title }) => h("a", { href: `#${id}` }, title)));
  bar.hidden = views.length < 2;
  const show = (wanted) => {
    for (const { id } of views) byId(`view-${id}`).hidden = id !== wanted.id;
    for (const link of bar.children) {
      if (link.getAttribute("href") === `#${wanted.id}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = wanted.page;
    byId(`view-${wanted.id}`).dispatchEvent(new Event("shown"));
  };
  const named = () => views.find(({ id }) => `#${id}` === location.hash);
  addEventListener("hashchange", () => {
    const wanted = named() ?? (location.hash === "" ? views[0] : null); // other hashes are targets within the view
    if (wanted) show(wanted);
  });
  show(named() ?? views[0]);
}

/** @param {HTMLElement} view */
export const isShown = (view) => !view.hidden;

/** Folds the settings on a phone, so that the content is visible first. */
export function foldSettings() {
  if (!matchMedia("(max-width: 60rem)").matches) return;
  for (const settings of document.querySelectorAll("details")) if (settings.classList.contains("settings")) settings.open = false;
}

/** Lets close buttons, and clicks outside a dialog, close it. */
export function setUpDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  }
}

/** @param {(files: File[], folder?: string) => void} take gets the files, and the name of the folder that contained them */
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
  addEventListener("drop", async (event) => {
    if (!withFiles(event)) return;
    event.preventDefault();
    depth = 0;
    overlay.hidden = true;
    const files = [...event.dataTransfer.files]; // both exist only during the event
    const folder = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).find((entry) => entry?.isDirectory);
    if (folder) take(await filesIn(/** @type {FileSystemDirectoryEntry} */ (folder)), folder.name);
    else take(files);
  });
}

/** The files directly in a folder. @param {FileSystemDirectoryEntry} folder @returns {Promise<File[]>} */
async function filesIn(folder) {
  const reader = folder.createReader();
  const files = [];
  for (;;) {
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) return files;
    for (const entry of entries) {
      if (entry.isFile) files.push(await new Promise((resolve, reject) => entry.file(resolve, reject)));
    }
  }
}
