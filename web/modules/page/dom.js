/**
 * Makes and finds elements.
 */

/**
 * The element of an id. Its kind is that in index.html, or of the call of `h` that makes it (scripts/check_types.mjs).
 * @type {{<K extends keyof ElementsById>(id: K): ElementsById[K], (id: string): HTMLElement}}
 */
export const byId = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));

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

/** Shows a dialog, and closes any other. @param {HTMLDialogElement} dialog */
export function openDialog(dialog) {
  for (const other of document.querySelectorAll("dialog")) if (other !== dialog && other.open) other.close();
  if (!dialog.open) dialog.showModal();
}

/**
 * Copies a text; if the browser refuses, selects it for the user to copy. The button shows the result.
 * @param {EventTarget} target the button @param {string} text @param {HTMLElement} shown the element that shows the text
 */
export async function copyText(target, text, shown) {
  const button = /** @type {HTMLButtonElement} */ (target);
  button.dataset.label ??= button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(shown);
    button.textContent = "Selected: press Ctrl+C";
  }
  setTimeout(() => (button.textContent = button.dataset.label), 2000);
}

/** localStorage, if there is one: stored settings are optional. */
export const memory = {
  /** @param {string} name @param {any} fallback */
  get(name, fallback) {
    try {
      const text = localStorage.getItem(`pyapp.${name}`);
      return text === null ? fallback : JSON.parse(text);
    } catch {
      return fallback;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(`pyapp.${name}`, JSON.stringify(value));
    } catch {
      // A private window, or the storage is full: the setting is lost with the page.
    }
  },
};
