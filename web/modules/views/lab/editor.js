/**
 * An editor of Python: CodeMirror. Each editor is in a shadow root, because there its styles are sheets that scripts make,
 * which the page's content policy allows; in the page itself they would be <style> elements, which it forbids.
 */
import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, completionStatus } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentLess, indentMore } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { HighlightStyle, bidiIsolates, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { EditorState, Prec, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, ViewPlugin, drawSelection, highlightSpecialChars, keymap, lineNumbers, placeholder, showTooltip } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const PATIENCE = 150; // ms after a key until the signature is asked for
const BEFORE = 4000; // characters before the cursor that completion reads

/** Colours are the page's (css/lab.css), so they follow its theme. */
const COLOURS = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--code-keyword)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.comment], color: "var(--code-comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.variableName), tags.function(tags.definition(tags.variableName)), tags.className, tags.definition(tags.className)], color: "var(--code-name)" },
  { tag: [tags.meta], color: "var(--code-name)" },
]);

const THEME = EditorView.theme({
  "&": { color: "var(--ink)", backgroundColor: "var(--surface-sunken)", borderRadius: "10px", fontSize: "0.875rem" },
  "&.cm-focused": { outline: "2.5px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": { fontFamily: 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace', lineHeight: "1.5" },
  ".cm-content": { padding: "0.6rem 0", caretColor: "var(--ink)" },
  ".cm-line": { padding: "0 0.8rem 0 0.5rem" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--ink-soft)", border: "0" },
  ".cm-lineNumbers .cm-gutterElement": { minWidth: "2rem", paddingLeft: "0.4rem" },
  "&.cm-unmeasured .cm-gutters": { paddingTop: "0.6rem" },
  "&.cm-unmeasured .cm-lineNumbers .cm-gutterElement:not(:first-child)": { height: "1.5em !important" }, // the first one has no height
  ".cm-cursor": { borderLeftColor: "var(--ink)", borderLeftWidth: "2px" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { background: "var(--code-selection)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--accent-soft)", outline: "1px solid var(--accent)" },
  ".cm-errorLine": { backgroundColor: "var(--danger-soft)", boxShadow: "inset 3px 0 var(--danger)" },
  ".cm-placeholder": { color: "var(--ink-soft)" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--ink)", border: "1px solid var(--line-strong)", borderRadius: "8px", boxShadow: "var(--shadow)", maxWidth: "min(34rem, 90vw)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "0.15rem 0.5rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-signature": { padding: "0.35rem 0.6rem", fontSize: "0.8125rem" },
  ".cm-signature code": { display: "block", overflowWrap: "anywhere", fontFamily: "ui-monospace, Menlo, Consolas, monospace" },
  ".cm-signature p": { margin: "0.25rem 0 0", color: "var(--ink-soft)" },
});

/** Paper does not scroll: long lines are broken, then the numbers, which have the heights of whole lines, would not stand beside them. */
const ON_PAPER = new CSSStyleSheet();
ON_PAPER.replaceSync(`@media print {
  .cm-editor.cm-editor, .cm-editor .cm-scroller { display: block !important; overflow: visible !important; height: auto !important; outline: none; }
  .cm-editor .cm-content { white-space: pre-wrap; overflow-wrap: anywhere; }
  .cm-editor .cm-gutters, .cm-editor .cm-cursorLayer { display: none !important; }
}`);

/** CodeMirror measures no editor outside the window: until then it takes the lines for lower than they are, and the style says how the numbers stand. */
const MEASURED = ViewPlugin.define(() => ({
  measured: false,
  /** @param {import("@codemirror/view").ViewUpdate} update */
  update(update) {
    this.measured ||= update.geometryChanged && !update.docChanged;
  },
}), {
  provide: (plugin) => EditorView.editorAttributes.of((view) => /** @type {Record<string, string>} */ (view.plugin(plugin)?.measured ? {} : { class: "cm-unmeasured" })),
});

/** @type {import("@codemirror/state").StateEffectType<number | null>} the line of an error, from 1 */
const setErrorLine = StateEffect.define();
const errorLine = StateField.define({
  create: () => Decoration.none,
  update(shown, transaction) {
    for (const effect of transaction.effects) {
      if (!effect.is(setErrorLine)) continue;
      if (effect.value === null || effect.value < 1 || effect.value > transaction.state.doc.lines) return Decoration.none;
      return Decoration.set([Decoration.line({ class: "cm-errorLine" }).range(transaction.state.doc.line(effect.value).from)]);
    }
    return transaction.docChanged ? Decoration.none : shown;
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** @type {import("@codemirror/state").StateEffectType<import("@codemirror/view").Tooltip | null>} */
const setSignature = StateEffect.define();
const signatureTip = StateField.define({
  create: () => /** @type {import("@codemirror/view").Tooltip | null} */ (null),
  update(shown, transaction) {
    for (const effect of transaction.effects) if (effect.is(setSignature)) return effect.value;
    return shown && transaction.docChanged ? { ...shown, pos: transaction.changes.mapPos(shown.pos) } : shown;
  },
  provide: (field) => showTooltip.from(field),
});

/** @param {{text: string, doc: string}} signature */
function signatureElement({ text, doc }) {
  const host = document.createElement("div");
  host.className = "cm-signature";
  host.append(Object.assign(document.createElement("code"), { textContent: text }));
  if (doc && doc !== text) host.append(Object.assign(document.createElement("p"), { textContent: doc }));
  return { dom: host };
}

/**
 * @typedef {{changed: (text: string) => void, run: () => void, runAndGoOn: () => void, leave: () => void,
 *   complete: (text: string) => Promise<{from: number, names: {label: string, kind: string}[]} | null>,
 *   signature: (text: string) => Promise<{text: string, doc: string} | null>}} EditorActions
 */
export class Editor {
  /**
   * @param {HTMLElement} host @param {string} text @param {boolean} code whether it is Python, else a text
   * @param {string} label for screen readers @param {EditorActions} actions
   */
  constructor(host, text, code, label, actions) {
    this.actions = actions;
    this.label = label;
    this.passed = false;
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
    root.adoptedStyleSheets = [ON_PAPER]; // before the editor's own, which are added in front
    const keys = Prec.highest(keymap.of([
      { key: "Shift-Enter", run: () => (actions.runAndGoOn(), true) },
      { key: "Mod-Enter", run: () => (actions.run(), true) },
      { key: "Escape", run: (view) => this.#escape(view) },
    ]));
    const writing = code ? [
      python(), lineNumbers(), MEASURED, bidiIsolates(), indentOnInput(), indentUnit.of("    "), bracketMatching(), closeBrackets(), errorLine, signatureTip,
      autocompletion({ override: [(context) => this.#complete(context)], icons: false }),
      keymap.of([...closeBracketsKeymap, ...completionKeymap, { key: "Tab", run: (view) => acceptCompletion(view) || indentMore(view), shift: indentLess }]),
      EditorView.updateListener.of((update) => this.#follow(update)),
    ] : [EditorView.lineWrapping, placeholder("Text, in Markdown")];
    this.view = new EditorView({
      root, parent: root,
      state: EditorState.create({ doc: text, extensions: [
        keys, history(), highlightSpecialChars(), drawSelection(), syntaxHighlighting(COLOURS), THEME, writing,
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.contentAttributes.of(() => ({ tabindex: this.passed ? "-1" : "0", "aria-label": this.label, "aria-description": "Escape leaves the editor, Tab then goes on behind it.", spellcheck: code ? "false" : "true" })),
        EditorView.updateListener.of((update) => update.docChanged && actions.changed(update.state.doc.toString())),
      ] }),
    });
  }

  /** Closes what is open above the text; then leaves the editor. @param {EditorView} view */
  #escape(view) {
    if (completionStatus(view.state) === "active") return false; // CodeMirror closes the list
    if (view.state.field(signatureTip, false)) view.dispatch({ effects: setSignature.of(null) });
    this.actions.leave();
    return true;
  }

  /** @param {import("@codemirror/autocomplete").CompletionContext} context */
  async #complete(context) {
    const start = Math.max(0, context.pos - BEFORE);
    const before = context.state.sliceDoc(start, context.pos);
    if (!context.explicit && !/[\w.]$/.test(before)) return null;
    const found = await this.actions.complete(before);
    if (!found?.names.length) return null;
    return { from: start + found.from, options: found.names.map(({ label, kind }) => ({ label, type: kind, detail: kind === "variable" || kind === "property" ? "" : kind })), validFor: /^\w*$/ };
  }

  /** Shows the signature of the call in which the cursor is. @param {import("@codemirror/view").ViewUpdate} update */
  #follow(update) {
    if (!update.docChanged && !update.selectionSet) return;
    const { state } = update;
    const { head } = state.selection.main;
    const line = state.doc.lineAt(head);
    const shown = state.field(signatureTip);
    if (!shown && !update.docChanged) return; // only typing opens it
    clearTimeout(this.timer);
    if (!line.text.slice(0, head - line.from).includes("(")) {
      if (shown) this.timer = setTimeout(() => this.view.dispatch({ effects: setSignature.of(null) }));
      return;
    }
    this.timer = setTimeout(async () => {
      const found = await this.actions.signature(state.sliceDoc(Math.max(0, head - BEFORE), head));
      if (this.view.state.doc !== state.doc || this.view.state.selection.main.head !== head || !this.view.hasFocus) return;
      if (found || shown) this.view.dispatch({ effects: setSignature.of(found && { pos: head, above: true, create: () => signatureElement(found) }) });
    }, PATIENCE);
  }

  /** @param {number | null} line of an error, from 1 */
  markLine(line) {
    this.view.dispatch({ effects: setErrorLine.of(line) });
  }

  /** @param {string} label */
  rename(label) {
    this.label = label;
    this.view.dispatch({}); // the attributes are computed anew
  }

  /** Whether Tab passes this editor by: for those who have just left it, and would come back into it. @param {boolean} passed */
  pass(passed) {
    this.passed = passed;
    this.view.dispatch({}); // the attributes are computed anew
  }

  focus() {
    this.view.focus();
  }

  destroy() {
    clearTimeout(this.timer);
    this.view.destroy();
  }
}
