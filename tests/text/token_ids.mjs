// node token_ids.mjs LIBRARY ENCODER FOLDER: ids for FOLDER/texts.json, as JSON, that the page's tokenizers library gives through
// the page's encoder (web/modules/worker/token-encoder.js).
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [library, encoder, folder] = process.argv.slice(2);
const { Tokenizer } = await import(pathToFileURL(library));
const { encoderOf } = await import(`data:text/javascript,${encodeURIComponent(readFileSync(encoder, "utf8"))}`);
const encode = encoderOf(Tokenizer, readFileSync(`${folder}/tokenizer.json`, "utf8"));
const texts = JSON.parse(readFileSync(`${folder}/texts.json`, "utf8"));
process.stdout.write(JSON.stringify(texts.map((text) => (text ? Array.from(encode(text)) : []))));
