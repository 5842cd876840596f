// Colours and fonts of the grid, from the style sheet.

export interface Palette {
  readonly back: string;
  readonly text: string;
  readonly muted: string;
  readonly line: string;
  readonly head: string;
  readonly headText: string;
  readonly edge: string;
  readonly gutter: string;
  readonly placeholder: string;
  readonly hover: string;
  readonly selected: string;
  readonly accent: string;
  readonly up: string;
  readonly upBack: string;
  readonly down: string;
  readonly downBack: string;
  readonly same: string;
  readonly sameBack: string;
  readonly cellFont: string;
  readonly nullFont: string;
  readonly headFont: string;
  readonly smallFont: string;
}

const COLOURS = {
  back: "--grid-back",
  text: "--grid-text",
  muted: "--grid-muted",
  line: "--grid-line",
  head: "--grid-head",
  headText: "--grid-head-text",
  edge: "--grid-edge",
  gutter: "--grid-gutter",
  placeholder: "--grid-placeholder",
  hover: "--grid-hover",
  selected: "--grid-selected",
  accent: "--grid-accent",
  up: "--grid-up",
  upBack: "--grid-up-back",
  down: "--grid-down",
  downBack: "--grid-down-back",
  same: "--grid-same",
  sameBack: "--grid-same-back",
} as const;

/** Reads the palette that holds at `element`. Custom properties are resolved by an element that has them as its colour. */
export function readPalette(element: HTMLElement): Palette {
  const probe = document.createElement("span");
  probe.hidden = true;
  probe.style.setProperty("forced-color-adjust", "none");
  element.append(probe);
  const style = getComputedStyle(probe);
  const colour = (name: string): string => {
    probe.style.color = `var(${name})`;
    return style.color;
  };
  const colours = Object.fromEntries(Object.entries(COLOURS).map(([key, name]) => [key, colour(name)]));
  const family = style.getPropertyValue("--grid-font").trim() || "sans-serif";
  probe.remove();
  return {
    ...(colours as Record<keyof typeof COLOURS, string>),
    cellFont: `13px ${family}`,
    nullFont: `italic 13px ${family}`,
    headFont: `600 12.5px ${family}`,
    smallFont: `11px ${family}`,
  };
}
