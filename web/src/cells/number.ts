// Numbers as text.

/** The shortest digits that read back as the same float of `bits`; with `digits`, that many after the point. */
export function floatText(value: number, bits: 16 | 32 | 64, digits?: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
  if (digits !== undefined) return fixed(value, digits);
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  if (bits === 64) return String(value);
  const rounded = bits === 32 ? Math.fround : toHalf;
  // Fewer digits than these, where they suffice, come out with zeros behind them, which Number drops.
  const least = Math.abs(value) < (bits === 32 ? 2 ** -126 : 2 ** -14) ? 1 : bits === 32 ? 6 : 3;
  for (let precision = least; precision <= 9; precision += 1) {
    const shorter = Number(value.toPrecision(precision));
    if (rounded(shorter) === value) return String(shorter);
  }
  return String(value);
}

/** The float of 16 bits that is nearest to `value`, the even one of two. */
function toHalf(value: number): number {
  const exponent = Math.max(Math.floor(Math.log2(Math.abs(value))), -14);
  const unit = 2 ** (exponent - 10);
  const below = Math.floor(value / unit);
  const rest = value / unit - below;
  return (rest > 0.5 || (rest === 0.5 && below % 2 !== 0) ? below + 1 : below) * unit;
}

function fixed(value: number, digits: number): string {
  // Beyond 10^21 toFixed writes an exponent; such numbers are integers.
  const text = Math.abs(value) < 1e21 ? value.toFixed(digits) : decimalText(String(BigInt(value)), digits);
  return Object.is(value, -0) ? `-${text}` : text;
}

const DECIMAL = /^(-?)(\d+)(?:\.(\d+))?$/;

const SCIENTIFIC = /^(-?)(\d+)(?:\.(\d+))?E([+-]?\d{1,4})$/;

/** A decimal without an exponent, which Arrow writes for small numbers ("0E-10", "1E-7") and negative scales ("1E+2"). */
export function plainDecimal(text: string): string {
  const found = SCIENTIFIC.exec(text);
  if (found === null) return text;
  const [, sign = "", whole = "", fraction = "", exponent = ""] = found;
  const digits = whole + fraction;
  const point = whole.length + Number(exponent);
  if (point <= 0) return `${sign}0.${"0".repeat(-point)}${digits}`;
  if (point < digits.length) return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`;
  return sign + String(BigInt(digits.padEnd(point, "0")));
}

/** A decimal; with `digits`, rounded to that many after the point, halves away from zero. */
export function decimalText(value: string, digits?: number): string {
  const text = plainDecimal(value);
  const found = DECIMAL.exec(text);
  if (digits === undefined || found === null) return text;
  const [, sign = "", whole = "", fraction = ""] = found;
  const kept = fraction.slice(0, digits).padEnd(digits, "0");
  const up = (fraction[digits] ?? "0") >= "5" ? 1n : 0n;
  const all = String(BigInt(whole + kept) + up).padStart(digits + 1, "0");
  return digits === 0 ? sign + all : `${sign}${all.slice(0, -digits)}.${all.slice(-digits)}`;
}

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/;

/**
 * A number in scientific notation: one digit, a point, further digits, an exponent ("1.5e+3"). With `digits`, rounded to that
 * many after the point, halves away from zero; without, all but zeros at the end. What is no number stays as it is.
 */
export function scientificText(text: string, digits?: number): string {
  const found = NUMBER.exec(text);
  if (found === null) return text;
  const [, sign = "", whole = "", fraction = "", power = "0"] = found;
  const all = whole + fraction;
  const first = all.search(/[1-9]/);
  if (first < 0) return `${sign}${pointed("0".padEnd((digits ?? 0) + 1, "0"))}e+0`;
  let exponent = whole.length - 1 - first + Number(power);
  let kept = all.slice(first);
  if (digits === undefined) kept = kept.replace(/0+$/, "");
  else {
    const up = (kept[digits + 1] ?? "0") >= "5" ? 1n : 0n;
    const rounded = String(BigInt(kept.slice(0, digits + 1).padEnd(digits + 1, "0")) + up);
    if (rounded.length > digits + 1) exponent += 1; // as of 9.99
    kept = rounded.slice(0, digits + 1);
  }
  return `${sign}${pointed(kept)}e${exponent < 0 ? "-" : "+"}${Math.abs(exponent)}`;
}

function pointed(digits: string): string {
  return digits.length === 1 ? digits : `${digits.slice(0, 1)}.${digits.slice(1)}`;
}

/** A float of `bits` in scientific notation, as {@link scientificText}. */
export function scientificFloat(value: number, bits: 16 | 32 | 64, digits?: number): string {
  if (digits === undefined || !Number.isFinite(value)) return scientificText(floatText(value, bits));
  return `${Object.is(value, -0) ? "-" : ""}${value.toExponential(digits)}`; // of the float itself, not of its shortest digits
}

/** `text`, a number without grouping, with a comma before each three digits of its integer part. */
export function grouped(text: string): string {
  const [, sign = "", whole = "", rest = ""] = /^(-?)(\d+)(.*)$/.exec(text) ?? [];
  return whole === "" ? text : sign + whole.replace(/\B(?=(?:\d{3})+$)/g, ",") + rest;
}
