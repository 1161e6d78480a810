/**
 * The camera: a live picture, and a button that takes it as a file.
 */
import { UserError, nameOf } from "../../shared/protocol.js";
import { byId, single } from "../../page/dom.js";

/** Fires "taken" (detail: the File), "lost" (the camera was unplugged, or its permission taken back). */
export class Camera extends EventTarget {
  constructor() {
    super();
    /** @type {MediaStream | null} */
    this.stream = null;
    /** Whether the browser is being asked: each answer would be a stream of its own. */
    this.asking = false;
    this.count = 0;
    this.video = byId("read-video");
    byId("read-take").addEventListener("click", single(() => this.take()));
    byId("read-camera-close").addEventListener("click", () => this.close());
    this.view = byId("view-read");
    this.view.addEventListener("left", () => this.stream && this.close()); // nobody is filmed who does not see it
    byId("read-camera").hidden = !navigator.mediaDevices?.getUserMedia; // only on secure pages
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
    byId("read-camera-panel").hidden = false;
    byId("read-take").focus();
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
    byId("read-camera-panel").hidden = true;
    byId("read-camera").focus();
  }
}

/** @param {unknown} error */
function refusal(error) {
  if (nameOf(error) === "NotAllowedError") return new UserError("The page may not use the camera.", { hint: "Permit it in the browser's settings for this page, or choose a picture." });
  if (nameOf(error) === "NotFoundError") return new UserError("There is no camera.", { hint: "Choose a picture instead." });
  console.debug(error);
  return new UserError("The camera cannot be used.", { hint: "Another program may use it. Close that, or choose a picture." });
}
