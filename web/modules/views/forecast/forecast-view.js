/**
 * The forecast view: a table, the curve of one of its columns, and how a model thinks that it goes on. Loaded when it is first shown.
 *
 * @typedef {import("../../shared/protocol.js").TaskEvent} TaskEvent
 * @typedef {import("../../page/model-choice.js").ListedModel} ListedModel
 * @typedef {import("./series.js").Table} Table
 * @typedef {import("./series.js").Step} Step
 * @typedef {{name: string, values: number[], dates: number[] | null, step: Step | null}} Series `dates` in ms since 1970, where there is a `step`
 * @typedef {{text: string, series: Series, forecast: number[], quantiles: Record<string, number[]>, reason: string, model: string}} Forecast what is
 *   kept; `text`: the table; `quantiles` by level
 */
import { encodingNote, readText } from "../../page/encoding-note.js";
import { byId, copyText, h } from "../../page/dom.js";
import { clearError } from "../../page/errors.js";
import { RememberedFields } from "../../page/remembered-fields.js";
import { fetchSample, sampleButton } from "../../page/sample.js";
import { saveFile } from "../../page/save-file.js";
import { TextView } from "../../page/text-view.js";
import { UserError, megabytes } from "../../shared/protocol.js";
import { csvCell } from "../../shared/tables.js";
import { counted } from "../../shared/words.js";
import { Chart } from "./chart.js";
import { buildForecast } from "./forecast-parts.js";
import { columnsOf, dateText, datesOf, later, tableIn, valuesOf } from "./series.js";

const MODEL_FILES = /\.(safetensors|bin|ckpt|pt)$|^config\.json$/i;
const LARGEST_FILE = 64e6; // bytes
const LONGEST = 16384; // values: no model reads more
const LONGEST_LINE = 50000; // letters: browsers lay out a line of a million for seconds
const LONG_TEXT = 500000; // letters: what is kept is the series alone
const FEWEST_SHOWN = 120; // values of the past in the chart
const MOST_SHOWN = 2000;
const PAUSE = 250; // ms without a key, before the table is read
/** @type {Record<string, any>} */
const INITIAL = { horizon: 30, levels: "0.1, 0.5, 0.9", samples: 20, seed: 0, frequency: "0" };
/** Models of the hub; their sizes are about those of the weights. */
const OFFERED = [
  { name: "amazon/chronos-bolt-tiny", about: "quick, of the past’s last 2,048 values", size: "35 MB" },
  { name: "amazon/chronos-bolt-mini", about: "a little better", size: "85 MB" },
  { name: "amazon/chronos-bolt-small", about: "good", size: "190 MB" },
  { name: "amazon/chronos-bolt-base", about: "best of these", size: "820 MB" },
  { name: "amazon/chronos-t5-tiny", about: "draws paths", size: "34 MB" },
];

/** Tables that scripts/made_tables.py has made up. */
const SAMPLES = [
  { path: "samples/visitors.csv", title: "Visitors of a museum" },
  { path: "samples/ice-cream.csv", title: "Ice cream, by months" },
  { path: "samples/load.csv", title: "Electricity, by hours" },
];

/** @param {string} text */
const longestLine = (text) => text.split("\n").reduce((most, { length }) => Math.max(most, length), 0);

/** @param {string} text @param {string} where it comes from @throws {UserError} for a line that the field would show too slowly */
function checkLines(text, where) {
  const length = longestLine(text);
  if (length <= LONGEST_LINE) return;
  const [has, most] = [length, LONGEST_LINE].map((count) => count.toLocaleString("en"));
  throw new UserError(`A line of this table has ${has} characters: the page reads lines of up to ${most}.`, { where, hint: "Give a line for each moment, and leave out columns that are not forecast." });
}

