/**
 * One turn on the page: who, the text, its versions, its buttons, how it ended.
 */
import { copyText, h } from "../../page/dom.js";
import { drafts } from "./drafts.js";
import { MarkdownText } from "./markdown.js";
import { pictureButton } from "./picture-button.js";

/** By the reason of the end. @type {Record<string, string>} */
const ENDINGS = {
  length: "Stopped at the length that you set.",
  context: "The context is full: begin a new conversation, or edit an earlier turn.",
  cancelled: "You stopped it here.",
};
const CUT = "Cut off here: the page was closed, or the engine stopped.";
const [WIDEST, HIGHEST, SMALLEST] = [320, 280, 24]; // CSS pixels of a picture
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/**
 * @typedef {{edit: (text: string) => void, regenerate: () => void, goOn: () => void, show: (step: number) => void, listen: (text: () => string) => HTMLElement,
 *   versions: import("./conversation.js").Turn[], last: boolean, place: string, files: Map<string, Blob>}} Context `place`: of the draft of an edit,
 *   `files`: the pictures of the conversation
 */

export class TurnItem {
  /** @param {import("./conversation.js").Turn} turn @param {Context} context */
  constructor(turn, context) {
    this.turn = turn;
    this.context = context;
    /** The button that speaks the answer. @type {HTMLElement | undefined} */
    this.listen = undefined;
    /** Whether a field is in place of the text. */
    this.editing = false;
    /** What the shown foot says: it is made again when that changes. */
    this.said = "";
    const mine = turn.role === "user";
    const who = mine ? "You" : (turn.model ?? "Assistant");
    this.text = h("div", { class: "turn-text", dir: "auto" });
    this.foot = h("div", { class: "turn-foot" });
    this.element = h("li", { class: "turn", "data-role": turn.role, "data-turn": turn.id },
      h("h3", { class: "turn-who" }, who), turn.pictures ? picturesOf(turn.pictures, context.files) : null, this.text, this.foot);
    if (mine) this.#showText();
    else this.answer = new AnswerText(this.text);
    this.refresh();
    if (mine && drafts.get(context.place)) this.edit();
  }

  /** The text of a message. One of pictures alone has none. */
  #showText() {
    this.text.textContent = this.turn.text;
    this.text.hidden = !this.turn.text;
  }

  /** As it is from now on. @param {Context} context @returns {this} */
  update(context) {
    this.context = context;
    if (!this.editing) this.refresh();
    return this;
  }

  /** Shows the text so far. @param {boolean} [writing] whether the answer is being written @param {string} [draft] what is behind it for now */
  refresh(writing = false, draft = "") {
    const { turn, context: { versions, last } } = this;
    this.element.dataset.state = writing ? "writing" : "done";
    if (this.answer) this.answer.show(turn, draft);
    const said = JSON.stringify([writing, versions.indexOf(turn), versions.length, last, turn.text !== "", turn.reason, turn.figures]);
    if (said === this.said) return;
    this.said = said;
    this.foot.replaceChildren(...(writing ? [] : this.#foot()));
  }

  #foot() {
    const { turn, context } = this;
    const { versions, last } = context;
    const button = (/** @type {string} */ label, /** @type {string} */ name, /** @type {() => void} */ action) => h("button", { type: "button", class: "quiet", "aria-label": name, onclick: action }, label);
    const copy = h("button", { type: "button", class: "quiet", "aria-label": turn.role === "user" ? "Copy this message" : "Copy this answer" }, "Copy");
    copy.addEventListener("click", () => copyText(copy, turn.text, this.text));
    /** @type {HTMLElement[]} */
    const parts = turn.text || turn.role === "assistant" ? [copy] : [];
    if (turn.role === "user") parts.push(button("Edit", "Edit this message and go on from there", () => this.edit()));
    else {
      this.listen ??= context.listen(() => this.answer?.spoken ?? turn.text); // one: it stays while the answer is heard
      if (turn.text) parts.push(this.listen);
      parts.push(button("Regenerate", "Regenerate: write this answer again", context.regenerate));
      if (last && turn.text && turn.reason !== "stop") parts.push(button("Go on", "Go on with this answer", context.goOn));
    }
    if (versions.length > 1) parts.unshift(this.#versions());
    if (turn.role === "assistant") parts.push(h("p", { class: "turn-figures" }, figuresText(turn)));
    return parts;
  }

  #versions() {
    const { versions, show } = this.context;
    const index = versions.indexOf(this.turn);
    const step = (/** @type {number} */ by, /** @type {string} */ label, /** @type {string} */ sign) => {
      const there = index + by in versions;
      return h("button", { type: "button", class: "quiet", "aria-label": label, disabled: !there, onclick: () => show(by) }, sign);
    };
    return h("span", { class: "versions", role: "group", "aria-label": "Versions" },
      step(-1, "The version before", "‹"), h("span", {}, `${index + 1} / ${versions.length}`), step(1, "The next version", "›"));
  }

  /** Gives the focus to the button for one more version in the same direction, or to the other one. @param {number} step */
  focusVersions(step) {
    const buttons = /** @type {HTMLButtonElement[]} */ ([...this.foot.querySelectorAll(".versions button")]);
    (step < 0 ? buttons : buttons.reverse()).find(({ disabled }) => !disabled)?.focus();
  }

  /** A field in place of the text. What is typed is kept until it is sent or given up. */
  edit() {
    const { context, turn } = this;
    this.editing = true;
    this.said = "";
    const field = h("textarea", { dir: "auto", rows: Math.min(12, turn.text.split("\n").length + 1), "aria-label": "Edit your message" });
    field.value = drafts.get(context.place) || turn.text;
    const close = () => {
      this.editing = false;
      drafts.set(context.place, "");
      this.#showText();
      this.refresh();
    };
    const send = () => {
      if (!field.value.trim() && !turn.pictures) return field.focus();
      return context.edit(field.value);
    };
    field.addEventListener("input", () => drafts.set(context.place, field.value));
    field.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
        /** @type {HTMLElement} */ (this.foot.querySelector("[aria-label^=Edit]")).focus();
      } else if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        send();
      }
    });
    this.text.hidden = false;
    this.text.replaceChildren(field);
    this.foot.replaceChildren(
      h("button", { type: "button", class: "primary", onclick: send }, "Send"),
      h("button", { type: "button", class: "secondary", onclick: close }, "Cancel"));
    field.focus();
  }
}

