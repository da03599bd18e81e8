// The same bytes that the Rust side is tested with: every message of both sides, operations, and what must be refused.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DecodeError, decode, encode, type Value } from '../../sdk/msgpack.ts';
import { State } from '../../sdk/state.ts';
import { NameTable } from '../../sdk/table.ts';
import { WireError, client, readServer, type ServerMessage } from '../../sdk/wire.ts';

type Json = null | boolean | number | string | Json[] | { bin: string } | { int: string } | { map: [Json, Json][] };
interface Golden {
  messages: { name: string; from: 'client' | 'server'; hex: string; value: Json[] }[];
  views: { name: string; steps: string[]; state: [number, [number, Json][]][]; resources: [number, Json][] }[];
  refused: { name: string; hex: string }[];
}
const golden = JSON.parse(readFileSync(new URL('../../../shared/tests/golden.json', import.meta.url), 'utf8')) as Golden;

const bytes = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, 'hex'));
const hexOf = (data: Uint8Array): string => Buffer.from(data).toString('hex');

function fromJson(json: Json): Value {
  if (Array.isArray(json)) return json.map(fromJson);
  if (typeof json !== 'object' || json === null) return json;
  if ('bin' in json) return bytes(json.bin);
  if ('int' in json) return BigInt(json.int);
  return new Map(json.map.map(([key, value]) => [fromJson(key), fromJson(value)]));
}

/** The client's message again, by the functions that the SDK sends with. */
function build(value: Value[]): Uint8Array {
  const [kind, ...f] = value;
  const last = encode(f.at(-1));
  switch (kind) {
    case 1: return client.hello(f[1] as string | null, f[2] as Uint8Array | null);
    case 2: return client.joinOrCreate(f[0] as number, f[1] as string, f[2] as string | null, f[3] as string | null, encode(f[4]), f.length > 5 ? last : undefined);
    case 3: return client.create(f[0] as number, f[1] as string, f[2] as string | null, f[3] as string | null, encode(f[4]), f.length > 5 ? last : undefined);
    case 4: return client.join(f[0] as number, f[1] as string, last);
    case 5: return client.resume(f[0] as number, f[1] as string, f[2] as string, f[3] as number, f[4] as number, f[5] as number, (f[6] as number | undefined) ?? 0);
    case 6: return client.leave(f[0] as number);
    case 7: return client.message(f[0] as number, f[1] as number, last);
    case 8: return client.request(f[0] as number, f[1] as number, f[2] as number, last);
    case 9: return client.ping(f[0] as number);
    case 10: return client.sessionAck(f[0] as string);
    case 11: return client.resync();
    case 12: return client.table(f[0] as Uint8Array);
    case 13: return client.rooms(f[0] as number, f[1] as string | null, f[2] as string | null, f[3] === null ? null : encode(f[3]), f[4] as boolean, f[5] as string | null, f[6] as number);
    default: throw new Error(`no builder for kind ${String(kind)}`);
  }
}

/** The fields of a decoded message in the order of the wire. */
function flat(m: ServerMessage): Value[] {
  const { is, ...fields } = m;
  const kinds = ['', 'welcome', 'joined', 'error', 'left', 'frame', 'tail', 'snapshot', 'message', 'reply', 'pong', 'move', 'rolled_back', 'session', 'granted', 'refused', 'heartbeat', 'renewed', 'rooms'];
  // Metadata stays a map; a room without any has an empty one.
  if (m.is === 'rooms') return [18, m.id, m.rooms.map((r) => [r.room, r.seats, r.maxSeats, r.locked, r.metadata.size > 0 ? new Map(r.metadata) : null]), m.next];
  const plain = (value: unknown): Value => {
    if (value instanceof Map) return [...value] as Value;
    if (Array.isArray(value)) return value.map(plain);
    if (typeof value === 'object' && value !== null && !(value instanceof Uint8Array)) return Object.values(value).map(plain);
    return value as Value;
  };
  return [kinds.indexOf(is), ...Object.values(fields).map(plain)];
}

describe('golden bytes', () => {
  it('cover every kind of both sides', () => {
    const kinds = (from: string): number[] => [...new Set(golden.messages.filter((m) => m.from === from).map((m) => m.value[0] as number))].sort((a, b) => a - b);
    expect(kinds('client')).toEqual(Array.from({ length: 13 }, (_, i) => i + 1));
    expect(kinds('server')).toEqual(Array.from({ length: 18 }, (_, i) => i + 1));
  });

  it.each(golden.messages.map((m) => [`${m.from}: ${m.name}`, m] as const))('%s', (_, { from, hex, value }) => {
    const expected = fromJson(value) as Value[];
    expect(decode(bytes(hex))).toEqual(expected);
    if (from === 'client') {
      expect(hexOf(build(expected))).toBe(hex);
    } else {
      const read: ServerMessage[] = [];
      readServer(bytes(hex), (m) => read.push(m));
      expect(read.map(flat)).toEqual([expected]);
    }
  });

  it.each(golden.views.map((v) => [v.name, v] as const))('view: %s', (_, { steps, state, resources }) => {
    const rows = Array.from({ length: 256 }, (_row, i) => [0, 1].map((space) => ({ space, number: i, name: `n${i}`, version: 1, fields: null }))).flat();
    const view = new State();
    view.use(new NameTable(new Uint8Array(8), rows));
    for (const step of steps) view.apply(decode(bytes(step)) as Value[][]);
    const numbered = (values: Map<string, unknown>): unknown[] => [...values].map(([name, value]) => [Number(name.slice(1)), value]).sort((a, b) => (a[0] as number) - (b[0] as number));
    expect([...view.entities.values()].sort((a, b) => a.id - b.id).map((e) => [e.id, numbered(e.components)])).toEqual(state.map(([id, values]) => [id, values.map(([n, v]) => [n, fromJson(v)])]));
    expect(numbered(view.resources)).toEqual(resources.map(([n, v]) => [n, fromJson(v)]));
  });

  it.each(golden.refused.map((r) => [r.name, r.hex] as const))('refuses %s', (_, hex) => {
    let fault: unknown;
    try {
      readServer(bytes(hex), () => undefined);
    } catch (error) {
      fault = error;
    }
    expect(fault instanceof DecodeError || fault instanceof WireError).toBe(true);
  });
});
