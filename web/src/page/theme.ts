// Light, dark, or as the system has it.

export type Theme = "system" | "light" | "dark";

const KEY = "barrage.theme";
const THEMES: readonly Theme[] = ["system", "light", "dark"];

export function storedTheme(store: Storage | undefined): Theme {
  try {
    const kept = store?.getItem(KEY);
    return THEMES.find((theme) => theme === kept) ?? "system";
  } catch {
    return "system";
  }
}

/** Shows the page in `theme`, and keeps it. */
export function applyTheme(theme: Theme, store: Storage | undefined): void {
  document.documentElement.dataset["theme"] = theme;
  try {
    store?.setItem(KEY, theme);
  } catch {
    // Without storage the theme holds for this page.
  }
}
