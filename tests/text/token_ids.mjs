// node token_ids.mjs LIBRARY FOLDER: ids that the page's tokenizers library gives for FOLDER/texts.json, as JSON.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [library, folder] = process.argv.slice(2);
const { Tokenizer } = await import(pathToFileURL(library));
const read = (name) => JSON.parse(readFileSync(`${folder}/${name}`, "utf8"));
const tokenizer = new Tokenizer(read("tokenizer.json"), {});
const ids = read("texts.json").map((text) => (text ? tokenizer.encode(text, { add_special_tokens: false }).ids : []));
process.stdout.write(JSON.stringify(ids));
