/**
 * <text-reader>: shows a picture, which is chosen or has the address `src`, and the text in it. Frameworks use it as any element:
 * `src` is its attribute, and the event "read" has the text in `detail`. All elements of a page share one engine.
 */
import { Engine } from "./pyapp/pyapp.js"; // the site's files lie in the folder pyapp beside this file

/** @type {Promise<import("./pyapp/pyapp.js").Model<"read">> | null} */
let model = null;

/** The model, which the first element loads. */
function reader() {
  model ??= new Engine({ task: "read" }).load("read", "reader");
  model.catch(() => (model = null)); // the next one tries again
  return model;
}

class TextReader extends HTMLElement {
  static observedAttributes = ["src"];

  #run = null; // what is read now

  constructor() {
    super();
    this.attachShadow({ mode: "open" }).innerHTML = `
      <style>
        :host { display: block; margin-block: 1rem; }
        img { display: block; max-width: 100%; max-height: 20rem; }
        div { white-space: pre-wrap; overflow-wrap: anywhere; min-height: 1.5em; }
      </style>
      <label>A picture: <input type="file" accept="image/*"></label>
      <img alt="The picture that is read" hidden>
      <p role="status"></p>
      <div dir="auto"></div>`;
    this.#part("input").addEventListener("change", ({ target }) => target.files[0] && this.read(target.files[0]));
  }

  disconnectedCallback() {
    this.#run?.stop();
  }

  async attributeChangedCallback(_, __, address) {
    if (!address) return;
    const response = await fetch(address).catch(() => null);
    if (response?.ok) this.read(await response.blob());
    else this.#part("p").textContent = `The picture ${address} could not be fetched.`;
  }

  /** Shows a picture and reads it. Another one takes its place. @param {Blob} picture */
  async read(picture) {
    this.#run?.stop();
    const [image, status, text] = ["img", "p", "div"].map((name) => this.#part(name));
    URL.revokeObjectURL(image.src);
    [image.src, image.hidden, text.textContent, status.textContent] = [URL.createObjectURL(picture), false, "", "Reading…"];
    const before = this.#run;
    try {
      const run = (await reader()).run(picture);
      if (this.#run !== before) return run.stop(); // another picture was given meanwhile
      this.#run = run;
      const found = await run;
      if (this.#run !== run) return;
      text.textContent = found.text;
      status.textContent = found.text ? "" : "No text was found.";
      this.dispatchEvent(new CustomEvent("read", { detail: found.text, bubbles: true }));
    } catch ({ message, hint }) {
      status.textContent = [message, hint].filter(Boolean).join(" ");
    }
  }

  #part(name) {
    return this.shadowRoot.querySelector(name);
  }
}

customElements.define("text-reader", TextReader);
