// Which keys belong to the widget while it has the focus, and which to the notebook around it.

/** The part of a key event that decides. */
export interface KeyPress {
  readonly key: string;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly altKey: boolean;
}

/** Letters with Ctrl that the grid and text fields take. */
const LETTERS = "acvxyz";

/** Whether a key is the widget's: all without Ctrl, and with it those of the grid and of text fields. Others, such as Ctrl+S, are the notebook's. */
export function isOwn({ key, ctrlKey, metaKey, altKey }: KeyPress): boolean {
  if (!ctrlKey && !metaKey && !altKey) return true;
  if (/^[a-z]$/i.test(key)) return !altKey && LETTERS.includes(key.toLowerCase());
  return key !== "Control" && key !== "Meta" && key !== "Alt" && !/^F([13-9]|1[12])$/.test(key);
}
