// Characters that would not be seen, or would change how others are shown.

// Controls; soft hyphen; marks of direction; zero-width space and joiners that join nothing; separators of lines; tags;
// halves of surrogate pairs. The joiners U+200C and U+200D stay: scripts and emoji need them.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}\p{Surrogate}]/gu;

/** `text` with those characters as symbols: ␀ and the like for controls, [U+202E] for others. */
export function visible(text: string): string {
  return text.replace(HIDDEN, symbol);
}

/** The first `most` UTF-16 units of a text, or one less: never half a character. */
export function beginning(text: string, most: number): string {
  const last = text.charCodeAt(most - 1);
  return text.slice(0, text.length > most && last >= 0xd800 && last < 0xdc00 ? most - 1 : most);
}

function symbol(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
}
