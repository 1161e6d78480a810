/**
 * Fields of settings whose values this browser remembers.
 */
import { memory } from "./dom.js";

/** @typedef {HTMLInputElement | HTMLSelectElement} Field */

export class RememberedFields {
  /**
   * Fills the fields with what was remembered, where it is sound, and remembers what the user changes.
   * @param {string} name under which the values are stored @param {Record<string, Field>} fields
   * @param {Record<string, any>} initial the first value of each: a text, a number, or whether it is checked
   */
  constructor(name, fields, initial) {
    this.name = name;
    const kept = memory.get(name, {});
    /** The last sound value of each field, and what else is stored with them. @type {Record<string, any>} */
    this.values = { ...kept, ...initial };
    for (const [key, field] of Object.entries(fields)) {
      if (typeof kept[key] === typeof initial[key]) this.values[key] = kept[key];
      write(field, this.values[key]);
      if (!field.checkValidity() || read(field) === "") write(field, (this.values[key] = initial[key])); // not ours
      field.addEventListener("change", () => {
        if (!field.reportValidity()) return; // the browser names the limits; the last sound value counts
        this.values[key] = read(field);
        this.store();
      });
    }
  }

  store() {
    memory.set(this.name, this.values);
  }
}

/** @param {Field} field */
const isBox = (field) => field instanceof HTMLInputElement && field.type === "checkbox";

/** @param {Field} field */
function read(field) {
  if (isBox(field)) return /** @type {HTMLInputElement} */ (field).checked;
  return field.type === "number" ? Number(field.value) : field.value;
}

/** @param {Field} field @param {any} value */
function write(field, value) {
  if (isBox(field)) /** @type {HTMLInputElement} */ (field).checked = value;
  else field.value = String(value);
}
