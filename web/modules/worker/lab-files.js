/**
 * The files of a notebook in Python's file system: what cells wrote there since the last look.
 */
import { UserError, megabytes } from "../shared/protocol.js";

export const LARGEST_FILE = 64e6; // bytes; larger files stay in Python's memory and are not stored
const MOST_FILES = 500;
const DEEPEST = 4; // folders

export class LabFiles {
  /** @param {any} fs Emscripten's file system @param {string} home the folder */
  constructor(fs, home) {
    this.fs = fs;
    this.home = home;
    /** Time and size of the files that the page knows, by name. @type {Map<string, string>} */
    this.known = new Map();
    /** The same of files that are too large to be kept, of which the reader was told. @type {Map<string, string>} */
    this.told = new Map();
  }

  /**
   * The files in the folder and its folders.
   * @param {string} [folder] @param {number} [depth] @returns {{name: string, size: number, mark: string}[]}
   */
  #list(folder = "", depth = 0) {
    const { fs, home } = this;
    const found = [];
    for (const name of fs.readdir(`${home}/${folder}`)) {
      if (name.startsWith(".") || name === "__pycache__" || found.length >= MOST_FILES) continue;
      const path = folder + name;
      const { mode, size, mtime } = fs.lstat(`${home}/${path}`);
      if (fs.isDir(mode) && depth < DEEPEST) found.push(...this.#list(`${path}/`, depth + 1));
      if (fs.isFile(mode)) found.push({ name: path, size, mark: `${+mtime} ${size}` });
    }
    return found;
  }

  /** The files that are new or were changed since the last call. @returns {{name: string, bytes: Uint8Array}[]} */
  changed() {
    const changed = this.#list().filter(({ name, mark, size }) => this.known.get(name) !== mark && size <= LARGEST_FILE);
    for (const { name, mark } of changed) this.known.set(name, mark);
    return changed.map(({ name }) => ({ name, bytes: this.fs.readFile(`${this.home}/${name}`) }));
  }

  /** The files that are too large to be kept, and are new or were changed since the last call. @returns {{name: string, size: number}[]} */
  tooLarge() {
    const large = this.#list().filter(({ name, mark, size }) => size > LARGEST_FILE && this.told.get(name) !== mark);
    for (const { name, mark } of large) this.told.set(name, mark);
    return large;
  }

  /** The files that are gone since the last call. @returns {string[]} */
  removed() {
    const there = new Set(this.#list().map(({ name }) => name));
    const gone = [...this.known.keys()].filter((name) => !there.has(name));
    for (const name of gone) this.known.delete(name);
    return gone;
  }

  /** @param {string} name @param {Uint8Array} bytes */
  put(name, bytes) {
    const path = this.#checked(name);
    if (bytes.length > LARGEST_FILE) {
      throw new UserError(`This file is too large for a notebook: ${megabytes(bytes.length)}.`, { where: name, hint: `At most ${megabytes(LARGEST_FILE)} can be added.` });
    }
    this.fs.mkdirTree(path.slice(0, path.lastIndexOf("/")));
    this.fs.writeFile(path, bytes);
    const { size, mtime } = this.fs.stat(path);
    this.known.set(name, `${+mtime} ${size}`);
  }

  /** @param {string} name */
  remove(name) {
    const path = this.#checked(name);
    this.known.delete(name);
    if (this.fs.analyzePath(path).exists) this.fs.unlink(path);
  }

  /** Deletes all. */
  clear() {
    this.known.clear();
    this.told.clear();
    this.#empty(this.home);
  }

  /** @param {string} folder */
  #empty(folder) {
    for (const name of this.fs.readdir(folder)) {
      if (name === "." || name === "..") continue;
      const path = `${folder}/${name}`;
      if (!this.fs.isDir(this.fs.lstat(path).mode)) this.fs.unlink(path);
      else {
        this.#empty(path);
        this.fs.rmdir(path);
      }
    }
  }

  /** The path of a name, which must not lead out of the folder. @param {string} name */
  #checked(name) {
    const parts = name.split("/");
    if (!name || parts.length > DEEPEST + 1 || parts.some((part) => !part || part === "." || part === "..")) {
      throw new UserError("This is not the name of a file.", { where: name, hint: "Use letters, digits and dots." });
    }
    return `${this.home}/${name}`;
  }
}
