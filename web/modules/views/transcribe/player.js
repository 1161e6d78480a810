/**
 * The audio player: play and pause, a waveform for seeking, the time, the speed.
 *
 * Fires "time" (detail: seconds) while it plays and after seeking.
 */
import { byId } from "../../page/dom.js";
import { clock, spoken } from "./times.js";
import { Waveform } from "./waveform.js";

export class Player extends EventTarget {
  constructor() {
    super();
    this.audio = byId("player-audio");
    this.button = byId("player-play");
    this.seeker = byId("player-seek");
    this.waveform = new Waveform(byId("player-wave"));
    this.duration = 0;
    this.url = null;
    this.#listen();
  }

  #listen() {
    this.button.addEventListener("click", () => this.toggle());
    this.seeker.addEventListener("input", () => this.seek(Number(this.seeker.value)));
    byId("player-speed").addEventListener("change", () => (this.audio.playbackRate = Number(byId("player-speed").value)));
    for (const type of ["play", "pause", "ended"]) this.audio.addEventListener(type, () => this.#playing());
    this.audio.addEventListener("seeked", () => this.#moved());
    this.audio.addEventListener("error", () => this.url && this.#unplayable());
  }

  /** @param {Blob} recording @param {{duration: number, peaks: number[]}} overview */
  load(recording, { duration, peaks }) {
    this.unload();
    this.duration = duration;
    this.url = URL.createObjectURL(recording);
    this.audio.src = this.url;
    this.audio.playbackRate = Number(byId("player-speed").value);
    this.button.disabled = this.seeker.disabled = false;
    byId("player-note").textContent = "";
    byId("player-end").textContent = clock(duration);
    this.seeker.max = String(duration);
    this.waveform.show(peaks);
    this.#show(0);
  }

  unload() {
    this.audio.pause();
    this.audio.removeAttribute("src");
    this.audio.load();
    if (this.url) URL.revokeObjectURL(this.url);
    this.url = null;
  }

  get playing() {
    return !this.audio.paused && !this.audio.ended;
  }

  get time() {
    return this.audio.currentTime;
  }

  toggle() {
    if (this.playing) this.audio.pause();
    else this.play();
  }

  play() {
    this.audio.play().catch(() => {}); // the user has paused it, or it cannot be played: the "error" event shows that
  }

  /** @param {number} seconds */
  seek(seconds) {
    this.audio.currentTime = Math.min(seconds, this.duration);
    this.#show(seconds);
    this.dispatchEvent(new CustomEvent("time", { detail: seconds }));
  }

  /** @param {number} seconds */
  playFrom(seconds) {
    this.seek(seconds);
    if (!this.playing) this.play();
  }

  #playing() {
    this.button.dataset.state = this.playing ? "playing" : "paused";
    this.button.setAttribute("aria-label", this.playing ? "Pause" : "Play");
    const tick = () => {
      this.#moved();
      if (this.playing) requestAnimationFrame(tick);
    };
    tick();
  }

  #moved() {
    this.#show(this.time);
    this.dispatchEvent(new CustomEvent("time", { detail: this.time }));
  }

  /** @param {number} seconds */
  #show(seconds) {
    this.seeker.value = String(seconds);
    this.seeker.setAttribute("aria-valuetext", `${spoken(seconds)} of ${spoken(this.duration)}`);
    byId("player-now").textContent = clock(seconds);
    this.waveform.mark(this.duration ? seconds / this.duration : 0);
  }

  /** Shows that the recording cannot be played: some browsers do not play every format that they decode. */
  #unplayable() {
    this.button.disabled = this.seeker.disabled = true;
    byId("player-note").textContent = "This browser cannot play this recording, but the page can transcribe it.";
  }
}
