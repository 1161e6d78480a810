/**
 * Markdown of answers as elements: by Marked, sanitised by DOMPurify. HTML in an answer is shown as text.
 */
import DOMPurify from "dompurify";
import { Marked } from "marked";
import { copyText, h } from "../../page/dom.js";

const TAGS = ["a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "input", "li", "ol", "p",
  "pre", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"];
const ATTRIBUTES = ["align", "checked", "class", "disabled", "href", "start", "type"];
const PLAIN_VALUES = ["align", "checked", "disabled", "start", "type"]; // attributes that are no addresses
const SCHEMES = /^(?:https?|mailto):/i;
const IN_ANSWERS = 4; // the highest heading of an answer: the page has h1 to h3 above it
const IN_NOTEBOOKS = 2;

/** @param {string} text */
const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");

/** @param {boolean} breaks whether the end of a line is one in the text, as models write @param {number} highest heading @returns {Marked} */
const reader = (breaks, highest) => new Marked({
  gfm: true,
  breaks,
  renderer: {
    html: ({ text }) => escaped(text),
    image: ({ text, href }) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`, // nothing is fetched from elsewhere
    heading({ tokens, depth }) {
      const level = Math.min(6, depth + highest - 1);
      return `<h${level}>${this.parser.parseInline(tokens)}</h${level}>`;
    },
  },
});

const ANSWERS = reader(true, IN_ANSWERS);
const NOTEBOOKS = reader(false, IN_NOTEBOOKS);

/** @param {string} html @returns {DocumentFragment} */
function sanitised(html) {
  const fragment = DOMPurify.sanitize(html, {
    ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ATTRIBUTES, ALLOWED_URI_REGEXP: SCHEMES, ADD_URI_SAFE_ATTR: PLAIN_VALUES, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true,
  });
  for (const link of fragment.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  for (const table of fragment.querySelectorAll("table")) {
    const frame = h("div", { class: "table-frame", tabindex: "0", role: "group", "aria-label": "Table" });
    table.replaceWith(frame);
    frame.append(table);
  }
  for (const box of fragment.querySelectorAll("input")) {
    if (box.type !== "checkbox") box.remove();
    else box.setAttribute("aria-label", box.checked ? "done" : "to do");
  }
  for (const block of fragment.querySelectorAll("pre")) frameCode(block);
  return fragment;
}

/** Puts a frame around a block of code, with its language and a button that copies it. @param {HTMLPreElement} block */
function frameCode(block) {
  const code = block.querySelector("code") ?? block;
  const language = /(?:^|\s)language-([\w+#.-]{1,30})/.exec(code.className)?.[1] ?? "";
  const copy = h("button", { type: "button", class: "quiet", "aria-label": language ? `Copy the ${language} code` : "Copy the code" }, "Copy");
  copy.addEventListener("click", () => copyText(copy, code.textContent, code));
  block.tabIndex = 0; // it can be scrolled by keyboard
  block.setAttribute("role", "group");
  block.setAttribute("aria-label", language ? `${language} code` : "Code");
  const frame = h("div", { class: "code-block" }, h("div", { class: "code-head" }, h("span", {}, language), copy));
  block.replaceWith(frame);
  frame.append(block);
}

/** Shows a text that grows: only the blocks that have changed are made again. */
export class MarkdownText {
  /** @param {HTMLElement} host @param {"answer" | "notebook"} [kind] of the text */
  constructor(host, kind = "answer") {
    this.host = host;
    this.marked = kind === "answer" ? ANSWERS : NOTEBOOKS;
    /** @type {{raw: string, nodes: ChildNode[]}[]} the shown blocks */
    this.blocks = [];
    this.text = "";
  }

  /** @param {string} text */
  show(text) {
    if (text === this.text) return;
    this.text = text;
    const lexed = this.marked.lexer(text);
    const tokens = lexed.filter(({ type }) => type !== "space");
    const same = tokens.findIndex(({ raw }, index) => raw !== this.blocks[index]?.raw);
    const first = same < 0 ? tokens.length : same;
    for (const { nodes } of this.blocks.splice(first)) for (const node of nodes) node.remove();
    for (const token of tokens.slice(first)) {
      const list = Object.assign([token], { links: lexed.links });
      const nodes = [...sanitised(this.marked.parser(list)).childNodes];
      this.host.append(...nodes);
      this.blocks.push({ raw: token.raw, nodes });
    }
  }
}
