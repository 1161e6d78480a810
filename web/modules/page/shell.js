/**
 * The frame of the page: colours, keys, closing of dialogs, files dropped anywhere.
 */
import { byId, find } from "./dom.js";

/** The button that switches between light and dark. Until the user presses it, the system decides. Paper is white: what scripts draw is drawn anew for it. */
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
  addEventListener("storage", ({ key, newValue }) => { // another tab's button
    if (key !== "pyapp.theme" || !["light", "dark"].includes(newValue ?? "")) return;
    root.dataset.theme = /** @type {string} */ (newValue);
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", ({ matches }) => {
    if (!stored()) root.dataset.theme = matches ? "dark" : "light";
    show();
  });
  let shown = root.dataset.theme;
  addEventListener("beforeprint", () => ([shown, root.dataset.theme] = [root.dataset.theme, "light"]));
  addEventListener("afterprint", () => (root.dataset.theme = shown));
  show();
}

/** Tells the style sheets how much of the window the top bar covers: on telephones the links to the views take two lines. */
export function setUpTopbar() {
  const bar = find(document, ".topbar");
  new ResizeObserver(() => document.documentElement.style.setProperty("--topbar", `${bar.offsetHeight}px`)).observe(bar);
}

/** Enter presses once, however long it is held down, and the link to the content leaves the address of the view alone. */
export function setUpKeys() {
  addEventListener("keydown", (event) => {
    const pressed = /** @type {Element} */ (event.target).closest?.("button, input, summary");
    if (event.key === "Enter" && event.repeat && pressed) event.preventDefault();
  }, { capture: true });
  find(document, ".skip-link").addEventListener("click", (event) => {
    event.preventDefault();
    byId("main").focus();
  });
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
    find(dialog, "[data-close]").addEventListener("click", () => dialog.close());
    // A click beside it closes it; not the end of a double click that opened it, or of a text's selection in it.
    let pressed = /** @type {EventTarget | null} */ (null);
    dialog.addEventListener("pointerdown", ({ target }) => (pressed = target));
    dialog.addEventListener("click", ({ target, detail }) => target === dialog && pressed === dialog && detail < 2 && dialog.close());
  }
}

/**
 * @param {(files: File[], folder?: string) => void} take gets the files, and the name of the folder that contained them
 * @param {(types: string[]) => string} plan says what will happen with files of these MIME types
 * @param {(error: unknown) => void} fail a folder could not be read
 */
export function setUpDropping(take, plan, fail) {
  const overlay = byId("drop-overlay");
  /** What is dragged, if there are files in it. @param {DragEvent} event */
  const filesOf = ({ dataTransfer }) => (dataTransfer?.types.includes("Files") ? dataTransfer : null);
  let depth = 0;
  addEventListener("dragenter", (event) => {
    const dragged = filesOf(event);
    if (!dragged) return;
    depth += 1;
    overlay.hidden = false;
    find(overlay, "p").textContent = plan([...dragged.items].filter(({ kind }) => kind === "file").map(({ type }) => type));
  });
  addEventListener("dragleave", (event) => {
    if (filesOf(event)) depth = Math.max(0, depth - 1);
    overlay.hidden = depth === 0;
  });
  addEventListener("dragover", (event) => filesOf(event) && event.preventDefault());
  addEventListener("drop", async (event) => {
    const dropped = filesOf(event);
    if (!dropped) return;
    event.preventDefault();
    depth = 0;
    overlay.hidden = true;
    const files = [...dropped.files]; // all of these exist only during the event
    const entries = [...dropped.items].flatMap((item) => item.webkitGetAsEntry?.() ?? []);
    const folders = entries.filter(({ isDirectory }) => isDirectory).map((entry) => /** @type {FileSystemDirectoryEntry} */ (entry));
    if (!folders.length) return take(files);
    // Among the files, a folder is a file that nobody can read.
    const beside = files.filter(({ name }) => !folders.some((folder) => folder.name === name));
    try {
      const inside = await Promise.all(folders.map((folder) => filesIn(folder)));
      take([...beside, ...inside.flat()], entries.length === 1 ? folders[0].name : undefined);
    } catch (error) {
      fail(error);
    }
  });
}

/**
 * The files in a folder and in its folders, with their paths as a file field gives them.
 * @param {FileSystemDirectoryEntry} folder @param {number} [deeper] levels of folders @returns {Promise<File[]>}
 */
async function filesIn(folder, deeper = 1) {
  const reader = folder.createReader();
  const files = [];
  for (;;) {
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) return files;
    for (const entry of entries) {
      if (entry.isDirectory && deeper > 0) files.push(...await filesIn(entry, deeper - 1));
      if (!entry.isFile) continue;
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      Object.defineProperty(file, "webkitRelativePath", { value: entry.fullPath.slice(1) });
      files.push(file);
    }
  }
}
