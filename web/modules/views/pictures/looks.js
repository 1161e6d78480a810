/**
 * What the view does with a picture, and the models of the hub that it offers for it. A task is that of its models.
 *
 * @typedef {import("../../shared/registry.js").LookTask} LookTask
 * @typedef {{label: string, score: number, box: number[], corners?: number[][]}} FoundObject `box`: left, top, right, bottom in pixels; `corners`: the four [x, y] of a turned box
 * @typedef {{label: string, number: number, share: number, score?: number}} Segment
 * @typedef {{x: number, y: number, label: 0 | 1}} Point in pixels; 1: of the object, 0: not of it
 * @typedef {{
 *   objects?: FoundObject[], segments?: Segment[], runs?: [number, number][], labels?: {label: string, score: number}[], text?: string,
 *   png?: string, least?: number, most?: number, metric?: boolean, size?: number[]}} Values of an item of the task
 * @typedef {{task: LookTask, values: Values, model: string, seconds: number, points?: Point[]}} Result
 * @typedef {{
 *   task: LookTask, label: string, button: string, hint: string, waits?: string, working: string,
 *   formats: {format: string, label: string, title: string}[], offers: {name: string, size: string}[]}} Look
 *   `waits`: what it needs besides the picture; else it is done when a picture comes
 */

const JSON_FORMAT = { format: "json", label: "JSON", title: "Everything that was found, JSON" };
const TEXT_FORMAT = { format: "txt", label: "TXT", title: "Plain text" };

/** Sizes are about those of the weights. @type {Look[]} */
export const LOOKS = [
  {
    task: "detect", label: "Objects", button: "Find objects", working: "Finding objects", hint: "Boxes with names around the things that the model knows.",
    formats: [{ format: "png", label: "PNG", title: "The picture with its boxes, PNG" }, JSON_FORMAT],
    offers: [{ name: "hustvl/yolos-tiny", size: "26 MB" }, { name: "PekingU/rtdetr_r18vd", size: "81 MB" }, { name: "facebook/detr-resnet-50", size: "167 MB" }],
  },
  {
    task: "cut-out", label: "Cut out", button: "Cut out", working: "Cutting out", hint: "Click a thing in the picture. The first click takes longer: the model looks at the whole picture.",
    waits: "Click a thing in the picture first.",
    formats: [{ format: "png", label: "PNG", title: "What is cut out, around it transparent, PNG" }, JSON_FORMAT],
    offers: [{ name: "Zigeng/SlimSAM-uniform-77", size: "39 MB" }, { name: "facebook/sam2.1-hiera-tiny", size: "156 MB" }, { name: "facebook/sam-vit-base", size: "375 MB" }],
  },
  {
    task: "segment", label: "Areas", button: "Find areas", working: "Finding areas", hint: "The label of every pixel: wall, sky, street …",
    formats: [{ format: "png", label: "PNG", title: "The areas in their colours, PNG" }, JSON_FORMAT],
    offers: [{ name: "nvidia/segformer-b0-finetuned-ade-512-512", size: "15 MB" }, { name: "mattmdjaga/segformer_b2_clothes", size: "109 MB" }],
  },
  {
    task: "depth", label: "Depth", button: "Estimate depth", working: "Estimating depth", hint: "How near everything is, as a map over the picture.",
    formats: [{ format: "png", label: "PNG", title: "The depth as 16 bits of grey, PNG" }, { format: "map", label: "Coloured PNG", title: "The map in its colours, PNG" }, JSON_FORMAT],
    offers: [{ name: "depth-anything/Depth-Anything-V2-Small-hf", size: "99 MB" }, { name: "depth-anything/Depth-Anything-V2-Metric-Indoor-Small-hf", size: "99 MB" }],
  },
  {
    task: "classify-image", label: "Labels", button: "Label it", working: "Labelling", hint: "What the picture shows, by the labels that the model knows.",
    formats: [TEXT_FORMAT, JSON_FORMAT],
    offers: [{ name: "facebook/deit-tiny-patch16-224", size: "23 MB" }, { name: "microsoft/resnet-50", size: "102 MB" }, { name: "google/vit-base-patch16-224", size: "346 MB" }],
  },
  {
    task: "match-image", label: "Own words", button: "Compare", working: "Comparing", hint: "How well each of your words says what the picture shows.",
    waits: "Write some words first, one in each line.",
    formats: [TEXT_FORMAT, JSON_FORMAT],
    offers: [{ name: "openai/clip-vit-base-patch32", size: "605 MB" }, { name: "google/siglip-base-patch16-224", size: "813 MB" }],
  },
  {
    task: "image-to-text", label: "Caption", button: "Caption it", working: "Writing", hint: "A sentence about the picture.",
    formats: [TEXT_FORMAT, JSON_FORMAT],
    offers: [{ name: "Salesforce/blip-image-captioning-base", size: "990 MB" }],
  },
];

/** @param {string} task @returns {Look} the first one for an unknown task */
export const lookOf = (task) => LOOKS.find((look) => look.task === task) ?? LOOKS[0];

/** @param {number} share of 1 */
export const percent = (share) => `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

/** What was found, in a line. @param {Result} result @param {number} threshold of objects */
export function summaryOf({ task, values }, threshold) {
  const count = (/** @type {number} */ number, /** @type {string} */ what) => `${number} ${what}${number === 1 ? "" : "s"}`;
  if (task === "detect") return count((values.objects ?? []).filter(({ score }) => score >= threshold).length, "object");
  if (task === "cut-out") return `cut-out of ${percent(values.segments?.[0]?.share ?? 0)}`;
  if (task === "segment") return count((values.segments ?? []).length, "area");
  if (task === "depth") return "depth";
  if (task === "image-to-text") return `“${values.text ?? ""}”`;
  const [best] = values.labels ?? [];
  return best ? `${best.label}, ${percent(best.score)}` : "no labels";
}

/** As a text file says it. @param {Result} result */
export function textOf({ values }) {
  if (values.text !== undefined) return `${values.text}\n`;
  return (values.labels ?? []).map(({ label, score }) => `${label}\t${score.toFixed(4)}\n`).join("");
}
