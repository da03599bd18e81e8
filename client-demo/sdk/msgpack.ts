// MessagePack, the part that the protocol uses, with bounds. Written here because names on the wire are data: the usual
// library refuses a whole message when a player's name is `__proto__` and a map's key, rounds integers above 2^53, and
// has no bound on depth. Maps become `Map`, integers beyond 2^53 become bigint, extensions are refused.

/** Deepest nesting that is read or written. */
export const MAX_DEPTH = 32;

/** What can be read: maps are `Map`s, binaries are `Uint8Array`s. */
export type Value = null | boolean | number | bigint | string | Uint8Array | Value[] | Map<Value, Value>;

/** The bytes are not MessagePack, or break a bound. */
export class DecodeError extends Error {
  override name = 'DecodeError';
}

const texts = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const utf8 = new TextEncoder();

/** Reads values one after another; every length is checked against what is left, so no claim of a header costs memory. */
export class Reader {
  private readonly bytes: Uint8Array;
  private readonly view: DataView;
  private at = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  /** True when all bytes are read. */
  get done(): boolean {
    return this.at >= this.bytes.length;
  }

  /** The next value. Throws `DecodeError`; the reader must not be used after that. */
  read(depth = 0): Value {
    if (depth > MAX_DEPTH) throw new DecodeError(`nested deeper than ${MAX_DEPTH} at byte ${this.at}`);
    const b = this.byte();
    if (b < 0x80) return b;
    if (b >= 0xe0) return b - 0x100;
    if (b < 0x90) return this.map(b & 0x0f, depth);
    if (b < 0xa0) return this.array(b & 0x0f, depth);
    if (b < 0xc0) return this.text(b & 0x1f);
    switch (b) {
      case 0xc0: return null;
      case 0xc2: return false;
      case 0xc3: return true;
      case 0xc4: return this.binary(this.uint(1));
      case 0xc5: return this.binary(this.uint(2));
      case 0xc6: return this.binary(this.uint(4));
      case 0xca: return this.view.getFloat32(this.skip(4));
      case 0xcb: return this.view.getFloat64(this.skip(8));
      case 0xcc: return this.uint(1);
      case 0xcd: return this.uint(2);
      case 0xce: return this.uint(4);
      case 0xcf: return exact(this.view.getBigUint64(this.skip(8)));
      case 0xd0: return this.view.getInt8(this.skip(1));
      case 0xd1: return this.view.getInt16(this.skip(2));
      case 0xd2: return this.view.getInt32(this.skip(4));
      case 0xd3: return exact(this.view.getBigInt64(this.skip(8)));
      case 0xd9: return this.text(this.uint(1));
      case 0xda: return this.text(this.uint(2));
      case 0xdb: return this.text(this.uint(4));
      case 0xdc: return this.array(this.uint(2), depth);
      case 0xdd: return this.array(this.uint(4), depth);
      case 0xde: return this.map(this.uint(2), depth);
      case 0xdf: return this.map(this.uint(4), depth);
      default: throw new DecodeError(`unexpected byte 0x${b.toString(16)} at ${this.at - 1}`);
    }
  }

  private byte(): number {
    const b = this.bytes[this.at];
    if (b === undefined) throw new DecodeError(`ends at byte ${this.at}`);
    this.at += 1;
    return b;
  }

  private skip(n: number): number {
    const from = this.at;
    if (n > this.bytes.length - from) throw new DecodeError(`${n} bytes wanted at byte ${from}, ${this.bytes.length - from} left`);
    this.at = from + n;
    return from;
  }

  private uint(size: 1 | 2 | 4): number {
    const from = this.skip(size);
    return size === 1 ? this.view.getUint8(from) : size === 2 ? this.view.getUint16(from) : this.view.getUint32(from);
  }

  private text(n: number): string {
    const from = this.skip(n);
    if (n < 16) {
      let out = '';
      for (let i = from; i < this.at; i++) {
        const b = this.bytes[i] as number;
        if (b >= 0x80) return this.utf8(from);
        out += String.fromCharCode(b);
      }
      return out;
    }
    return this.utf8(from);
  }

  private utf8(from: number): string {
    try {
      return texts.decode(this.bytes.subarray(from, this.at));
    } catch {
      throw new DecodeError(`text at byte ${from} is not UTF-8`);
    }
  }

  private binary(n: number): Uint8Array {
    const from = this.skip(n);
    return this.bytes.slice(from, this.at);
  }

  private array(n: number, depth: number): Value[] {
    if (n > this.bytes.length - this.at) throw new DecodeError(`array of ${n} at byte ${this.at} is longer than the message`);
    const out: Value[] = [];
    for (let i = 0; i < n; i++) out.push(this.read(depth + 1));
    return out;
  }

  private map(n: number, depth: number): Map<Value, Value> {
    if (n * 2 > this.bytes.length - this.at) throw new DecodeError(`map of ${n} at byte ${this.at} is longer than the message`);
    const out = new Map<Value, Value>();
    for (let i = 0; i < n; i++) {
      const key = this.read(depth + 1);
      out.set(key, this.read(depth + 1));
    }
    return out;
  }
}

function exact(n: bigint): number | bigint {
  return n <= BigInt(Number.MAX_SAFE_INTEGER) && n >= BigInt(Number.MIN_SAFE_INTEGER) ? Number(n) : n;
}

