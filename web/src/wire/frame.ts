// Binary frames: a head of 16 bytes, the metadata, an Arrow message.

import { WireError } from "./error.ts";

const HEAD = 16;
const UNKNOWN_AGE = 0xffff_ffff;

export type FrameKind = "schema" | "update" | "further";
const KINDS: readonly FrameKind[] = ["schema", "update", "further"];

export interface Frame {
  readonly stream: number;
  readonly kind: FrameKind;
  /** Age in ms of the newest change when the frame was sent; undefined: unknown. */
  readonly age: number | undefined;
  /** The metadata of an update; empty for other kinds. */
  readonly metadata: Uint8Array;
  /** An encapsulated Arrow message. */
  readonly message: Uint8Array;
}

/** The parts of a frame, as views of it. */
export function decodeFrame(data: ArrayBuffer | ArrayBufferView): Frame {
  const bytes = data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  if (bytes.length < HEAD) throw new WireError("A binary frame is too short.");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const kind = KINDS[view.getUint8(4)];
  if (kind === undefined || view.getUint8(5) !== 0 || view.getUint16(6, true) !== 0) throw new WireError("A binary frame is of an unknown kind.");
  const length = view.getUint32(8, true);
  const start = HEAD + 8 * Math.ceil(length / 8);
  if (start > bytes.length) throw new WireError("A binary frame is shorter than its metadata.");
  if ((kind === "update") !== length > 0) throw new WireError("A binary frame has metadata where none belong, or has none.");
  const age = view.getUint32(12, true);
  return {
    stream: view.getUint32(0, true),
    kind,
    age: age === UNKNOWN_AGE ? undefined : age,
    metadata: bytes.subarray(HEAD, HEAD + length),
    message: bytes.subarray(start),
  };
}
