// The codec: agrees with the usual library, keeps 64-bit integers exact, and no claim of a header costs anything.
import { decode as reference, encode as referenceEncode } from '@msgpack/msgpack';
import { isDeepStrictEqual } from 'node:util';
import { describe, expect, it } from 'vitest';
import { DecodeError, MAX_DEPTH, Reader, Writer, decode, encode, type Value } from '../../sdk/msgpack.ts';

const hex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text.replaceAll(' ', ''), 'hex'));

function plain(value: Value): unknown {
  if (value instanceof Map) return Object.fromEntries([...value].map(([k, v]) => [String(k), plain(v)]));
  return Array.isArray(value) ? value.map(plain) : value;
}

/** A small generator with a seed, so that a failure can be had again. */
function random(seed: number): () => number {
  let s = seed;
  return () => ((s = (s * 1664525 + 1013904223) >>> 0) / 2 ** 32);
}

function anything(next: () => number, depth: number): unknown {
  const pick = Math.floor(next() * (depth > 0 ? 9 : 7));
  switch (pick) {
    case 0: return null;
    case 1: return next() < 0.5;
    case 2: return Math.floor((next() - 0.5) * 2 ** (1 + Math.floor(next() * 52)));
    case 3: return (next() - 0.5) * 1e6 + 0.1;
    case 4: return 'é𝄞x'.repeat(Math.floor(next() * 100));
    case 5: return 'a'.repeat(Math.floor(next() * 300));
    case 6: return Uint8Array.from({ length: Math.floor(next() * 300) }, () => Math.floor(next() * 256));
    case 7: return Array.from({ length: Math.floor(next() * 18) }, () => anything(next, depth - 1));
    default: return Object.fromEntries(Array.from({ length: Math.floor(next() * 20) }, (_, i) => [`k${i}`, anything(next, depth - 1)]));
  }
}

describe('codec', () => {
  it('agrees with @msgpack/msgpack on 500 random values, both ways', () => {
    const next = random(7);
    for (let i = 0; i < 500; i++) {
      const value = anything(next, 2);
      const bytes = referenceEncode(value);
      expect(Buffer.compare(encode(value), bytes)).toBe(0);
      expect(isDeepStrictEqual(plain(decode(bytes)), reference(bytes))).toBe(true);
    }
  });

  it('reads every width and writes the shortest', () => {
    for (const n of [0, 127, 128, 255, 256, 65535, 65536, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1, -1, -32, -33, -128, -129, -32768, -32769, -(2 ** 31), -(2 ** 31) - 1, -(2 ** 53) + 1]) {
      expect(decode(encode(n))).toBe(n);
      expect(encode(n)).toEqual(referenceEncode(n));
    }
    expect(decode(hex('ca 3fc00000'))).toBe(1.5);
  });

  it('keeps integers above 2^53 exact', () => {
    for (const bytes of ['cf 0020000000000001', 'cf ffffffffffffffff', 'd3 8000000000000000']) {
      expect(encode(decode(hex(bytes)))).toEqual(hex(bytes));
    }
    expect(decode(hex('cf 0020000000000001'))).toBe(9007199254740993n);
  });

  it('takes names as data', () => {
    const map = decode(hex('82 a9 5f5f70726f746f5f5f 01 ab 636f6e7374727563746f72 02')) as Map<string, number>;
    expect([...map]).toEqual([['__proto__', 1], ['constructor', 2]]);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('keeps the order of integer-like keys', () => {
    expect([...(decode(encode(new Map([['b', 1], ['1', 2], ['a', 3]]))) as Map<string, number>).keys()]).toEqual(['b', '1', 'a']);
  });

  it.each(['a2 c328', 'c1', 'dd ffffffff', 'df ffffffff', 'c6 ffffffff', 'db ffffffff', 'c9 ffffffff 01', '', '92 01', 'd4 01 00'])(
    'refuses %s',
    (bytes) => expect(() => decode(hex(bytes))).toThrow(DecodeError),
  );

  it('refuses a chain of long headers', () => {
    expect(() => decode(hex('dcffff'.repeat(24_000)))).toThrow(DecodeError);
  });

  it('refuses depth beyond its bound, on the way in and out', () => {
    expect(() => decode(hex('91'.repeat(100_000) + 'c0'))).toThrow(DecodeError);
    expect(() => decode(hex('81a161'.repeat(100_000) + 'c0'))).toThrow(DecodeError);
    expect(decode(hex('91'.repeat(MAX_DEPTH) + 'c0'))).toBeTruthy();
    expect(() => decode(hex('91'.repeat(MAX_DEPTH + 1) + 'c0'))).toThrow(DecodeError);
    const cycle: unknown[] = [];
    cycle.push(cycle);
    expect(() => encode(cycle)).toThrow(TypeError);
    expect(() => encode(() => 1)).toThrow(TypeError);
  });

  it('reads values back to back and refuses bytes after a single one', () => {
    const reader = new Reader(hex('01 a161 90'));
    expect([reader.read(), reader.read(), reader.read(), reader.done]).toEqual([1, 'a', [], true]);
    expect(() => decode(hex('01 02'))).toThrow(DecodeError);
  });

  it('splices bytes that are packed already', () => {
    expect(new Writer().arrayHeader(2).value(7).raw(encode([1, 2])).finish()).toEqual(encode([7, [1, 2]]));
  });
});
