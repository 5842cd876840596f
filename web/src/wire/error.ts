// Damaged or contradictory bytes.

/** The server has sent what it must not: nothing after it can be trusted, so the connection is given up. */
export class WireError extends Error {
  override readonly name = "WireError";
}
