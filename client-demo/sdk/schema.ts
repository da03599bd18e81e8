// Types by which a game tells the SDK its names, and what a room needs from its client.
import type { SocketFactory } from './connection.ts';
import type { SavedSession } from './storage.ts';
import type { Tables } from './table.ts';
import type { BackoffOptions } from './time.ts';

/** What a game registers, by name. Only types: nothing of it is needed at run time. Structs are objects, at any depth. */
export interface Schema {
  components: object;
  resources: object;
  /** Messages to the room. */
  messages: object;
  /** Requests to the room. */
  requests: object;
  /** Messages from the room. */
  events: object;
}

/** For code that does not know its game. */
export interface AnySchema extends Schema {
  components: Record<string, unknown>;
  resources: Record<string, unknown>;
  messages: Record<string, unknown>;
  requests: Record<string, { ask: unknown; answer: unknown }>;
  events: Record<string, unknown>;
}

export type Names<T> = keyof T & string;
export type Ask<T, K extends keyof T> = T[K] extends { ask: infer A } ? A : never;
export type Answer<T, K extends keyof T> = T[K] extends { answer: infer A } ? A : never;

/** What a room shares with its client. */
export interface Context {
  socket: SocketFactory;
  backoff: BackoffOptions;
  random: () => number;
  requestTimeout: number;
  readonly tables: Tables;
  token(): Promise<string | null>;
  keepToken(token: string): void;
  /** `taken`: by a join, not by a resume. */
  save(session: SavedSession, taken: boolean): void;
  forget(room: string): void;
}
