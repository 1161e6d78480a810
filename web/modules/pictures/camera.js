/**
 * The camera: a live picture, and a button that takes it as a file.
 */
import { UserError, nameOf } from "../shared/protocol.js";
import { find, h, single } from "../page/dom.js";

/** The elements of a camera, without the button that opens it. @param {string} name that their ids begin with */
export const cameraPanel = (name) =>
  h("div", { class: "read-camera-panel", id: `${name}-camera-panel`, role: "group", "aria-label": "Camera", hidden: true },
    h("video", { id: `${name}-video`, muted: true, playsinline: true, "aria-label": "What the camera sees" }),
    h("div", { class: "read-actions" },
      h("button", { class: "primary", type: "button", id: `${name}-take` }, "Take a picture"),
      h("button", { class: "secondary", type: "button", id: `${name}-camera-close` }, "Close the camera")));

/** Fires "taken" (detail: the File), "lost" (the camera was unplugged, or its permission taken back). */
export class Camera extends EventTarget {
  /** @param {HTMLElement} view with the elements of cameraPanel @param {string} name that their ids begin with @param {HTMLElement} opener its button */
  constructor(view, name, opener) {
    super();
    this.view = view;
    this.opener = opener;
    this.panel = find(view, `#${name}-camera-panel`);
    /** @type {MediaStream | null} */
    this.stream = null;
    /** Whether the browser is being asked: each answer would be a stream of its own. */
    this.asking = false;
    this.count = 0;
    this.video = find(this.panel, "video");
    this.taker = find(view, `#${name}-take`);
    this.taker.addEventListener("click", single(() => this.take()));
    find(view, `#${name}-camera-close`).addEventListener("click", () => this.close());
    this.view.addEventListener("left", () => this.stream && this.close()); // nobody is filmed who does not see it
    opener.hidden = !navigator.mediaDevices?.getUserMedia; // only on secure pages
  }

  async open() {
    if (this.stream || this.asking) return;
    this.asking = true;
    try {
      this.stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: { ideal: 4096 }, height: { ideal: 3072 } } });
    } catch (error) {
      throw refusal(error);
    } finally {
      this.asking = false;
    }
    this.stream.getVideoTracks()[0].addEventListener("ended", () => {
      this.close();
      this.dispatchEvent(new Event("lost"));
    });
    if (this.view.hidden) return this.close(); // left while the browser asked
    this.video.srcObject = this.stream;
    this.panel.hidden = false;
    this.taker.focus();
    await this.video.play().catch((error) => {
      if (this.stream) throw error; // else it was closed before it began
    });
  }

  /** Hands the picture of this moment over. */
  async take() {
    const { videoWidth, videoHeight } = this.video;
    if (!videoWidth) return; // it has not begun
    const canvas = new OffscreenCanvas(videoWidth, videoHeight);
    canvas.getContext("2d")?.drawImage(this.video, 0, 0);
    const blob = await canvas.convertToBlob({ type: "image/jpeg", quality: 0.95 });
    this.count += 1;
    this.dispatchEvent(new CustomEvent("taken", { detail: new File([blob], `photo ${this.count}.jpg`, { type: "image/jpeg" }) }));
  }

  close() {
    this.stream?.getTracks().forEach((track) => track.stop());
    this.stream = this.video.srcObject = null;
    this.panel.hidden = true;
    this.opener.focus();
  }
}

/** @param {unknown} error */
function refusal(error) {
  if (nameOf(error) === "NotAllowedError") return new UserError("The page may not use the camera.", { hint: "Permit it in the browser's settings for this page, or choose a picture." });
  if (nameOf(error) === "NotFoundError") return new UserError("There is no camera.", { hint: "Choose a picture instead." });
  console.debug(error);
  return new UserError("The camera cannot be used.", { hint: "Another program may use it. Close that, or choose a picture." });
}