/** Writes values into one growing buffer. */
export class Writer {
  private bytes = new Uint8Array(64);
  private view = new DataView(this.bytes.buffer);
  private at = 0;

  /** What was written, as a copy. */
  finish(): Uint8Array<ArrayBuffer> {
    return this.bytes.slice(0, this.at);
  }

  /** Bytes that are MessagePack already. */
  raw(bytes: Uint8Array): this {
    const from = this.room(bytes.length);
    this.bytes.set(bytes, from);
    return this;
  }

  /** Only the header of an array; `n` values must follow. */
  arrayHeader(n: number): this {
    if (n < 16) return this.u8(0x90 | n);
    return n < 0x10000 ? this.u8(0xdc).u16(n) : this.u8(0xdd).u32(n);
  }

  /**
   * Any value. Integers take their shortest form, other numbers are 64-bit floats; of plain objects the own enumerable
   * fields are written as a map, fields that are `undefined` left out. Throws on cycles and on what has no form.
   */
  value(v: unknown, depth = 0): this {
    if (depth > MAX_DEPTH) throw new TypeError(`payload is nested deeper than ${MAX_DEPTH}`);
    if (v === null || v === undefined) return this.u8(0xc0);
    switch (typeof v) {
      case 'boolean': return this.u8(v ? 0xc3 : 0xc2);
      case 'number': return this.number(v);
      case 'bigint': return this.bigint(v);
      case 'string': return this.text(v);
      case 'object': break;
      default: throw new TypeError(`a ${typeof v} cannot be sent`);
    }
    if (v instanceof Uint8Array) return this.binary(v);
    if (Array.isArray(v)) {
      this.arrayHeader(v.length);
      for (const item of v) this.value(item, depth + 1);
      return this;
    }
    const entries: [unknown, unknown][] = v instanceof Map ? [...v] : Object.entries(v as object).filter(([, x]) => x !== undefined);
    this.mapHeader(entries.length);
    for (const [key, item] of entries) this.value(key, depth + 1).value(item, depth + 1);
    return this;
  }

  private mapHeader(n: number): this {
    if (n < 16) return this.u8(0x80 | n);
    return n < 0x10000 ? this.u8(0xde).u16(n) : this.u8(0xdf).u32(n);
  }

  private number(v: number): this {
    if (!Number.isSafeInteger(v)) {
      const at = this.u8(0xcb).room(8);
      this.view.setFloat64(at, v);
      return this;
    }
    if (v >= 0) {
      if (v < 0x80) return this.u8(v);
      if (v < 0x100) return this.u8(0xcc).u8(v);
      if (v < 0x10000) return this.u8(0xcd).u16(v);
      if (v < 0x100000000) return this.u8(0xce).u32(v);
      return this.bigint(BigInt(v));
    }
    if (v >= -0x20) return this.u8(v + 0x100);
    if (v >= -0x80) return this.u8(0xd0).u8(v + 0x100);
    if (v >= -0x8000) return this.u8(0xd1).u16(v + 0x10000);
    if (v >= -0x80000000) return this.u8(0xd2).u32(v + 0x100000000);
    return this.bigint(BigInt(v));
  }

  private bigint(v: bigint): this {
    if (BigInt.asUintN(64, v) === v) {
      const at = this.u8(0xcf).room(8);
      this.view.setBigUint64(at, v);
    } else if (BigInt.asIntN(64, v) === v) {
      const at = this.u8(0xd3).room(8);
      this.view.setBigInt64(at, v);
    } else {
      throw new TypeError('an integer of more than 64 bits cannot be sent');
    }
    return this;
  }

  private text(v: string): this {
    const bytes = utf8.encode(v);
    const n = bytes.length;
    if (n < 32) this.u8(0xa0 | n);
    else if (n < 0x100) this.u8(0xd9).u8(n);
    else if (n < 0x10000) this.u8(0xda).u16(n);
    else this.u8(0xdb).u32(n);
    return this.raw(bytes);
  }

  private binary(v: Uint8Array): this {
    const n = v.length;
    if (n < 0x100) this.u8(0xc4).u8(n);
    else if (n < 0x10000) this.u8(0xc5).u16(n);
    else this.u8(0xc6).u32(n);
    return this.raw(v);
  }

  private u8(v: number): this {
    const at = this.room(1);
    this.view.setUint8(at, v);
    return this;
  }
  private u16(v: number): this {
    const at = this.room(2);
    this.view.setUint16(at, v);
    return this;
  }
  private u32(v: number): this {
    const at = this.room(4);
    this.view.setUint32(at, v);
    return this;
  }

  /** Makes room for `n` bytes and says where. The view may be another one afterwards. */
  private room(n: number): number {
    const from = this.at;
    if (from + n > this.bytes.length) {
      const bigger = new Uint8Array(Math.max(this.bytes.length * 2, from + n));
      bigger.set(this.bytes);
      this.bytes = bigger;
      this.view = new DataView(bigger.buffer);
    }
    this.at = from + n;
    return from;
  }
}

/** One value as MessagePack. */
export function encode(value: unknown): Uint8Array<ArrayBuffer> {
  return new Writer().value(value).finish();
}

/** The only value in these bytes. */
export function decode(bytes: Uint8Array): Value {
  const reader = new Reader(bytes);
  const value = reader.read();
  if (!reader.done) throw new DecodeError('bytes after the value');
  return value;
}
