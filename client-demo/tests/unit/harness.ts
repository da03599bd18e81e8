// Scripted sockets: a test plays the server by hand and sees what the client sent.
import { vi } from 'vitest';
import { Client, type ClientOptions, type Room } from '../../sdk/index.ts';
import { Reader, type Value } from '../../sdk/msgpack.ts';
import type { Socket } from '../../sdk/connection.ts';
import type { TokenStorage } from '../../sdk/storage.ts';
import { join, server, type JoinedFields } from '../fake/encode.ts';
import { TABLE } from '../fake/arena.ts';

export const HASH = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]);
export const TERM = 1_764_446_400_123_456;
export const number = (space: number, name: string): number => TABLE.find((r) => r.space === space && r.name === name)!.number;

export class Storage implements TokenStorage {
  readonly map = new Map<string, string>();
  getItem(key: string): string | null {
    return this.map.get(key) ?? null;
  }
  setItem(key: string, value: string): void {
    this.map.set(key, value);
  }
  removeItem(key: string): void {
    this.map.delete(key);
  }
}

/** A socket whose other end is the test. */
export class Script implements Socket {
  readonly url: string;
  binaryType = '';
  readyState = 0;
  onopen: Socket['onopen'] = null;
  onmessage: Socket['onmessage'] = null;
  onclose: Socket['onclose'] = null;
  onerror: Socket['onerror'] = null;
  readonly sent: Value[][] = [];
  closedByClient = false;

  constructor(url: string) {
    this.url = url;
  }
  send(data: Uint8Array): void {
    const reader = new Reader(data);
    while (!reader.done) this.sent.push(reader.read() as Value[]);
  }
  close(): void {
    this.readyState = 3;
    this.closedByClient = true;
  }

  async open(): Promise<void> {
    this.readyState = 1;
    this.onopen?.({} as never);
    await flush();
  }
  give(...messages: Uint8Array[]): void {
    this.onmessage?.({ data: join(...messages).buffer } as never);
  }
  lose(code: number, reason = ''): void {
    this.readyState = 3;
    this.onclose?.({ code, reason } as never);
  }
  of(kind: number): Value[][] {
    return this.sent.filter((m) => m[0] === kind);
  }
  last(kind: number): Value[] {
    const found = this.of(kind).at(-1);
    if (!found) throw new Error(`no message of kind ${kind}: ${JSON.stringify(this.sent)}`);
    return found;
  }
}

/** Lets promises settle. */
export async function flush(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}

export const limits = { ping: 10_000, idle: 25_000, bytes: 4096, rate: 60 };

export class Bench {
  readonly sockets: Script[] = [];
  readonly storage: Storage;
  readonly client: Client;
  random = 0.5;

  constructor({ storage = new Storage(), ...options }: ClientOptions & { storage?: Storage } = {}) {
    this.storage = storage;
    this.client = new Client('ws://game.test/ws', {
      storage,
      random: () => this.random,
      socket: (url) => {
        const socket = new Script(url);
        this.sockets.push(socket);
        return socket;
      },
      ...options,
    });
  }
  get socket(): Script {
    return this.sockets.at(-1)!;
  }
  /** The login of the newest socket: hello, welcome, and then `joined` as the answer to the verb. */
  async login(joined: Partial<JoinedFields> = {}, socket = this.socket): Promise<void> {
    await socket.open();
    socket.give(server.welcome('guest:1', 'guest-token', 'node-1', limits));
    await flush();
    const id = socket.sent.at(-1)?.[1] as number;
    socket.give(server.joined({ id, room: 'arena/local/a', seat: 3, generation: 1, session: 's1', term: TERM, tick: 100, owed: 1, tickRate: 20, hash: HASH, table: TABLE, ...joined }));
    await flush();
  }
  async room(joined: Partial<JoinedFields> = {}): Promise<Room> {
    const pending = this.client.joinOrCreate('arena', { name: 'Ada' }, { region: 'local', name: 'a' });
    await this.login(joined);
    const room = await pending;
    this.socket.give(server.snapshot(joined.term ?? TERM, joined.tick ?? 100, [[0, 1, number(0, 'pos'), [1, 1]]]));
    await flush();
    return room;
  }
}

export function fakeTime(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'Date'] });
}
