/**
 * The button that speaks a text of the page. What it does is fetched when it is first pressed.
 */
import { importPart } from "../shared/site-parts.js";
import { h, single } from "./dom.js";
import { failedPart, showError } from "./errors.js";

/**
 * @param {import("./app.js").App} app @param {import("./models.js").Models} models @param {HTMLElement} slot shows errors
 * @param {() => string} text what it speaks @param {string} [name] for screen readers
 */
export function listenButton(app, models, slot, text, name = "Listen") {
  const button = h("button", { type: "button", class: "quiet", "aria-label": name, onclick: single(press) }, "Listen");
  async function press() {
    const sound = new AudioContext(); // browsers let a page play what begins with a press
    try {
      (await importPart("modules/page/listening.js")).listen({ app, models, slot, button, sound, text: text() });
    } catch (error) {
      sound.close();
      showError(slot, failedPart("The part that speaks could not be loaded.", error), { retry: press });
    }
  }
  return button;
}
