// Elements without markup: text is only ever set as text.

type Child = Node | string | undefined;

export interface Properties {
  readonly class?: string;
  readonly text?: string;
  readonly title?: string;
  readonly attributes?: Readonly<Record<string, string>>;
  readonly on?: { readonly [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };
}

/** A new element with its children; strings become text. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K, properties: Properties = {}, ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  if (properties.class !== undefined) element.className = properties.class;
  if (properties.text !== undefined) element.textContent = properties.text;
  if (properties.title !== undefined) element.title = properties.title;
  for (const [name, value] of Object.entries(properties.attributes ?? {})) element.setAttribute(name, value);
  for (const [name, run] of Object.entries(properties.on ?? {})) element.addEventListener(name, run as EventListener);
  for (const child of children) if (child !== undefined) element.append(child);
  return element;
}

/** Sets a text if it is another one: nothing is laid out, and no screen reader speaks, for the same text. */
export function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

export function button(text: string, press: () => void, properties: Properties = {}): HTMLButtonElement {
  const made = make("button", { text, ...properties });
  made.type = "button";
  made.addEventListener("click", press);
  return made;
}

/** A button that is on or off. */
export function toggle(text: string, press: () => void, title: string): HTMLButtonElement {
  return button(text, press, { class: "toggle", title, attributes: { "aria-pressed": "false" } });
}

export function press(element: HTMLElement, on: boolean): void {
  const value = String(on);
  if (element.getAttribute("aria-pressed") !== value) element.setAttribute("aria-pressed", value);
}