/** @extends {TextView<Forecast>} */
export default class ForecastView extends TextView {
  /** @param {import("../../page/app.js").App} app @param {import("../../page/models.js").Models} models @param {HTMLElement} view */
  constructor(app, models, view) {
    buildForecast(view);
    super(app, models, view, "forecast", "Forecasting", "forecast", "forecasts", { files: MODEL_FILES, offered: OFFERED });
    this.settings = new RememberedFields("forecast-settings", {
      horizon: byId("forecast-horizon"), levels: byId("forecast-levels"), samples: byId("forecast-samples-count"), seed: byId("forecast-seed"), frequency: byId("forecast-frequency"),
    }, INITIAL);
    this.chart = new Chart(byId("forecast-chart"));
    /** What the loaded model can. @type {any} */
    this.known = {};
    /** What is in the field; null: no table. @type {Table | null} */
    this.table = null;
    /** The series of the field; null: there is none, or it has an error. @type {Series | null} */
    this.series = null;
    /** @type {number | undefined} */
    this.timer = undefined;
    this.#listen();
    this.start();
    if (this.field.value) this.#look();
  }

  get beginning() {
    return "Reading the numbers…";
  }

  #listen() {
    this.field.field.addEventListener("beforeinput", (event) => {
      const pasted = (event.data ?? event.dataTransfer?.getData("text/plain") ?? "").replace(/\r\n?/g, "\n");
      if (longestLine(pasted) <= LONGEST_LINE && pasted.split("\n", LONGEST + 2).length <= LONGEST + 1) return;
      event.preventDefault();
      this.#lookNow();
      const { value, selectionStart, selectionEnd } = this.field.field;
      this.attempt(() => this.#put(value.slice(0, selectionStart) + pasted + value.slice(selectionEnd), "the pasted text"));
    });
    this.field.field.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.#look(), PAUSE);
    });
    for (const id of ["forecast-column", "forecast-dates"]) byId(id).addEventListener("change", () => this.#choose());
    byId("forecast-file").addEventListener("change", ({ target }) => {
      const input = /** @type {HTMLInputElement} */ (target);
      const [file] = input.files ?? [];
      input.value = "";
      if (file) this.drop([file]);
    });
    byId("forecast-samples").append(...SAMPLES.map((sample) => sampleButton(sample, () => this.attempt(() => this.#try(sample)))));
    byId("forecast-copy").addEventListener("click", () => this.result && copyText(byId("forecast-copy"), csvOf(this.result), byId("forecast-table")));
    byId("forecast-save").addEventListener("click", () => this.result && saveFile("forecast.csv", fileOf(this.result).blob));
  }

  // -- the table

  /** Looks at what was typed just now, so that it takes no later error away. */
  #lookNow() {
    if (this.timer !== undefined) this.#look();
  }

  /** Reads the table in the field, and shows what can be chosen of it. */
  #look() {
    clearTimeout(this.timer);
    this.timer = undefined;
    const { value } = this.field;
    if (this.result?.text === value) return; // it was made of this
    if (!this.button.running) clearError(this.slot);
    try {
      this.table = tableIn(value);
    } catch {
      this.table = null; // the button says so
    }
    this.#offerColumns();
    this.#choose();
  }

  /** Shows the columns. What was chosen stays, as long as a table has the same ones. */
  #offerColumns() {
    const { table } = this;
    const { numbers, dates } = table ? columnsOf(table) : { numbers: [], dates: -1 };
    const [column, when] = [byId("forecast-column"), byId("forecast-dates")];
    const names = table?.names ?? [];
    const before = this.names === names.join("\n") ? [column.value, when.value] : [];
    this.names = names.join("\n");
    column.replaceChildren(...numbers.map((place) => new Option(names[place], String(place))));
    when.replaceChildren(new Option("none", "-1"), ...names.flatMap((name, place) => (place === dates || !numbers.includes(place) ? [new Option(name, String(place))] : [])));
    when.value = String(dates);
    for (const [i, list] of [column, when].entries()) if ([...list.options].some(({ value }) => value === before[i])) list.value = before[i];
    byId("forecast-columns").hidden = numbers.length < 2;
    byId("forecast-dates-choice").hidden = when.options.length < 2;
  }

  /** Shows the curve of what is chosen. */
  #choose() {
    if (this.button.running) return;
    byId("forecast-note").replaceChildren();
    try {
      this.series = this.table && this.#chosen(this.table);
    } catch (error) {
      this.series = null;
      const { what, where } = /** @type {UserError} */ (error);
      this.#note(where ? `${what.replace(/[.:]$/, "")}: ${where}.` : what);
    }
    [this.entry, this.result, this.files] = [null, null, []];
    this.show(null, false);
  }

  /** The chosen columns of a table. @param {Table} table @returns {Series} @throws {UserError} */
  #chosen(table) {
    const column = byId("forecast-column").value;
    if (!column) throw new UserError("No column of this table has numbers.", { hint: "Write decimal numbers such as 12.5, with a comma, a semicolon or a tab between the columns." });
    const place = Number(byId("forecast-dates").value);
    const { dates, step, turned } = place < 0 ? { dates: [], step: null, turned: false } : datesOf(table, place, LONGEST);
    if (turned) {
      this.table = { ...table, rows: [...table.rows].reverse() };
      return this.#chosen(this.table);
    }
    const values = valuesOf(table, Number(column), LONGEST);
    if (place >= 0 && !step) this.#note("The dates are not at equal distances, so the values ahead are numbered.");
    return { name: table.names[Number(column)], values, dates: step && dates, step };
  }

  /** @param {string} text */
  #note(text) {
    byId("forecast-note").replaceChildren(text);
  }

  /** Puts a file into the field. @param {File} file */
  async #take(file) {
    this.#lookNow();
    if (file.size > LARGEST_FILE) {
      throw new UserError(`This file has ${megabytes(file.size)}: the page reads tables up to ${megabytes(LARGEST_FILE)}.`, { where: file.name, hint: `Keep its first line and the last ones: models read at most ${LONGEST.toLocaleString("en")} values.` });
    }
    const { text, assumed } = await readText(file, { other: "Save the table as CSV, then drop that.", empty: "Choose a table with numbers." });
    this.#put(text, file.name);
    if (assumed) byId("forecast-note").append(encodingNote([file.name], () => this.attempt(() => this.#take(file))));
  }

  /** Puts a table into the field: its first line, and as many of the last ones as models read. @param {string} text @param {string} name what it comes from */
  #put(text, name) {
    checkLines(text, name);
    const lines = text.trim().split("\n");
    const cut = lines.length > LONGEST + 1;
    this.field.type((cut ? [lines[0], ...lines.slice(-LONGEST)] : lines).join("\n"));
    this.field.field.scrollTop = 0;
    this.#look();
    if (cut) this.#note(`The last ${LONGEST.toLocaleString("en")} lines of ${name} are here: models read no more.`);
  }

  /** @param {{path: string}} sample */
  async #try({ path }) {
    await this.#take(await fetchSample(path, "text/csv"));
    if (this.choice.model) await this.run();
    else this.announcer.say("The sample is there. Choose a model to forecast it.");
  }

  /** What was dropped on the page: a table, or the files of a model. @param {File[]} files @param {string} [folder] */
  async drop(files, folder) {
    if (files.some(({ name }) => MODEL_FILES.test(name))) return this.models.addFiles(files, this.choice, folder);
    return this.attempt(() => this.#take(files[0]));
  }

  // -- the model

  /** @param {ListedModel} _model @param {any} known */
  knows(_model, known) {
    this.known = known;
    byId("forecast-drawing-fields").hidden = !known.draws;
    byId("forecast-frequency-field").hidden = !(known.frequencies > 1);
  }

  // -- the work

  /** The options of tasks.forecast. */
  get options() {
    const { horizon, levels, samples, seed, frequency } = this.settings.values;
    const quantiles = levels.split(/[\s,;]+/).filter(Boolean).map(Number);
    if (quantiles.some((/** @type {number} */ level) => !(level > 0 && level < 1))) throw new UserError("are numbers above 0 and below 1, with commas between them, such as 0.1, 0.5, 0.9.", { where: "quantiles" });
    return { horizon, quantiles, ...(this.known.draws && { samples, seed }), ...(this.known.frequencies > 1 && { frequency: Number(frequency) }) };
  }

  async run() {
    if (!this.field.value.trim()) return this.field.focus();
    this.#lookNow();
    const text = this.field.value;
    await super.run();
    if (this.field.value !== text) this.#look(); // it was changed meanwhile
  }

  /** @param {ListedModel} model @param {string} text @param {AbortSignal} signal */
  async work(model, text, signal) {
    const table = this.table ?? tableIn(text);
    const series = this.#chosen(table);
    if (this.known.together > 1) throw new UserError(`This model reads ${this.known.together} series together; here one column is forecast.`, { where: model.title, hint: "Choose a model for one series, such as Chronos-Bolt.", action: "models" });
    const { options } = this;
    /** @type {Forecast} */
    const forecast = { text: text.length > LONG_TEXT ? tableOf(series) : text, series, forecast: [], quantiles: {}, reason: "cancelled", model: model.title };
    this.series = series;
    this.announcer.say("Forecasting.");
    await this.make(forecast, { model: model.id, series: { [series.name]: series.values }, options }, (event) => this.#event(forecast, event), signal);
    this.announcer.say(forecast.forecast.length ? `Finished. ${titleFor(forecast)}` : "Stopped.");
  }

  /** @param {Forecast} forecast @param {TaskEvent} event */
  #event(forecast, event) {
    if (event.type !== "item") return this.tell(event, "forecast", "% values");
    const { forecast: values, quantiles } = /** @type {any} */ (event);
    Object.assign(forecast, { forecast: values, quantiles });
  }

  /** Shows a forecast, or the curve of what is in the field. @param {Forecast | null} made @param {boolean} running */
  show(made, running) {
    const some = made !== null && made.forecast.length > 0;
    const series = some ? made.series : made?.series ?? this.series;
    this.showState(some, running, made?.reason ?? "");
    byId("forecast-empty").hidden = series !== null;
    for (const id of ["forecast-chart", "forecast-caption"]) byId(id).hidden = series === null;
    for (const id of ["forecast-numbers", "forecast-legend"]) byId(id).hidden = !some;
    if (!series) return;
    const shown = { text: "", series, forecast: some ? made.forecast : [], quantiles: some ? made.quantiles : {}, reason: "", model: made?.model ?? "" };
    this.#draw(shown);
    if (some) this.#tabulate(shown);
  }

  /** @param {Forecast} shown */
  #draw(shown) {
    const { series: { values }, forecast, quantiles } = shown;
    const count = Math.min(values.length, MOST_SHOWN, Math.max(FEWEST_SHOWN, 4 * forecast.length));
    const levels = Object.keys(quantiles);
    const band = levels.length > 1 ? [levels[0], levels[levels.length - 1]] : null;
    const first = values.length - count;
    const drawn = {
      past: values.slice(first), forecast, low: band ? quantiles[band[0]] : [], high: band ? quantiles[band[1]] : [],
      label: (/** @type {number} */ index) => momentOf(shown, first + index),
      tell: (/** @type {number} */ index) => {
        const ahead = index - count;
        const moment = momentOf(shown, first + index);
        if (ahead < 0) return `${moment}: ${readable(values[first + index])}`;
        return `${moment}: forecast ${readable(forecast[ahead])}${band ? `, from ${readable(quantiles[band[0]][ahead])} to ${readable(quantiles[band[1]][ahead])}` : ""}`;
      },
    };
    byId("forecast-caption").textContent = titleFor(shown) + (first ? ` The last ${count.toLocaleString("en")} values are drawn.` : "");
    byId("forecast-legend").replaceChildren(
      h("li", { class: "key-past" }, "Your numbers"), h("li", { class: "key-next" }, "Forecast"),
      ...(band ? [h("li", { class: "key-band" }, `From the level ${band[0]} to ${band[1]}`)] : []));
    byId("forecast-chart").hidden = false; // it is drawn at the width that it has
    this.chart.show(drawn, titleFor(shown));
  }

  /** @param {Forecast} shown */
  #tabulate(shown) {
    const [head, ...rows] = rowsOf(shown);
    byId("forecast-table").replaceChildren(
      h("caption", { class: "visually-hidden" }, titleFor(shown)),
      h("thead", {}, h("tr", {}, ...head.map((name) => h("th", { scope: "col" }, /^0\./.test(String(name)) ? `Level ${name}` : String(name).replace(/^./, (letter) => letter.toUpperCase()))))),
      h("tbody", {}, ...rows.map(([moment, ...numbers]) => h("tr", {}, h("th", { scope: "row" }, String(moment)), ...numbers.map((number) => h("td", {}, readable(Number(number))))))));
  }

  // -- what is kept

  /** @param {Forecast} forecast */
  textOf({ text }) {
    return text;
  }

  /** @param {Forecast} forecast */
  titleOf({ series, forecast }) {
    return `${series.name}, ${counted(forecast.length, "value")} ahead`;
  }

  /** @param {Forecast} forecast */
  aboutOf({ forecast, model }) {
    return forecast.length ? model : "";
  }

  /** @param {import("../../history/history-store.js").HistoryItem} item */
  filesOf({ content }) {
    return [fileOf(content), { name: "table.csv", blob: new Blob([`${content.text}\n`], { type: "text/csv" }) }];
  }

  /** @param {import("../../history/history-store.js").HistoryItem} item */
  async open(item) {
    await super.open(item);
    try {
      this.table = tableIn(item.content.text);
    } catch {
      this.table = null; // damaged in the storage; the forecast is shown
    }
    this.series = item.content.series;
    this.#offerColumns();
    for (const option of byId("forecast-column").options) if (option.text === item.content.series.name) option.selected = true;
  }
}

