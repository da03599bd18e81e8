// The client protocol, version 1: what is sent and what is read. `docs/wire.md` is the contract.
import { DecodeError, Reader, Writer, type Value } from './msgpack.ts';

export const PROTOCOL = 1;
/** Number for a message whose name this server no longer knows: it keeps the sequence whole and is refused. */
export const UNKNOWN_TYPE = 0xffff;

/** What the name table's numbers count. */
export const Space = { Component: 0, Resource: 1, Message: 2, Request: 3, Event: 4 } as const;

export interface TableRow {
  space: number;
  number: number;
  name: string;
  version: number;
  fields: string[] | null;
}

export interface Welcome {
  is: 'welcome';
  protocol: number;
  player: string;
  token: string | null;
  server: string;
  ping: number;
  idle: number;
  bytes: number;
  rate: number;
}

export interface Joined {
  is: 'joined';
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
  table: TableRow[] | null;
}

/** The room goes on at another server: what `joined` said of these is different there. */
export interface Renewed {
  is: 'renewed';
  seat: number;
  tickRate: number;
  hash: Uint8Array;
  /** Null: the client has the one of this hash. */
  table: TableRow[] | null;
}

/** A room of a list, as it stands on the wire. */
export interface ListedRow {
  room: string;
  seats: number;
  maxSeats: number;
  /** New players are refused. */
  locked: boolean;
  /** What the game says of it. */
  metadata: ReadonlyMap<Value, Value>;
}

export interface Granted {
  /** Schedule id or job. */
  source: string;
  /** When it was due, ms since 1970. */
  scheduledFor: number | null;
  /** What was given; charges are negative. */
  grants: Map<string, number>;
  /** Balances afterwards. */
  balances: Map<string, number>;
}

export type ServerMessage =
  | Welcome
  | Joined
  | { is: 'error'; id: number; code: string; message: string; retryAfter: number | null }
  | { is: 'left'; id: number }
  | { is: 'frame'; term: number; tick: number; ops: Value[][] }
  | { is: 'tail'; applied: number; saved: number; ops: Value[][] }
  | { is: 'snapshot'; term: number; tick: number; ops: Value[][] }
  | { is: 'message'; type: number; payload: Value }
  | { is: 'reply'; id: number; payload: Value }
  | { is: 'pong'; id: number; time: number }
  | { is: 'move'; urls: string[]; after: number }
  | { is: 'rolled_back'; term: number; tick: number }
  | { is: 'session'; session: string }
  | ({ is: 'granted' } & Granted)
  | { is: 'refused'; seq: number; code: string; message: string }
  | { is: 'heartbeat'; term: number; tick: number }
  | { is: 'rooms'; id: number; rooms: ListedRow[]; next: string | null }
  | Renewed;

/** A sound MessagePack value that is not the message it says it is. */
export class WireError extends Error {
  override name = 'WireError';
}

/**
 * Calls `take` for each message of one WebSocket message, in order. Throws `DecodeError` or `WireError` at the first
 * fault; what stood before it has been taken.
 */
export function readServer(bytes: Uint8Array, take: (message: ServerMessage) => void): void {
  const reader = new Reader(bytes);
  if (reader.done) throw new DecodeError('empty message');
  while (!reader.done) take(parse(reader.read()));
}

function parse(value: Value): ServerMessage {
  const f = new Fields(value);
  const message = fields(f);
  f.end();
  return message;
}

function fields(f: Fields): ServerMessage {
  const kind = f.int();
  switch (kind) {
    case 1:
      return {
        is: 'welcome', protocol: f.int(), player: f.text(), token: f.optText(), server: f.text(),
        ping: f.int(), idle: f.int(), bytes: f.int(), rate: f.int(),
      };
    case 2:
      return {
        is: 'joined', id: f.int(), room: f.text(), seat: f.int(), generation: f.int(), session: f.text(), term: f.int(),
        tick: f.int(), owed: f.int(), tickRate: f.int(), hash: f.hash(), table: f.table(),
      };
    case 3: return { is: 'error', id: f.int(), code: f.text(), message: f.text(), retryAfter: f.optInt() };
    case 4: return { is: 'left', id: f.int() };
    case 5: return { is: 'frame', term: f.int(), tick: f.int(), ops: f.ops() };
    case 6: return { is: 'tail', applied: f.int(), saved: f.int(), ops: f.ops() };
    case 7: return { is: 'snapshot', term: f.int(), tick: f.int(), ops: f.ops() };
    case 8: return { is: 'message', type: f.int(), payload: f.any() };
    case 9: return { is: 'reply', id: f.int(), payload: f.any() };
    case 10: return { is: 'pong', id: f.int(), time: f.int() };
    case 11: return { is: 'move', urls: f.list().map(asText), after: f.int() };
    case 12: return { is: 'rolled_back', term: f.int(), tick: f.int() };
    case 13: return { is: 'session', session: f.text() };
    case 14: return { is: 'granted', source: f.text(), scheduledFor: f.optInt(), grants: f.amounts(), balances: f.amounts() };
    case 15: return { is: 'refused', seq: f.int(), code: f.text(), message: f.text() };
    case 16: return { is: 'heartbeat', term: f.int(), tick: f.int() };
    case 17: return { is: 'renewed', seat: f.int(), tickRate: f.int(), hash: f.hash(), table: f.table() };
    case 18: return { is: 'rooms', id: f.int(), rooms: f.list().map(listed), next: f.optText() };
    default: throw new WireError(`unknown kind ${kind}`);
  }
}

