// Close codes: those of docs/wire.md, each with its name, a text for people, and an error that says what to do.
import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CloseCode, codeName, describe as text, isFinal } from '../../sdk/index.ts';
import { Bench, fakeTime } from './harness.ts';

const page = readFileSync(new URL('../../../docs/wire.md', import.meta.url), 'utf8');
const rows = [...page.matchAll(/^\| (\d{4}) \| (\w+) \|/gm)].map(([, code, name]) => [Number(code), name as string] as const);

beforeEach(fakeTime);
afterEach(() => {
  vi.useRealTimers();
});

describe('close codes', () => {
  it('are those of the page, by the same names', () => {
    expect(rows.length).toBeGreaterThan(15);
    for (const [code, name] of rows) expect([code, codeName(code)]).toEqual([code, name]);
    const known = new Set<number>(rows.map(([code]) => code));
    const browser = new Set<number>([CloseCode.GoingAway, CloseCode.Abnormal]);
    expect(Object.values(CloseCode).filter((code) => !known.has(code) && !browser.has(code))).toEqual([]);
  });

  it('have words of their own', () => {
    const texts = Object.values(CloseCode).filter((code) => code !== CloseCode.Normal).map(text);
    expect(new Set(texts).size).toBe(texts.length);
    expect([text(4011), text(4012), text(4000)]).toEqual(['You were put out of this room.', 'The room has ended.', 'You left the room.']);
    expect([text(4999), codeName(4999), isFinal(4999)]).toEqual(['The connection was lost.', 'unreachable', false]);
  });

  it.each([
    [1006, 'unreachable', true],
    [1013, 'try_later', true],
    [4001, 'moving', true],
    [4002, 'room_error', false],
    [4008, 'unauthorised', false],
    [4010, 'may_retry', true],
    [4012, 'room_ended', false],
  ])('say what a join that ends with %i is worth', async (closeCode, code, retryable) => {
    const bench = new Bench();
    const failed = bench.client.joinOrCreate('arena').catch((error: unknown) => error);
    bench.socket.lose(closeCode, '');
    expect(await failed).toMatchObject({ code, closeCode, retryable, message: `closed with ${closeCode}` });
  });
});
