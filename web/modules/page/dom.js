/**
 * Makes and finds elements.
 */
import { present } from "../shared/present.js";

/**
 * The element of an id. Its kind is that in index.html, or of the call of `h` that makes it (scripts/check_types.mjs).
 * @type {{<K extends keyof ElementsById>(id: K): ElementsById[K], (id: string): HTMLElement}}
 */
export const byId = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));

/**
 * The first element that a selector finds: one that the page has for sure.
 * @type {{<K extends keyof HTMLElementTagNameMap>(root: ParentNode, selector: K): HTMLElementTagNameMap[K], (root: ParentNode, selector: string): HTMLElement}}
 */
export const find = (/** @type {ParentNode} */ root, /** @type {string} */ selector) => /** @type {any} */ (present(root.querySelector(selector), selector));

/**
 * An element with properties, event listeners ("onclick") and children.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node | string | null)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/**
 * For a button that takes a row away, or makes something: the second half of a double click, which may hit the row after it, does nothing.
 * @param {(event: MouseEvent) => unknown} work @returns {(event: MouseEvent) => void}
 */
export const single = (work) => (event) => void (event.detail !== 2 && work(event));

/** Shows a dialog, and closes any other. @param {HTMLDialogElement} dialog */
export function openDialog(dialog) {
  closeDialogs(dialog);
  if (!dialog.open) dialog.showModal();
}

/** @param {HTMLDialogElement} [but] stays as it is */
export function closeDialogs(but) {
  for (const dialog of document.querySelectorAll("dialog")) if (dialog !== but && dialog.open) dialog.close();
}

/** Copies a text by the old way, the only one on pages of http:// addresses; it needs a selection. @param {string} text */
function copiedByCommand(text) {
  const give = (/** @type {ClipboardEvent} */ event) => {
    event.clipboardData?.setData("text/plain", text);
    event.preventDefault();
  };
  document.addEventListener("copy", give);
  const copied = document.execCommand("copy");
  document.removeEventListener("copy", give);
  return copied;
}

/**
 * Copies a text; if the browser refuses, selects it for the user to copy. The button shows the result.
 * @param {HTMLButtonElement} button @param {string} text @param {HTMLElement} shown the element that shows the text
 */
export async function copyText(button, text, shown) {
  const label = (button.dataset.label ??= button.textContent ?? "");
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection()?.selectAllChildren(shown);
    button.textContent = copiedByCommand(text) ? "Copied" : "Selected: press Ctrl+C";
  }
  setTimeout(() => (button.textContent = label), 2000);
}

/**
 * Shows rows in a list. A row that looks as before stays the element that it is, so that a click that was begun on it ends on it,
 * also when the list is shown anew meanwhile. So what its buttons do may depend only on what it shows, and on ids.
 * @param {HTMLElement} list @param {HTMLElement[]} rows
 */
export function showRows(list, rows) {
  let place = list.firstElementChild;
  for (const row of rows) {
    let same = place;
    while (same && !same.isEqualNode(row)) same = same.nextElementSibling;
    if (!same) list.insertBefore(row, place);
    else {
      while (place !== same) place = removed(place);
      place = same.nextElementSibling;
    }
  }
  while (place) place = removed(place);
}

/** @param {Element | null} element @returns {Element | null} what stood behind it */
function removed(element) {
  const next = element?.nextElementSibling ?? null;
  element?.remove();
  return next;
}

/**
 * Replaces the rows of a list. The row at the place of the one with the focus gets it, in the button at the same place.
 * @param {HTMLElement} list @param {HTMLElement[]} rows @param {HTMLElement} otherwise gets it when no row can have it
 */
export function replaceRows(list, rows, otherwise) {
  const place = [...list.children].findIndex((row) => row.contains(document.activeElement));
  const inRow = place < 0 ? -1 : [...list.children[place].querySelectorAll("button")].indexOf(/** @type {any} */ (document.activeElement));
  list.replaceChildren(...rows);
  if (place < 0) return;
  const next = rows[Math.min(place, rows.length - 1)]?.querySelectorAll("button")[inRow];
  next?.focus();
  if (!next || document.activeElement !== next) otherwise.focus(); // it is disabled, or the list is hidden
}

/** When the button with the focus goes away: the focus is where it was before, or at the beginning of the content. @param {HTMLElement | null} before */
export function focusAgain(before) {
  if (before !== document.body) before?.focus({ preventScroll: true });
  if (before === document.body || document.activeElement !== before) byId("main").focus({ preventScroll: true });
}

const kindOf = (/** @type {any} */ value) => (Array.isArray(value) ? "array" : value === null ? "null" : typeof value);

/** What a tab remembers when it is reloaded: sessionStorage, where the browser permits it. */
export const tabMemory = {
  /** @param {string} name */
  get(name) {
    try {
      return sessionStorage.getItem(`pyapp.${name}`);
    } catch {
      return null;
    }
  },
  /** @param {string} name @param {string | null} value null: forget it */
  set(name, value) {
    try {
      if (value === null) sessionStorage.removeItem(`pyapp.${name}`);
      else sessionStorage.setItem(`pyapp.${name}`, value);
    } catch {
      // The browser refuses storage to this page: a reload shows nothing again.
    }
  },
};

/** localStorage, if there is one: stored settings are optional. */
export const memory = {
  /**
   * A stored value. One of another kind than the fallback (a list, an object, a text …) is not ours: pages of one origin share
   * the storage. A fallback of null stands for any kind.
   * @param {string} name @param {any} fallback
   */
  get(name, fallback) {
    try {
      const value = JSON.parse(localStorage.getItem(`pyapp.${name}`) ?? "null");
      return value !== null && (fallback === null || kindOf(value) === kindOf(fallback)) ? value : fallback;
    } catch {
      return fallback;
    }
  },
  /** @param {string} name @param {any} value */
  set(name, value) {
    try {
      localStorage.setItem(`pyapp.${name}`, JSON.stringify(value));
    } catch {
      // A private window, or the storage is full: the setting is lost with the page.
    }
  },
};