/** The moment of a value, by its number from the first one of the series. @param {Forecast} forecast @param {number} index */
function momentOf({ series: { values, dates, step } }, index) {
  const ahead = index - values.length + 1;
  if (!dates || !step) return ahead > 0 ? `+${ahead}` : String(index + 1);
  return dateText(ahead > 0 ? later(dates[dates.length - 1], step, ahead) : dates[index], step);
}

/** @param {Forecast} forecast */
function titleFor({ series: { name, values }, forecast }) {
  const past = `${name}: ${counted(values.length, "value")}`;
  return forecast.length ? `${past}, and ${forecast.length.toLocaleString("en")} ahead.` : `${past}.`;
}

/** The forecast as a table, as `pyapp forecast` writes it, with the dates where there are some. @param {Forecast} made @returns {(string | number)[][]} */
function rowsOf(made) {
  const { series: { values, dates }, forecast, quantiles } = made;
  const rows = forecast.map((value, i) => [momentOf(made, values.length + i), value, ...Object.values(quantiles).map((all) => all[i])]);
  return [[dates ? "date" : "step", "forecast", ...Object.keys(quantiles)], ...rows];
}

/** @param {Forecast} made */
function csvOf(made) {
  const exact = (/** @type {string | number} */ cell) => (typeof cell === "number" ? Number(cell.toPrecision(7)) : cell);
  return rowsOf(made).map((row) => row.map((cell) => csvCell(exact(cell))).join(",")).join("\n");
}

/** @param {Forecast} made */
const fileOf = (made) => ({ name: "forecast.csv", blob: new Blob([`${csvOf(made)}\n`], { type: "text/csv" }) });

/** The table of a series alone. @param {Series} series */
const tableOf = ({ name, values, dates, step }) => [dates ? `date,${csvCell(name)}` : csvCell(name), ...values.map((value, i) => (dates && step ? `${dateText(dates[i], step)},${value}` : value))].join("\n");

/** @param {number} value */
const readable = (value) => {
  const size = Math.abs(value);
  const plain = size < 1000 ? { maximumSignificantDigits: 4 } : { maximumFractionDigits: 0 };
  return value.toLocaleString("en", value === 0 || (size >= 1e-6 && size < 1e15) ? plain : { notation: "scientific", maximumFractionDigits: 3 });
};
