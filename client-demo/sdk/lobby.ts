// Lists of rooms: one question on a socket of its own, which takes no seat.
import { CloseCode } from './codes.ts';
import { Connection, type ConnectionHandler } from './connection.ts';
import { TenureError } from './errors.ts';
import { encode, type Value } from './msgpack.ts';
import type { Context } from './schema.ts';
import { named } from './table.ts';
import { client, type ListedRow } from './wire.ts';

/** What a room's metadata must hold: at most 8 keys; texts up to 64 bytes, whole numbers, booleans and null. */
export type Filter = Readonly<Record<string, string | number | boolean | null>>;

/** Which rooms are wanted of a list. */
export interface ListOptions {
  region?: string;
  filter?: Filter;
  /** Those that can be joined only: not locked, with a free seat. Default: true. */
  open?: boolean;
  /** Behind this room: `next` of the page before. */
  after?: string;
  /** Rooms of one page, at most 50. */
  limit?: number;
}

/** A room of a list, as it said a moment ago. */
export interface ListedRoom extends Omit<ListedRow, 'metadata'> {
  /** What the game says of it; without prototype, as all objects from the wire. */
  metadata: Readonly<Record<string, unknown>>;
}

/** A page of a list of rooms. */
export interface RoomPage {
  /** In the order of their ids, as they said a moment ago. Fewer than were asked for, or none, need not be the last ones. */
  rooms: ListedRoom[];
  /** Where the next page begins; null: there is none. */
  next: string | null;
}

/** The only request of its socket. */
const ID = 1;
/** Rooms of a page, unless the caller wants another number. */
const PAGE = 20;

/** Undefined for no filter. */
export function packFilter(filter: Filter | undefined): Uint8Array | undefined {
  return filter && Object.keys(filter).length > 0 ? encode(filter) : undefined;
}

/** Asks for a page. Rejects with `TenureError`. */
export function listRooms(context: Context, url: string, kind: string | undefined, wanted: ListOptions): Promise<RoomPage> {
  const filter = packFilter(wanted.filter) ?? null;
  return new Promise((resolve, reject) => {
    const handler: ConnectionHandler = {
      hello: async () => client.hello((await context.token()) ?? null, null),
      verb: (id) => client.rooms(id, kind ?? null, wanted.region ?? null, filter, wanted.open ?? true, wanted.after ?? null, wanted.limit ?? PAGE),
      answered: (connection, welcome, message) => {
        if (message.is !== 'rooms') return;
        if (welcome.token !== null) context.keepToken(welcome.token);
        connection.discard();
        const rooms = message.rooms.map((row) => ({ ...row, metadata: named(row.metadata as Value) as Record<string, unknown> }));
        resolve({ rooms, next: message.next });
      },
      joined: (connection) => connection.end(CloseCode.ProtocolError, 'a seat that nobody asked for'),
      message: () => undefined,
      unreadable: (connection, error) => connection.end(CloseCode.Abnormal, String(error)),
      closed: (_connection, code, reason, error) => reject(error ?? new TenureError('unreachable', `no list of rooms: ${code} ${reason}`)),
    };
    new Connection(context.socket, url, ID, handler);
  });
}
