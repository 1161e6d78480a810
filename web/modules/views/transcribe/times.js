/**
 * Formats times of a recording, in figures and in words.
 */
import { counted } from "../../shared/words.js";

/** 0:07, 12:30, 1:02:03. @param {number} seconds */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  /** @param {number} number */
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** For screen readers: "1 minute 5 seconds". @param {number} seconds */
export function spoken(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const units = { hour: Math.floor(whole / 3600), minute: Math.floor(whole / 60) % 60, second: whole % 60 };
  const said = Object.entries(units).filter(([, number]) => number).map(([unit, number]) => counted(number, unit));
  return said.join(" ") || "0 seconds";
}