/** @param {import("./pictures.js").Picture[]} pictures @param {Map<string, Blob>} files */
function picturesOf(pictures, files) {
  const share = pictures.length > 1 ? 2 : 1; // two beside each other
  return h("ul", { class: "turn-pictures", "aria-label": "Pictures" }, ...pictures.map((picture) => {
    const { file, name, width, height } = picture;
    const blob = files.get(file);
    if (!blob) return h("li", { class: "turn-picture-gone", dir: "auto" }, `${name}: this picture is not kept in this browser.`);
    const item = h("li", {}, pictureButton(picture, blob));
    const scale = Math.min(1, WIDEST / share / width, HIGHEST / share / height);
    const [across, down] = [width, height].map((side) => Math.max(SMALLEST, side * scale));
    item.style.width = `${across}px`; // the place is there before the picture is decoded, so that the page does not jump
    item.style.aspectRatio = `${across} / ${down}`;
    return item;
  }));
}

/** An answer: the thoughts of a reasoning model folded, the answer as Markdown. */
class AnswerText {
  /** @param {HTMLElement} host */
  constructor(host) {
    this.host = host;
    this.body = h("div", { class: "markdown", dir: "auto" });
    this.markdown = new MarkdownText(this.body);
    host.append(this.body);
  }

  /** The answer as it is read: without marks and thoughts. */
  get spoken() {
    return this.body.innerText;
  }

  /** @param {import("./conversation.js").Turn} turn @param {string} draft behind its text */
  show({ text, thoughts }, draft) {
    if (thoughts) {
      if (!this.thoughts) {
        const body = h("div", { class: "markdown", dir: "auto" });
        this.thoughts = new MarkdownText(body);
        this.host.prepend(h("details", { class: "thoughts" }, h("summary", {}, "Thoughts"), body));
      }
      this.thoughts.show(thoughts);
    }
    this.markdown.show(text + draft);
  }
}

/** How an answer ended, its speed, the context used. @param {import("./conversation.js").Turn} turn */
function figuresText({ reason, figures = {} }) {
  const { tokens, speed, context, used } = figures;
  const parts = [];
  if (tokens) parts.push(`${whole.format(tokens)} ${tokens === 1 ? "token" : "tokens"}`);
  if (speed) parts.push(`${speed < 10 ? speed.toFixed(1) : whole.format(speed)} tokens per second`);
  if (context) parts.push(`${whole.format(used ?? 0)} of ${whole.format(context)} tokens of context used`);
  const ending = reason ? ENDINGS[reason] : CUT;
  return [parts.join(" · "), ending].filter(Boolean).join(" · ");
}
