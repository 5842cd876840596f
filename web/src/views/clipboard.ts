// Putting text on the clipboard.

/** Copies within the user's own action; works on pages without TLS too. */
function copyNow(text: string): boolean {
  let done = false;
  const put = (event: ClipboardEvent): void => {
    event.clipboardData?.setData("text/plain", text);
    event.preventDefault();
    event.stopImmediatePropagation();
    done = true;
  };
  document.addEventListener("copy", put, { capture: true });
  try {
    return document.execCommand("copy") && done;
  } finally {
    document.removeEventListener("copy", put, { capture: true });
  }
}

/**
 * Copies a text that may have to be fetched first.
 *
 * @param ask offers the user to press once more, for browsers that have forgotten meanwhile that the user wanted to
 */
export async function copyText(text: string | Promise<string>, ask: (copy: () => boolean) => void): Promise<void> {
  if (typeof text === "string" && copyNow(text)) return;
  if (isSecureContext && typeof ClipboardItem !== "undefined") {
    const blob = Promise.resolve(text).then((whole) => new Blob([whole], { type: "text/plain" }));
    try {
      await navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
      return;
    } catch {
      await blob;
    }
  }
  const whole = await text;
  if (!copyNow(whole)) ask(() => copyNow(whole));
}
