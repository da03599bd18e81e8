// From the address of the page to a seat: a kept seat first, else a room by the address, with patience while the server starts.
import { Client, TenureError, type Room, type SavedSession } from '../sdk/index.ts';
import type { Arena } from './game.ts';

const NAMES = ['Swift', 'Brave', 'Sunny', 'Quiet', 'Lucky', 'Clever', 'Misty', 'Golden'];
const ANIMALS = ['Fox', 'Otter', 'Heron', 'Badger', 'Lynx', 'Robin', 'Hare', 'Wren'];
const KNOWN_NAME = 'arena.name';
/** Attempts to join while the server does not answer, and the longest wait between two, ms. */
const ATTEMPTS = 12;
const LONGEST = 5000;

export interface Wish {
  name: string | null;
  room: string | undefined;
  region: string | undefined;
  /** For pages that are served elsewhere. */
  server: string | undefined;
}

/** `?name=Ada&room=test-1&region=local` */
export function wishFrom(search: string): Wish {
  const query = new URLSearchParams(search);
  const text = (key: string): string | undefined => query.get(key)?.trim() || undefined;
  return { name: text('name') ?? null, room: text('room'), region: text('region'), server: text('server') };
}

export function proposedName(): string {
  const pick = (list: readonly string[]): string => list[Math.floor(Math.random() * list.length)] as string;
  try {
    return localStorage.getItem(KNOWN_NAME) ?? `${pick(NAMES)} ${pick(ANIMALS)}`;
  } catch {
    return `${pick(NAMES)} ${pick(ANIMALS)}`;
  }
}
export function rememberName(name: string): void {
  try {
    localStorage.setItem(KNOWN_NAME, name);
  } catch {
    // Then it is asked again.
  }
}

/** The seat that this tab had, if the address does not ask for another room. */
export function keptSeat(client: Client, wish: Wish): SavedSession | undefined {
  return client.savedSessions().find(({ room }) => wish.room === undefined || room.split('/').at(-1) === wish.room);
}

/** Takes the kept seat or joins. Rejects when the server says no, or not at all for long. */
export async function enter(client: Client, wish: Wish, name: string, waiting: (attempt: number) => void): Promise<Room<Arena>> {
  for (let attempt = 1; ; attempt++) {
    try {
      const seat = keptSeat(client, wish);
      if (seat) {
        try {
          return await client.reconnect<Arena>(seat);
        } catch (error) {
          if (error instanceof TenureError && error.retryable) throw error;
          // The seat is gone: a new one then.
        }
      }
      const wanted = { ...(wish.region && { region: wish.region }), ...(wish.room && { name: wish.room }) };
      return await client.joinOrCreate<Arena>('arena', { name }, wanted);
    } catch (error) {
      if (!(error instanceof TenureError) || !error.retryable || attempt >= ATTEMPTS) throw error;
      waiting(attempt);
      const wait = (error.retryAfter ?? 0) + Math.random() * Math.min(LONGEST, 500 * 2 ** attempt);
      await new Promise((resolve) => setTimeout(resolve, Math.min(wait, 60_000)));
    }
  }
}
