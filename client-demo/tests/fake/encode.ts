// Server messages as bytes, for the fake server and the scripted sockets of the tests.
import { encode, type Value } from '../../sdk/msgpack.ts';
import type { TableRow } from '../../sdk/wire.ts';

type Bytes = Uint8Array<ArrayBuffer>;

export interface JoinedFields {
  id: number;
  room: string;
  seat: number;
  generation: number;
  session: string;
  term: number;
  tick: number;
  owed: number;
  tickRate: number;
  hash: Uint8Array;
  table: readonly TableRow[] | null;
}

export const server = {
  welcome: (player: string, token: string | null, node: string, limits = { ping: 10_000, idle: 25_000, bytes: 4096, rate: 60 }): Bytes =>
    encode([1, 1, player, token, node, limits.ping, limits.idle, limits.bytes, limits.rate]),
  joined: (j: JoinedFields): Bytes =>
    encode([2, j.id, j.room, j.seat, j.generation, j.session, j.term, j.tick, j.owed, j.tickRate, j.hash, rows(j.table)]),
  error: (id: number, code: string, message: string, retryAfter: number | null = null): Bytes => encode([3, id, code, message, retryAfter]),
  left: (id: number): Bytes => encode([4, id]),
  frame: (term: number, tick: number, ops: unknown[]): Bytes => encode([5, term, tick, ops]),
  tail: (applied: number, saved: number, ops: unknown[] = []): Bytes => encode([6, applied, saved, ops]),
  snapshot: (term: number, tick: number, ops: unknown[]): Bytes => encode([7, term, tick, ops]),
  message: (type: number, payload: unknown): Bytes => encode([8, type, payload]),
  reply: (id: number, payload: unknown): Bytes => encode([9, id, payload]),
  pong: (id: number, time = 0): Bytes => encode([10, id, time]),
  move: (urls: string[], after: number): Bytes => encode([11, urls, after]),
  rolledBack: (term: number, tick: number): Bytes => encode([12, term, tick]),
  session: (session: string): Bytes => encode([13, session]),
  granted: (source: string, at: number | null, grants: [string, number][], balances: [string, number][]): Bytes =>
    encode([14, source, at, grants, balances]),
  refused: (seq: number, code: string, message: string): Bytes => encode([15, seq, code, message]),
  heartbeat: (term: number, tick: number): Bytes => encode([16, term, tick]),
  rooms: (id: number, rooms: [string, number, number, boolean, unknown][], next: string | null): Bytes => encode([18, id, rooms, next]),
  renewed: (seat: number, tickRate: number, hash: Uint8Array, table: readonly TableRow[] | null): Bytes => encode([17, seat, tickRate, hash, rows(table)]),
};

function rows(table: readonly TableRow[] | null): Value[] | null {
  return table && table.map((r) => [r.space, r.number, r.name, r.version, r.fields]);
}

/** Several messages in one WebSocket message. */
export function join(...parts: Uint8Array[]): Bytes {
  const out = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
