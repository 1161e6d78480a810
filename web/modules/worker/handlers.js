/**
 * The worker's handlers by method name. A handler returns the fields of its `done` event, or null if its task has sent one.
 *
 * @typedef {{id: number, emit: (...events: object[]) => void, signal: AbortSignal}} RequestContext of the request that a handler answers
 * @typedef {(params: any, context: RequestContext) => any} Handler
 */
import { Inlet } from "./inlet.js";
import { FileSource } from "./sources.js";
import { noStore } from "./store.js";

/**
 * Whether a voice reads phonemes: one that speaks in the style of vectors, or of VITS, if its tokenizer does not say that it reads letters.
 * @param {{path: string, size: number, read?: (offset: number, length: number) => Uint8Array | null}[]} sources of its files
 */
function readsPhonemes(sources) {
  const named = (/** @type {RegExp} */ name) => sources.find(({ path }) => name.test(path));
  if (named(/^voices\//)) return true;
  if (!named(/^vocab\.json$/)) return false;
  const settings = named(/^tokenizer_config\.json$/);
  try {
    return JSON.parse(new TextDecoder().decode(settings?.read?.(0, settings.size) ?? new Uint8Array()) || "{}").phonemize !== false;
  } catch {
    return false; // Python says what is wrong with it
  }
}

/**
 * @param {{python: import("./python.js").Python, models: import("./model-files.js").ModelFiles, storePromise: Promise<any>,
 *   inlets: Map<number, Inlet>}} parts `inlets`: by the id of the request that reads them
 * @returns {Record<string, Handler>}
 */
export function handlersFor({ python, models, storePromise, inlets }) {
  const store = async () => {
    const opened = await storePromise;
    if (opened) return opened;
    throw noStore("Models still work, but are downloaded again at each visit.");
  };

  /** The choice of the graphics card; requests for models that come after it wait for it. @type {Promise<any>} */
  let card = Promise.resolve();

  /** What every task needs but llama2.c's stories and the transcripts. */
  const everything = () => Promise.all([python.install("numpy"), python.installLater()]);

  /**
   * Runs a Python task with a model's byte sources, and closes them afterwards. The task reads everything it needs.
   * @param {string} method @param {any} params @param {RequestContext} context
   * @param {Promise<any>} [ready] the task starts after it; without it, what the kind of the model's files needs
   */
  async function withModel(method, params, context, ready) {
    ready?.catch(() => {}); // awaited below
    const { key, sources } = await models.open(params.model);
    try {
      await card.catch(() => {}); // its request reports it
      if (ready) await ready;
      else if (Object.values(sources).some(({ path }) => /\.gguf$|^config\.json$/i.test(path))) await everything();
      if (/^speak/.test(method) && readsPhonemes(Object.values(sources))) await Promise.all([python.install("misaki-english"), python.install("pyapp-english")]);
      if (!method.endsWith("load")) await python.card?.compiled;
      return await python.run(method, { ...params, key, sources, precision: models.precision }, context);
    } finally {
      for (const source of Object.values(sources)) source.close();
    }
  }

  /** As withModel, for speech tasks. They need NumPy. @param {string} method @param {any} params @param {RequestContext} context */
  function withSpeechModel(method, params, context) {
    return withModel(method, { ...params, options: JSON.stringify(params.options ?? {}) }, context, python.install("numpy"));
  }

  /** Also what renders the chat templates of models. */
  const forChats = () => Promise.all([python.install("markupsafe"), python.install("jinja2"), everything()]);

  /** Also the rest of NumPy: for the lines of pages, and for series. */
  const allOfNumpy = () => Promise.all([python.install("numpy-later"), everything()]);

  /** Handlers of tasks that take their values as JSON. @param {string[]} methods @param {() => Promise<any>} parts what they wait for @returns {Record<string, Handler>} */
  const ofJson = (methods, parts) => Object.fromEntries(methods.map((method) => [method, ({ model, ...values }, context) => withModel(method, { model, json: JSON.stringify(values) }, context, parts())]));

  return {
    ping: async () => ({}),

    "models.list": async () => ({ models: await models.list() }),

    "models.add": async ({ id, files, task, folder }) => (await models.add(id, files, task, folder), {}),

    "models.forget": async ({ id }) => (models.forget(id), {}),

    "models.keep": async ({ id }, context) => ({ id: await models.keep(id, context) }),

    "models.look": async ({ name, task, hub }, context) => ({ models: await models.look(name, task, hub, context) }),

    "models.precision": async ({ precision }) => ((models.precision = precision), {}),

    /** Language models compute on the graphics card from now on: its `name`. */
    "models.card": (params, context) => (card = everything().then(() => python.run("card", {}, context))),

    /** Whether there is one: a worker may ask, of a page's question the browser says in the console that it has none. */
    "models.cards": async () => ({ card: !!(await /** @type {any} */ (navigator).gpu?.requestAdapter()) }),

    "models.download": async ({ model, hub }, context) => {
      await models.fetch(await models.find(model), hub, context);
      return {};
    },

    generate: (params, context) => withModel("generate", params, context),

    load: (params, context) => withModel("load", params, context),

    /** `pictures`: the `name` and the `bytes` of files; parts of messages have their numbers. */
    chat: ({ model, pictures = [], ...values }, context) => withModel("chat", { model, json: JSON.stringify(values), pictures }, context, forChats()),

    "chat.load": (params, context) => withModel("chat.load", params, context, forChats()),

    "speech.load": (params, context) => withSpeechModel("speech.load", params, context),

    "search.load": (params, context) => withModel("search.load", params, context, everything()),

    ...ofJson(["search.index", "search.embed", "search.sentences", "speak", "speak.load", "translate", "translate.load", "label-sound.load"], everything),

    ...ofJson(["answer.load", "forecast", "forecast.load"], allOfNumpy),

    /** `audio` is a File, as `transcribe` gets it. */
    "label-sound": ({ model, audio, name, ...values }, context) => withModel("label-sound", { model, audio: new FileSource(audio, name), json: JSON.stringify(values) }, context, allOfNumpy()),

    /** `pixels` are those of a page's canvas, for models that see it. */
    answer: ({ model, pixels = null, height = 0, width = 0, ...values }, context) => withModel("answer", { model, json: JSON.stringify(values), pixels, height, width }, context, allOfNumpy()),

    /** `pixels` are those of a picture's canvas. */
    ...Object.fromEntries(["read", "read.load", "look", "look.load"].map((method) => [method,
      /** @type {Handler} */ (({ options, ...params }, context) => withModel(method, { ...params, options: JSON.stringify(options) }, context, allOfNumpy()))])),

    "read.export": async (params, context) => {
      await everything();
      return python.run("read.export", { json: JSON.stringify(params) }, context);
    },

    /** `audio` is a File, which Python reads by blocks; `vad` and `speaker_model` are Files or names of networks, or null. */
    transcribe: async ({ audio, vad = null, speaker_model = null, hub, ...params }, context) => {
      /** @type {{close: () => void}[]} */
      const opened = [];
      const open = async (/** @type {File | string | null} */ network) => {
        if (network === null) return null;
        const source = await models.network(network, hub, context);
        opened.push(source);
        return source;
      };
      try {
        const networks = { vad: await open(vad), speaker_model: await open(speaker_model) };
        if (opened.length) {
          await everything();
          await python.install("numpy-later"); // its Fourier transform
        }
        return await withSpeechModel("transcribe", { ...params, ...networks, audio: new FileSource(audio, params.name) }, context);
      } finally {
        for (const source of opened) source.close();
      }
    },

    /** Transcribes sound until `finish`. `push` messages with this request's id bring the sound. */
    listen: async (params, context) => {
      const inlet = new Inlet(() => context.emit({ type: "behind" }));
      inlets.set(context.id, inlet);
      context.signal.addEventListener("abort", () => inlet.finish());
      // During silence there are no results, but the page must know that the engine works.
      /** @type {import("../shared/protocol.js").ProgressEvent} */
      const alive = { type: "progress", what: "listening", done: 0, total: null, unit: "" };
      const heartbeat = setInterval(() => context.emit(alive), 5000);
      try {
        return await withSpeechModel("listen", { ...params, inlet }, context);
      } finally {
        clearInterval(heartbeat);
        inlets.delete(context.id);
      }
    },

    overview: async ({ audio, name, bins }, context) => {
      await python.install("numpy");
      return python.run("overview", { audio: new FileSource(audio, name), bins }, context);
    },

    export: async (params, context) => {
      await python.installLater();
      return python.run("export", { json: JSON.stringify(params) }, context);
    },

    inspect: (params, context) => withModel("inspect", params, context, python.installLater()),

    "storage.list": async () => {
      const { usage = 0, quota = 0 } = (await navigator.storage?.estimate?.()) ?? {};
      return { kept: await (await store()).list(), usage, quota };
    },

    "storage.remove": async ({ keys }) => {
      for (const key of keys) await (await store()).remove(key);
      return {};
    },

    "storage.clear": async () => {
      await (await store()).clear();
      return {};
    },

    /** Loads the parts that the first story did not need. The page calls this when it is idle. */
    warm: async () => {
      await python.installLater();
      await python.install("numpy");
      await python.install("numpy-later");
      return {};
    },
  };
}
