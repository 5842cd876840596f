// Menus that open at a point or below a button.

import { focusedIn } from "../grid/focus.ts";
import { make } from "./dom.ts";

export interface MenuEntry {
  readonly label: string;
  readonly run: () => void;
  /** Of entries that are on or off. */
  readonly checked?: boolean;
  /** Whether it is one of those of its group of which one alone is on. */
  readonly oneOf?: true;
  /** Whether it opens a menu of its own. */
  readonly opens?: true;
  readonly disabled?: boolean;
}

/** Entries in groups; a line parts the groups. */
export type MenuGroups = readonly (readonly MenuEntry[])[];

let closeOpen: (() => void) | undefined;

export function closeMenu(): void {
  closeOpen?.();
}

/**
 * Opens a menu near a point of the window. Arrow keys, Home, End and first letters move; Escape closes.
 *
 * @param of the view that it belongs to: a landmark, for screen readers
 */
export function openMenu(of: Element, label: string, groups: MenuGroups, x: number, y: number): void {
  closeMenu();
  const before = focusedIn(of);
  const menu = make("div", { class: "menu", attributes: { role: "menu", "aria-label": label, popover: "manual" } });
  const filled = groups.filter((group) => group.length > 0);
  filled.forEach((group, at) => {
    if (at > 0) menu.append(make("div", { class: "line", attributes: { role: "separator" } }));
    for (const entry of group) menu.append(item(entry));
  });
  of.append(menu);
  menu.showPopover(); // above everything, and placed in the window whatever surrounds the view
  const { width, height } = menu.getBoundingClientRect();
  menu.style.left = `${Math.max(4, Math.min(x, innerWidth - width - 4))}px`;
  menu.style.top = `${Math.max(4, Math.min(y, innerHeight - height - 4))}px`;
  const stop = new AbortController();
  closeOpen = (): void => {
    closeOpen = undefined;
    stop.abort();
    const had = menu.contains(focusedIn(menu));
    menu.remove();
    if (had && before instanceof HTMLElement) before.focus({ preventScroll: true });
  };
  const close = closeOpen;
  const outside = (event: Event): void => {
    if (event.composedPath().includes(menu)) return;
    if (closeOpen === close) close();
  };
  document.addEventListener("pointerdown", outside, { capture: true, signal: stop.signal });
  document.addEventListener("focusin", outside, { signal: stop.signal });
  of.getRootNode().addEventListener("focusin", outside, { signal: stop.signal }); // in a shadow root it may end there
  window.addEventListener("blur", close, { signal: stop.signal });
  window.addEventListener("resize", close, { signal: stop.signal });
  menu.addEventListener("keydown", (event) => key(menu, event, close));
  items(menu)[0]?.focus();
}

/** A button that opens a menu below itself. */
export function menuButton(text: string, title: string, groups: () => MenuGroups): HTMLButtonElement {
  const made = make("button", { class: "opens", text, title, attributes: { "aria-haspopup": "menu" } });
  made.type = "button";
  made.addEventListener("click", () => {
    const box = made.getBoundingClientRect();
    openMenu(made.closest(".table") ?? document.body, title, groups(), box.left, box.bottom + 4);
  });
  return made;
}

function item(entry: MenuEntry): HTMLButtonElement {
  const role = entry.checked === undefined ? "menuitem" : entry.oneOf === true ? "menuitemradio" : "menuitemcheckbox";
  const made = make("button", { text: entry.label, attributes: { role, tabindex: "-1" } });
  made.type = "button";
  if (entry.checked !== undefined) made.setAttribute("aria-checked", String(entry.checked));
  if (entry.opens === true) made.setAttribute("aria-haspopup", "menu");
  made.disabled = entry.disabled ?? false;
  made.addEventListener("click", () => {
    closeMenu();
    entry.run();
  });
  made.addEventListener("pointermove", () => {
    if (focusedIn(made) !== made) made.focus({ preventScroll: true });
  });
  return made;
}

function items(menu: HTMLElement): readonly HTMLElement[] {
  return [...menu.querySelectorAll<HTMLElement>("button:not(:disabled)")];
}

function key(menu: HTMLElement, event: KeyboardEvent, close: () => void): void {
  const all = items(menu);
  const at = all.findIndex((one) => one === focusedIn(menu));
  const go = (to: number): void => all[(to + all.length) % all.length]?.focus();
  if (event.key === "ArrowDown") go(at + 1);
  else if (event.key === "ArrowUp") go(at < 0 ? -1 : at - 1);
  else if (event.key === "Home") go(0);
  else if (event.key === "End") go(-1);
  else if (event.key === "Escape" || event.key === "Tab") close();
  else if (event.key.length === 1 && /\S/.test(event.key)) {
    const from = [...all.slice(at + 1), ...all.slice(0, at + 1)];
    from.find((one) => one.textContent?.toLowerCase().startsWith(event.key.toLowerCase()))?.focus();
  } else return;
  event.preventDefault();
  event.stopPropagation();
}
