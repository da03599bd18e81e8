// The way of messages to the room: packed by the name table, kept in order, sent below the server's rate.
import { TenureError } from './errors.ts';
import { Inputs, OVERHEAD, Pace } from './inputs.ts';
import { encode } from './msgpack.ts';
import { flatten, type NameTable } from './table.ts';
import { Alarm, now } from './time.ts';
import { Space, UNKNOWN_TYPE, client } from './wire.ts';

/** Part of the server's rate that messages use; pings and answers take the rest. */
const RATE_SHARE = 0.8;

/** Gives bytes to the socket that holds the seat; false if there is none. */
export type Send = (bytes: Uint8Array<ArrayBuffer>) => boolean;

export class Sender {
  readonly inputs = new Inputs();
  private readonly send: Send;
  private table: NameTable | undefined;
  private maxBytes = 0;
  private pace = new Pace(1, 0);
  private readonly pump = new Alarm();

  constructor(send: Send) {
    this.send = send;
  }

  /** A new attachment: its names, its limits, and the number it wants next. */
  attach(table: NameTable, owed: number, limits: { bytes: number; rate: number }): void {
    this.table = table;
    this.maxBytes = limits.bytes;
    this.pace = new Pace(limits.rate * RATE_SHARE, now());
    this.pump.stop();
    this.inputs.attach(owed);
    this.flush();
  }

  /** The payload as the type's struct. Throws `unknown_name` or `too_large`. */
  pack(space: number, name: string, payload: unknown): Uint8Array {
    const named = this.table?.named(space, name);
    if (!named) throw new TenureError('unknown_name', `this server knows no ${space === Space.Request ? 'request' : 'message'} ${name}`);
    const bytes = encode(flatten(payload, named.fields));
    if (bytes.length + OVERHEAD > this.maxBytes) {
      throw new TenureError('too_large', `${name} has ${bytes.length} bytes, the server takes ${this.maxBytes}`);
    }
    return bytes;
  }

  /** Sends what this attachment has not sent, in order. */
  flush(): void {
    if (this.pump.set) return;
    for (let entry = this.inputs.unsent(); entry; entry = this.inputs.unsent()) {
      const wait = this.pace.wait(now());
      if (wait > 0) return this.pump.start(wait, () => this.flush());
      const type = this.table?.named(entry.request === undefined ? Space.Message : Space.Request, entry.name)?.number ?? UNKNOWN_TYPE;
      const bytes =
        entry.request === undefined
          ? client.message(entry.seq, type, entry.payload)
          : client.request(entry.seq, entry.request, type, entry.payload);
      if (!this.send(bytes)) return;
      this.pace.count();
      this.inputs.sent(entry);
    }
  }

  stop(): void {
    this.pump.stop();
  }
}
