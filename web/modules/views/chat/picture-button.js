/**
 * A small picture that opens large: in a dialog that covers the page, as large as the window allows, or pixel by pixel.
 */
import { h } from "../../page/dom.js";
import { addressOf } from "../../pictures/svg-picture.js";
import { showSmall } from "./pictures.js";

const LARGEST = 4; // times its own size: a tiny one stays recognisable as one

/** @param {import("./pictures.js").Picture} picture @param {Blob} blob */
export function pictureButton(picture, blob) {
  const { name, width, height } = picture;
  const image = h("img", { alt: `Picture: ${name}`, width, height });
  showSmall(image, blob, name);
  const button = h("button", { type: "button", class: "picture-button", "aria-haspopup": "dialog", title: `Enlarge ${name}`, onclick: () => enlarge(picture, blob, button) }, image);
  return button;
}

/** @param {import("./pictures.js").Picture} picture @param {Blob} blob @param {HTMLElement} opener gets the focus back */
async function enlarge({ name, width, height }, blob, opener) {
  const image = h("img", { alt: `Picture: ${name}`, width, height });
  const frame = h("div", { class: "picture-frame", tabindex: 0, role: "group", "aria-label": "The picture" }, image);
  const whole = h("button", { type: "button", class: "quiet", "aria-pressed": "false", hidden: true }, "Full size");
  const dialog = h("dialog", { class: "picture-dialog", "aria-label": name },
    h("header", { class: "panel-head" },
      h("p", { class: "picture-name" }, h("strong", { dir: "auto" }, name), h("span", {}, `${width.toLocaleString("en")} × ${height.toLocaleString("en")} pixels`)),
      whole, h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Close")),
    frame);
  const toggle = () => {
    const full = dialog.classList.toggle("full-size");
    whole.setAttribute("aria-pressed", String(full));
    if (full) frame.scrollTo((frame.scrollWidth - frame.clientWidth) / 2, (frame.scrollHeight - frame.clientHeight) / 2);
  };
  whole.addEventListener("click", toggle);
  // A click beside the picture closes it; not the end of the double click that opened it.
  frame.addEventListener("click", ({ target, detail }) => {
    if (detail > 1) return;
    if (target === frame) dialog.close();
    else if (!whole.hidden) toggle();
  });
  dialog.style.setProperty("--ratio", String(width / height));
  dialog.style.setProperty("--most", `${LARGEST * width}px`);
  const fit = () => void (whole.hidden = !dialog.classList.contains("full-size") && image.clientWidth >= width);
  addEventListener("resize", fit);
  dialog.addEventListener("close", () => {
    removeEventListener("resize", fit);
    dialog.remove();
    opener.focus(); // the browser does so only where a click on a button focuses it
  });
  document.body.append(dialog);
  dialog.showModal();
  fit();
  try {
    image.src = await addressOf(blob);
    await image.decode();
  } catch (error) {
    console.debug(error);
    frame.replaceChildren(h("p", { role: "status" }, "This picture cannot be shown: it is damaged."));
  }
}
