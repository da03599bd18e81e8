// The way of messages to the room: packed by the name table, kept in order, sent below the server's rate.
import { TenureError } from './errors.ts';
import { Inputs, OVERHEAD, Pace, type Kept, type Kind } from './inputs.ts';
import { decode, encode } from './msgpack.ts';
import { flatten, type NameTable } from './table.ts';
import { Alarm, now } from './time.ts';
import { Space, UNKNOWN_TYPE, client } from './wire.ts';

/** Part of the server's rate that messages use; pings and answers take the rest. */
const RATE_SHARE = 0.8;

/** In place of a payload that this server cannot read: the message keeps the sequence whole and is refused. */
const NOTHING = encode(null);

/** Gives bytes to the socket that holds the seat; false if there is none. */
export type Send = (bytes: Uint8Array<ArrayBuffer>) => boolean;

/** A payload and what it is of. */
export interface Packed {
  kind: Kind;
  bytes: Uint8Array;
}

export class Sender {
  readonly inputs = new Inputs();
  private readonly send: Send;
  private table: NameTable | undefined;
  /** The table by which the server takes what it gets: what it named in `joined`, then what it was answered. */
  private told: NameTable | undefined;
  private maxBytes = 0;
  private pace = new Pace(1, 0);
  private readonly pump = new Alarm();
  /** The leave: it goes out behind everything else, once for each attachment. */
  private last: (() => Uint8Array<ArrayBuffer>) | undefined;
  private lastSent = false;

  constructor(send: Send) {
    this.send = send;
  }

  /** A new attachment: its names, its limits, and the number it wants next. */
  attach(table: NameTable, owed: number, limits: { bytes: number; rate: number }): void {
    this.table = this.told = table;
    this.maxBytes = limits.bytes;
    this.pace = new Pace(limits.rate * RATE_SHARE, now());
    this.pump.stop();
    this.lastSent = false;
    this.inputs.attach(owed);
    this.flush();
  }

  /** The room numbers by this table now. The server hears of it before anything that is numbered so. */
  renew(table: NameTable): void {
    this.table = table;
    this.told = undefined;
    this.answer();
    this.flush();
  }

  /** The payload as the type's struct. Throws `unknown_name` or `too_large`. */
  pack(space: number, name: string, payload: unknown): Packed {
    const named = this.table?.named(space, name);
    if (!named) throw new TenureError('unknown_name', `this server knows no ${space === Space.Request ? 'request' : 'message'} ${name}`);
    const bytes = encode(flatten(payload, named.fields));
    if (bytes.length + OVERHEAD > this.maxBytes) {
      throw new TenureError('too_large', `${name} has ${bytes.length} bytes, the server takes ${this.maxBytes}`);
    }
    return { kind: named, bytes };
  }

  /** Sends what this attachment has not sent, in order. */
  flush(): void {
    if (this.pump.set || !this.answer()) return;
    for (let entry = this.inputs.unsent(); entry; entry = this.inputs.unsent()) {
      const wait = this.pace.wait(now());
      if (wait > 0) return this.pump.start(wait, () => this.flush());
      if (!this.send(this.message(entry))) return;
      this.pace.count();
      this.inputs.sent(entry);
    }
    if (this.last && !this.lastSent) this.lastSent = this.send(this.last());
  }

  /** Sends `message` behind all that waits. If the socket is lost before its answer, the next one gets it again. */
  end(message: () => Uint8Array<ArrayBuffer>): void {
    this.last = message;
    this.flush();
  }

  stop(): void {
    this.pump.stop();
  }

  /** Tells the server by which table this client numbers. False if no socket takes it; then nothing may go out before it. */
  private answer(): boolean {
    if (!this.table || this.told === this.table) return true;
    if (!this.send(client.table(this.table.hash))) return false;
    this.told = this.table;
    return true;
  }

  /** As this server's table has it. What that does not know (any more) is sent as unknown, so that the server refuses it by its number. */
  private message({ seq, kind, request, payload }: Kept): Uint8Array<ArrayBuffer> {
    const named = this.table?.named(request === undefined ? Space.Message : Space.Request, kind.name);
    const bytes = named && repack(payload, kind, named);
    const fits = bytes !== undefined && bytes.length + OVERHEAD <= this.maxBytes;
    const [type, body] = fits ? [named?.number ?? UNKNOWN_TYPE, bytes] : [UNKNOWN_TYPE, NOTHING];
    return request === undefined ? client.message(seq, type, body) : client.request(seq, request, type, body);
  }
}

/** A payload of one form of a type, in another: a struct's fields follow their names. Undefined if no names say how. */
function repack(payload: Uint8Array, from: Kind, to: Kind): Uint8Array | undefined {
  if (from === to) return payload;
  const { fields } = from;
  if (!fields || !to.fields) return from.version === to.version ? payload : undefined;
  if (fields.length === to.fields.length && fields.every((field, i) => field === to.fields?.[i])) return payload;
  const values = decode(payload);
  // The game's code packed it by itself: the server says whether it can be read.
  if (!Array.isArray(values)) return payload;
  return encode(to.fields.map((field) => values[fields.indexOf(field)] ?? null));
}
