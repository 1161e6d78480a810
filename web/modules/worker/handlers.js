/**
 * What the worker answers, by method name. A handler returns the fields of its `done` event, or null when the task
 * behind it has sent its own.
 */
import { UserError } from "../shared/protocol.js";

/** @param {{python: any, models: import("./model-files.js").ModelFiles, storePromise: Promise<any>}} parts */
export function handlersFor({ python, models, storePromise }) {
  const store = async () => {
    const opened = await storePromise;
    if (opened) return opened;
    throw new UserError("This browser keeps no files for this page (a private window, perhaps).", {
      hint: "Models still work, but are downloaded anew at each visit.",
    });
  };

  /** Runs a Python task over a model's byte sources, and closes them afterwards: what is needed has been read by then. */
  async function withModel(method, params, context) {
    const { key, sources } = await models.open(params.model);
    try {
      return await python.run(method, { ...params, key, sources }, context);
    } finally {
      for (const source of Object.values(sources)) source.close();
    }
  }

  return {
    ping: async () => ({}),

    "models.list": async () => ({ models: await models.list() }),

    "models.add": async ({ files }) => ({ id: models.add(files) }),

    "models.download": async ({ model, hub }, context) => {
      await models.fetch(await models.find(model), hub, context);
      return {};
    },

    generate: (params, context) => withModel("generate", params, context),

    load: (params, context) => withModel("load", params, context),

    inspect: (params, context) => withModel("inspect", params, context),

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

    /** For idle time: what the first story did not need. */
    warm: async () => {
      await python.installNumpy();
      return {};
    },
  };
}
