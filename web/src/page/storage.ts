// The browser's storage, which may be forbidden.

/** undefined: the browser forbids it. */
export function localStore(): Storage | undefined {
  try {
    return window.localStorage;
  } catch {
    return undefined;
  }
}

const TOKEN = "barrage.token";

/** The token is kept for the tab. */
export function storedToken(): string | undefined {
  try {
    return window.sessionStorage.getItem(TOKEN) ?? undefined;
  } catch {
    return undefined;
  }
}

export function storeToken(token: string | undefined): void {
  try {
    if (token === undefined) window.sessionStorage.removeItem(TOKEN);
    else window.sessionStorage.setItem(TOKEN, token);
  } catch {
    // Without storage the token is asked for again after a reload.
  }
}
