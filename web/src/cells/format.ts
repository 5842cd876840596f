// How numbers are shown, and how that is written in an address.

/** How numbers are shown. Without any field: exactly, to the last digit. */
export interface Format {
  /** Digits after the point of floats and decimals, and of all numbers in scientific notation; absent: all there are. */
  readonly digits?: number;
  /** Whether thousands are grouped by commas. */
  readonly grouped?: boolean;
  /** Whether numbers have one digit before the point, and an exponent. */
  readonly scientific?: boolean;
}

const MOST_DIGITS = 20;
const EXACT = "exact";

/** `format` as a word: "exact", "2" for two digits, "2g" with groups, "2e" in scientific notation, "g", "e". */
export function formatWord({ digits, grouped, scientific }: Format): string {
  const word = `${digits ?? ""}${grouped === true ? "g" : ""}${scientific === true ? "e" : ""}`;
  return word === "" ? EXACT : word;
}

/** The format that a word stands for; undefined: none. */
export function parseFormat(word: string): Format | undefined {
  if (word === EXACT) return {};
  const [all, digits = "", grouped, scientific] = /^([0-9]{1,2})?(g)?(e)?$/.exec(word) ?? [];
  if (all === undefined || all === "" || Number(digits) > MOST_DIGITS) return undefined;
  return {
    ...(digits === "" ? {} : { digits: Number(digits) }),
    ...(grouped === undefined ? {} : { grouped: true }),
    ...(scientific === undefined ? {} : { scientific: true }),
  };
}

/** The format in a value that was kept, whatever it is; undefined: none. */
export function keptFormat(value: unknown): Format | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { digits, grouped, scientific } = value as Record<string, unknown>;
  const known = typeof digits === "number" && Number.isInteger(digits) && digits >= 0 && digits <= MOST_DIGITS;
  return {
    ...(known ? { digits } : {}),
    ...(grouped === true ? { grouped } : {}),
    ...(scientific === true ? { scientific } : {}),
  };
}
