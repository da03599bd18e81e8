// The seats that this storage knows, each under a key of its own: a lobby and a match are two.
import { parseSaved, type SavedSession, type TokenStorage } from './storage.ts';

/** Most seats that are kept; the one taken longest ago makes room. */
const MOST = 16;

export class Sessions {
  private readonly storage: TokenStorage;
  private readonly prefix: string;

  constructor(storage: TokenStorage, prefix: string) {
    this.storage = storage;
    this.prefix = prefix;
  }

  /** Those that can be read, the seat taken last first. */
  all(): SavedSession[] {
    return this.rooms().flatMap((room) => parseSaved(this.storage.getItem(this.key(room))) ?? []);
  }

  /** `first`: the seat was just taken, it counts as the last one. */
  save(session: SavedSession, first: boolean): void {
    this.storage.setItem(this.key(session.room), JSON.stringify(session));
    const rooms = this.rooms();
    if (rooms.includes(session.room) && !(first && rooms[0] !== session.room)) return;
    this.list([session.room, ...rooms.filter((room) => room !== session.room)]);
  }

  forget(room: string): void {
    this.storage.removeItem(this.key(room));
    const rooms = this.rooms();
    if (rooms.includes(room)) this.list(rooms.filter((known) => known !== room));
  }

  private key(room: string): string {
    return `${this.prefix}.session.${room}`;
  }

  private list(rooms: string[]): void {
    for (const room of rooms.splice(MOST)) this.storage.removeItem(this.key(room));
    if (rooms.length > 0) this.storage.setItem(`${this.prefix}.sessions`, JSON.stringify(rooms));
    else this.storage.removeItem(`${this.prefix}.sessions`);
  }

  /** Ids of rooms. What an earlier build kept under one key for all is taken over. */
  private rooms(): string[] {
    const old = this.storage.getItem(`${this.prefix}.session`);
    if (old !== null) {
      this.storage.removeItem(`${this.prefix}.session`);
      const saved = parseSaved(old);
      if (saved) this.save(saved, true);
    }
    try {
      const rooms: unknown = JSON.parse(this.storage.getItem(`${this.prefix}.sessions`) ?? '[]');
      return Array.isArray(rooms) ? rooms.filter((room) => typeof room === 'string') : [];
    } catch {
      return [];
    }
  }
}
