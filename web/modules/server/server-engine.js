/**
 * A server with OpenAI's interface in place of the engine: the requests `chat` and `transcribe` with the events that the
 * engine gives.
 *
 * @typedef {import("../shared/protocol.js").TaskEvent} TaskEvent
 * @typedef {import("../shared/protocol.js").DoneEvent} DoneEvent
 * @typedef {{id: string, task?: string, languages?: string[], translates?: boolean}} ServedModel
 * @typedef {{signal?: AbortSignal, onEvent?: (event: TaskEvent) => void}} Options
 */
import { UserError, nameOf } from "../shared/protocol.js";

const CORS = "Check the address, and that the server runs. A server of another site must allow this page (`pyapp serve --cors ORIGIN`), and have https unless it is on this computer.";

export class ServerEngine {
  /** @param {string} address of the server, with or without "/v1" @param {string} key "" for none */
  constructor(address, key) {
    this.address = address.replace(/\/+$/, "").replace(/\/v1$/, "");
    this.key = key;
  }

  /** The models of the server for a task; those of servers that do not tell their tasks may be for any. @param {string} task @param {AbortSignal} [signal] @returns {Promise<ServedModel[]>} */
  async models(task, signal) {
    const response = await this.#ask("/v1/models", { signal });
    const { data } = await response.json().catch(() => ({}));
    if (!Array.isArray(data)) throw new UserError("This is not a server with OpenAI’s interface.", { where: this.address, hint: "Give its address without a path, such as http://localhost:8000." });
    return data.filter((model) => typeof model?.id === "string" && (model.task ?? task) === task);
  }

  /**
   * As Engine.call. @param {"chat" | "transcribe"} method @param {any} params @param {Options} [options] @returns {Promise<DoneEvent>}
   */
  async call(method, params, { signal, onEvent = () => {} } = {}) {
    try {
      return await (method === "chat" ? this.#chat(params, signal, onEvent) : this.#transcribe(params, signal, onEvent));
    } catch (error) {
      if (signal?.aborted) return { type: "done", reason: "cancelled" };
      throw error;
    }
  }

  /** @param {any} params as those of the engine @param {AbortSignal | undefined} signal @param {(event: TaskEvent) => void} onEvent @returns {Promise<DoneEvent>} */
  async #chat({ model, messages, options }, signal, onEvent) {
    const { max_new_tokens: max_tokens, temperature, top_p } = options;
    const body = JSON.stringify({ model, messages, max_tokens, temperature, top_p, stream: true, stream_options: { include_usage: true } });
    const response = await this.#ask("/v1/chat/completions", { method: "POST", headers: { "Content-Type": "application/json" }, body, signal });
    let [reason, count, tokens, used] = ["stop", 0, 0, 0];
    let began = 0;
    for await (const { choices: [choice] = [], usage } of eventsOf(response, this.address)) {
      if (usage) [tokens, used] = [usage.completion_tokens, usage.total_tokens];
      const { content, reasoning_content: thought } = choice?.delta ?? {};
      if (thought) onEvent({ type: "thought", text: thought });
      if (content) onEvent({ type: "token", text: content, id: -1, index: count });
      if (content || thought) count += 1;
      if (count === 1) began ||= performance.now();
      if (choice?.finish_reason) reason = choice.finish_reason;
    }
    const seconds = (performance.now() - began) / 1000;
    if (tokens > 1 && seconds > 0) onEvent({ type: "metric", name: "decode_speed", value: (tokens - 1) / seconds, unit: "tokens/s" });
    return { type: "done", reason, new_tokens: tokens || count, context_tokens: used };
  }

  /** @param {any} params as those of the engine, and the `duration` of the recording @param {AbortSignal | undefined} signal @param {(event: TaskEvent) => void} onEvent @returns {Promise<DoneEvent>} */
  async #transcribe({ model, audio, name, options, duration }, signal, onEvent) {
    const form = new FormData();
    form.append("file", audio, /\.wav$/i.test(name) ? name : `${name}.wav`);
    const fields = { model, response_format: "verbose_json", stream: "true", language: options.language, prompt: options.initial_prompt, speakers: options.speakers };
    for (const [field, value] of Object.entries(fields)) if (value !== null && value !== undefined) form.append(field, String(value));
    if (options.word_timestamps) form.append("timestamp_granularities[]", "word");
    onEvent({ type: "progress", what: "sending the recording", done: 0, total: null, unit: "bytes" });
    const route = options.task === "translate" ? "translations" : "transcriptions";
    const response = await this.#ask(`/v1/audio/${route}`, { method: "POST", body: form, signal });
    onEvent({ type: "progress", what: "transcribing", done: 0, total: duration, unit: "seconds" });
    let [count, whole] = [0, /** @type {any} */ (null)];
    for await (const event of eventsOf(response, this.address)) {
      if (event.type === "transcript.text.segment") {
        const { start, end, text, words, speaker } = event;
        onEvent({ type: "segment", id: count, start, end, text, ...(words && { words }), ...(speaker && { speaker }) });
        onEvent({ type: "progress", what: "transcribing", done: end, total: duration, unit: "seconds" });
        count += 1;
      } else if (event.type === "transcript.text.done") whole = event;
    }
    return { type: "done", reason: "complete", text: whole?.text ?? "", language: whole?.language ?? null, duration: whole?.duration ?? duration, task: options.task };
  }

  /** @param {string} path @param {RequestInit} request @returns {Promise<Response>} that has the status 200 */
  async #ask(path, request) {
    const headers = { ...request.headers, ...(this.key && { Authorization: `Bearer ${this.key}` }) };
    let response;
    try {
      response = await fetch(this.address + path, { ...request, headers, credentials: "omit" });
    } catch (error) {
      if (nameOf(error) === "AbortError") throw error;
      throw new UserError("The server did not answer.", { where: this.address, hint: CORS, action: "retry" });
    }
    if (response.ok) return response;
    const { error } = await response.json().catch(() => ({}));
    const { status } = response;
    if (status === 401) throw new UserError(this.key ? "The server does not accept this key." : "The server asks for an API key.", { where: this.address, hint: "Give its key under Server." });
    if (status === 429 || status === 503) throw new UserError(error?.message ?? "The server is busy.", { where: this.address, hint: "Try again in a moment.", action: "retry" });
    throw new UserError(error?.message ?? `The server answered with the status ${status}.`, { where: this.address, hint: status === 404 ? "Choose another model under Server." : "Change the settings, or the model." });
  }
}

/**
 * The values of server-sent events, up to [DONE]. UserError for an error among them, and for a stream that breaks off.
 * @param {Response} response @param {string} where @returns {AsyncGenerator<any, void>}
 */
async function* eventsOf(response, where) {
  const broken = () => new UserError("The connection to the server broke off before the answer was complete.", { where, hint: "What has arrived is kept. Try again.", action: "retry" });
  if (!response.body) throw broken();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error) => {
        throw nameOf(error) === "AbortError" ? error : broken();
      });
      if (done) throw broken();
      const lines = (rest + value).split(/\r?\n/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (!line.startsWith("data:")) continue; // a comment that keeps the connection open, or an empty line
        const data = line.slice(5).trim();
        if (data === "[DONE]") return;
        const event = parsed(data);
        if (!event) throw broken();
        if (event.error) throw new UserError(event.error.message ?? "The server reports an error.", { where, hint: "Try again.", action: "retry" });
        yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // nobody reads on: the server stops
  }
}

/** @param {string} data @returns {any} null if it is no JSON object */
function parsed(data) {
  try {
    return Object(JSON.parse(data));
  } catch {
    return null;
  }
}