function listed(row: Value): ListedRow {
  const f = new Fields(row);
  const [room, seats, maxSeats, locked, metadata] = [f.text(), f.int(), f.int(), f.flag(), f.any()];
  f.end();
  // What is no map has no keys.
  return { room, seats, maxSeats, locked, metadata: metadata instanceof Map ? metadata : new Map() };
}

/** The fields of one message or row, in order. */
class Fields {
  private readonly items: Value[];
  private at = 0;

  constructor(value: Value) {
    this.items = asList(value);
  }

  any(): Value {
    const value = this.items[this.at];
    if (value === undefined) throw new WireError(`field ${this.at} is missing`);
    this.at += 1;
    return value;
  }
  /** There must be no more. */
  end(): void {
    if (this.at !== this.items.length) throw new WireError(`${this.items.length} fields, expected ${this.at}`);
  }
  int(): number {
    return asInt(this.any());
  }
  optInt(): number | null {
    const value = this.any();
    return value === null ? null : asInt(value);
  }
  text(): string {
    return asText(this.any());
  }
  optText(): string | null {
    const value = this.any();
    return value === null ? null : asText(value);
  }
  flag(): boolean {
    const value = this.any();
    if (typeof value !== 'boolean') throw new WireError(`expected true or false, got ${typeof value}`);
    return value;
  }
  list(): Value[] {
    return asList(this.any());
  }
  ops(): Value[][] {
    return this.list().map(asList);
  }
  hash(): Uint8Array {
    const value = this.any();
    if (!(value instanceof Uint8Array) || value.length !== 8) throw new WireError('expected 8 bytes');
    return value;
  }
  amounts(): Map<string, number> {
    return new Map(
      this.list().map((pair) => {
        const f = new Fields(pair);
        const currency = f.text();
        const amount = f.any();
        if (!Number.isSafeInteger(amount)) throw new WireError('expected an amount');
        f.end();
        return [currency, amount as number];
      }),
    );
  }
  table(): TableRow[] | null {
    const rows = this.any();
    if (rows === null) return null;
    return asList(rows).map((row) => {
      const f = new Fields(row);
      const [space, number, name, version] = [f.int(), f.int(), f.text(), f.int()];
      const fields = f.any();
      f.end();
      return { space, number, name, version, fields: fields === null ? null : asList(fields).map(asText) };
    });
  }
}

/** A count or id: a whole number from 0 to 2^53 - 1. */
export function asInt(value: Value | undefined): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw new WireError(`expected a whole number, got ${typeof value}`);
  return value as number;
}

function asText(value: Value | undefined): string {
  if (typeof value !== 'string') throw new WireError(`expected a text, got ${typeof value}`);
  return value;
}

function asList(value: Value | undefined): Value[] {
  if (!Array.isArray(value)) throw new WireError(`expected an array, got ${typeof value}`);
  return value;
}

type Bytes = Uint8Array<ArrayBuffer>;

/** Messages of the client. `options`, `filter` and `payload` are MessagePack already. */
export const client = {
  hello: (token: string | null, table: Uint8Array | null): Bytes => message(1, PROTOCOL, token, table),
  joinOrCreate: (id: number, kind: string, region: string | null, name: string | null, options: Uint8Array, filter?: Uint8Array): Bytes =>
    wanted(2, id, kind, region, name, options, filter),
  create: (id: number, kind: string, region: string | null, name: string | null, options: Uint8Array, filter?: Uint8Array): Bytes =>
    wanted(3, id, kind, region, name, options, filter),
  join: (id: number, room: string, options: Uint8Array): Bytes => messageWith(options, 4, id, room),
  /** `resumes`: see `Room`; 0 if it is not known. */
  resume: (id: number, room: string, session: string, term: number, tick: number, first: number, resumes: number): Bytes =>
    resumes > 0 ? message(5, id, room, session, term, tick, first, resumes) : message(5, id, room, session, term, tick, first),
  leave: (id: number): Bytes => message(6, id),
  message: (seq: number, type: number, payload: Uint8Array): Bytes => messageWith(payload, 7, seq, type),
  request: (seq: number, id: number, type: number, payload: Uint8Array): Bytes => messageWith(payload, 8, seq, id, type),
  ping: (id: number): Bytes => message(9, id),
  sessionAck: (session: string): Bytes => message(10, session),
  resync: (): Bytes => message(11),
  table: (hash: Uint8Array): Bytes => message(12, hash),
  rooms: (id: number, kind: string | null, region: string | null, filter: Uint8Array | null, open: boolean, after: string | null, limit: number): Bytes => {
    const out = new Writer().arrayHeader(8).value(13).value(id).value(kind).value(region);
    return (filter ? out.raw(filter) : out.value(null)).value(open).value(after).value(limit).finish();
  },
};

function wanted(verb: number, id: number, kind: string, region: string | null, name: string | null, options: Uint8Array, filter?: Uint8Array): Bytes {
  const out = new Writer().arrayHeader(filter ? 7 : 6).value(verb).value(id).value(kind).value(region).value(name).raw(options);
  return (filter ? out.raw(filter) : out).finish();
}

function message(...fields: unknown[]): Bytes {
  return new Writer().value(fields).finish();
}

function messageWith(last: Uint8Array, ...fields: unknown[]): Bytes {
  const out = new Writer().arrayHeader(fields.length + 1);
  for (const field of fields) out.value(field);
  return out.raw(last).finish();
}
