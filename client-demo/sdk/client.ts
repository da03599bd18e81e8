// The way in: finds a server, keeps the player's tokens, opens rooms.
import type { Socket, SocketFactory } from './connection.ts';
import { TenureError } from './errors.ts';
import { encode } from './msgpack.ts';
import { Room } from './room.ts';
import type { AnySchema, Context, Schema } from './schema.ts';
import { DefaultStorage, parseSaved, type SavedSession, type TokenStorage } from './storage.ts';
import { Tables } from './table.ts';
import { BACKOFF, type BackoffOptions } from './time.ts';
import { client } from './wire.ts';

export interface ClientOptions {
  /** A signed token, or how to get one; asked again at each (re)connect. Without it the client is a guest. */
  token?: string | (() => string | Promise<string>);
  /** Where the guest token and the last session are kept. Default: this tab. */
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
}

export class Client {
  readonly url: string;
  private readonly storage: TokenStorage;
  private readonly prefix: string;
  private readonly context: Context;

  /** `url`: the server's socket, `ws://host:port/ws`; by default the host of this page. */
  constructor(url?: string, options: ClientOptions = {}) {
    this.url = socketUrl(url);
    this.storage = options.storage ?? new DefaultStorage();
    this.prefix = options.prefix ?? 'tenure';
    const { token } = options;
    this.context = {
      socket: options.socket ?? ((to) => new WebSocket(to) as Socket),
      backoff: { ...BACKOFF, ...options.backoff },
      random: options.random ?? Math.random,
      requestTimeout: options.requestTimeout ?? 10_000,
      tables: new Tables(),
      token: async () => (typeof token === 'function' ? token() : (token ?? this.storage.getItem(`${this.prefix}.guest`))),
      keepToken: (guest) => this.storage.setItem(`${this.prefix}.guest`, guest),
      save: (session) => this.storage.setItem(`${this.prefix}.session`, JSON.stringify(session)),
      forget: (room) => {
        if (this.savedSession()?.room === room) this.storage.removeItem(`${this.prefix}.session`);
      },
    };
  }

  /** Any room of the kind with a free seat, else a new one; with a name: that room. Rejects with `TenureError`. */
  joinOrCreate<S extends Schema = AnySchema>(kind: string, options: unknown = {}, wanted: Wanted = {}): Promise<Room<S>> {
    const packed = encode(options);
    return this.open<S>(this.url, (id) => client.joinOrCreate(id, kind, wanted.region ?? null, wanted.name ?? null, packed));
  }
  /** A room that must be new. */
  create<S extends Schema = AnySchema>(kind: string, options: unknown = {}, wanted: Wanted = {}): Promise<Room<S>> {
    const packed = encode(options);
    return this.open<S>(this.url, (id) => client.create(id, kind, wanted.region ?? null, wanted.name ?? null, packed));
  }
  /** A room that exists. */
  join<S extends Schema = AnySchema>(room: string, options: unknown = {}): Promise<Room<S>> {
    const packed = encode(options);
    return this.open<S>(this.url, (id) => client.join(id, room, packed));
  }
  /** A seat that this player still has, for example after a reload of the page. */
  reconnect<S extends Schema = AnySchema>(saved: SavedSession | undefined = this.savedSession()): Promise<Room<S>> {
    if (!saved) return Promise.reject(new TenureError('closed', 'no saved session', { retryable: false }));
    return this.open<S>(this.url, saved);
  }
  /** The session that this storage saw last, if it was not left. */
  savedSession(): SavedSession | undefined {
    return parseSaved(this.storage.getItem(`${this.prefix}.session`));
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
