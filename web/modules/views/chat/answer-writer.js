/**
 * Writes what a model answers into a turn of the conversation.
 *
 * @typedef {import("./conversation.js").Turn} Turn
 */

export class AnswerWriter {
  /**
   * @param {import("./conversation.js").Conversation} conversation @param {string | null} parent the turn that is answered
   * @param {Turn | undefined} answer to go on with; else the first event begins one
   * @param {{model: () => string | undefined, begun: () => void, grown: (text: string) => void}} actions the model's name; what
   *   happens when a turn has begun, and when it has grown by a text (none: by a thought, or a draft)
   */
  constructor(conversation, parent, answer, actions) {
    this.conversation = conversation;
    this.parent = parent;
    this.actions = actions;
    this.continued = answer !== undefined;
    /** Tokens of the answer before. */
    this.before = (answer?.text && answer.figures?.tokens) || 0;
    /** @type {Turn | undefined} */
    this.turn = answer;
    /** The text behind the answer so far, of a model that writes all places at once; it is not kept. */
    this.drafted = "";
  }

  /** @param {import("../../shared/protocol.js").TaskEvent} event @returns {boolean} whether it belongs to the answer */
  take(event) {
    if (event.type === "token" || event.type === "thought") {
      const turn = this.#begun();
      delete turn.reason;
      if (event.type === "thought") turn.thoughts = (turn.thoughts ?? "") + event.text;
      else turn.text += event.text;
      this.actions.grown(event.type === "token" ? event.text : "");
      return true;
    }
    if (event.type === "draft") {
      this.#begun();
      this.drafted = event.text;
      this.actions.grown("");
      return true;
    }
    if (event.type !== "metric" || event.name !== "decode_speed") return false;
    if (this.turn) this.turn.figures = { ...this.turn.figures, speed: event.value };
    return true;
  }

  #begun() {
    if (this.turn) return this.turn;
    this.turn = this.conversation.add("assistant", "", this.parent);
    this.turn.model = this.actions.model();
    this.actions.begun();
    return this.turn;
  }

  /** Notes how the answer ended. @param {Record<string, any>} done */
  end(done) {
    if (!this.turn) return;
    this.turn.reason = done.reason === "stop_string" ? "stop" : done.reason;
    const tokens = this.before + (done.new_tokens ?? 0);
    this.turn.figures = { ...this.turn.figures, tokens, context: done.context_size, used: done.context_tokens };
  }

  /** Whether the model has said nothing. */
  get empty() {
    return !this.continued && !this.turn?.text && !this.turn?.thoughts;
  }

  /** Removes a new turn in which there is nothing. */
  discardEmpty() {
    if (this.turn && this.empty) this.conversation.remove(this.turn);
  }
}
