// The way in: finds a server, keeps the player's tokens, opens rooms.
import type { Socket, SocketFactory } from './connection.ts';
import { TenureError } from './errors.ts';
import { listRooms, packFilter, type Filter, type ListOptions, type RoomPage } from './lobby.ts';
import { encode } from './msgpack.ts';
import { Room } from './room.ts';
import type { AnySchema, Context, Schema } from './schema.ts';
import { Sessions } from './sessions.ts';
import { DefaultStorage, type SavedSession, type TokenStorage } from './storage.ts';
import { Tables } from './table.ts';
import { BACKOFF, type BackoffOptions } from './time.ts';
import { client } from './wire.ts';

export interface ClientOptions {
  /** A signed token (docs/logging-in.md), or how to get one; asked again at each (re)connect. Without it the client is a guest. */
  token?: string | (() => string | Promise<string>);
  /** Where the guest token and the sessions are kept. Default: this tab. */
  storage?: TokenStorage;
  /** Prefix of keys in the storage. */
  prefix?: string;
  backoff?: Partial<BackoffOptions>;
  /** Deadline of a request, ms. */
  requestTimeout?: number;
  /** For places without a WebSocket of their own, and tests. */
  socket?: SocketFactory;
  /** Randomness of the waits, from 0 to 1. */
  random?: () => number;
}

/** Which room is wanted; what is absent is the server's choice. */
export interface Wanted {
  region?: string;
  name?: string;
  /** What the room's metadata must hold; a new room begins with it. The game says which keys may be asked for. */
  filter?: Filter;
}

export class Client {
  readonly url: string;
  private readonly sessions: Sessions;
  private readonly context: Context;

  /** `url`: the server's socket, `ws://host:port/ws`; by default the host of this page. */
  constructor(url?: string, options: ClientOptions = {}) {
    this.url = socketUrl(url);
    const { token, storage = new DefaultStorage(), prefix = 'tenure' } = options;
    this.sessions = new Sessions(storage, prefix);
    this.context = {
      socket: options.socket ?? ((to) => new WebSocket(to) as Socket),
      backoff: { ...BACKOFF, ...options.backoff },
      random: options.random ?? Math.random,
      requestTimeout: options.requestTimeout ?? 10_000,
      tables: new Tables(),
      token: async () => (typeof token === 'function' ? token() : (token ?? storage.getItem(`${prefix}.guest`))),
      keepToken: (guest) => storage.setItem(`${prefix}.guest`, guest),
      save: (session, taken) => this.sessions.save(session, taken),
      forget: (room) => this.sessions.forget(room),
    };
  }

  /** Any room of the kind with a free seat, else a new one; with a name: that room. Rejects with `TenureError`. */
  joinOrCreate<S extends Schema = AnySchema>(kind: string, options: unknown = {}, wanted: Wanted = {}): Promise<Room<S>> {
    const packed = encode(options);
    return this.open<S>(this.url, (id) => client.joinOrCreate(id, kind, wanted.region ?? null, wanted.name ?? null, packed, packFilter(wanted.filter)));
  }
  /** A room that must be new. */
  create<S extends Schema = AnySchema>(kind: string, options: unknown = {}, wanted: Wanted = {}): Promise<Room<S>> {
    const packed = encode(options);
    return this.open<S>(this.url, (id) => client.create(id, kind, wanted.region ?? null, wanted.name ?? null, packed, packFilter(wanted.filter)));
  }
  /** A page of the rooms that are not private: those that can be joined, unless `open` is false. Rejects with `TenureError`. */
  rooms(kind?: string, wanted: ListOptions = {}): Promise<RoomPage> {
    return listRooms(this.context, this.url, kind, wanted);
  }
  /** A room that exists. */
  join<S extends Schema = AnySchema>(room: string, options: unknown = {}): Promise<Room<S>> {
    const packed = encode(options);
    return this.open<S>(this.url, (id) => client.join(id, room, packed));
  }
  /**
   * A seat that this player still has, for example after a reload of the page: the one taken last, that of a room or kind
   * (`'lobby'`, `'lobby/eu/1'`), or the one of this session.
   */
  reconnect<S extends Schema = AnySchema>(which?: SavedSession | string): Promise<Room<S>> {
    const saved = typeof which === 'object' ? which : this.savedSession(which);
    if (!saved) return Promise.reject(new TenureError('closed', 'no saved session', { retryable: false }));
    return this.open<S>(this.url, saved);
  }
  /** The session of the seat taken last and not left, of any room or of a kind or room. */
  savedSession(which?: string): SavedSession | undefined {
    return this.savedSessions().find(({ room }) => which === undefined || room === which || room.startsWith(`${which}/`));
  }
  /** All seats that were taken and not left, the last one first: a lobby and a match are two. */
  savedSessions(): SavedSession[] {
    return this.sessions.all();
  }

  private async open<S extends Schema>(url: string, from: ConstructorParameters<typeof Room>[2]): Promise<Room<S>> {
    const room = new Room<S>(this.context, url, from);
    await room.open();
    return room;
  }
}

function socketUrl(url: string | undefined): string {
  if (url === undefined) return `${location.protocol === 'https:' ? 'wss:' : 'ws:'}//${location.host}/ws`;
  const full = new URL(url.replace(/^http/, 'ws'));
  if (full.pathname === '/') full.pathname = '/ws';
  return full.href;
}
