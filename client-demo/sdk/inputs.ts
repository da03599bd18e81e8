// What this seat sent to the room: one sequence from 1, kept until it is in a stored checkpoint, so that neither a lost
// socket nor a lost server loses an input or applies it twice.
import { TenureError } from './errors.ts';
import type { Named } from './table.ts';

/** Most messages that are kept, the server's own bound. */
export const KEPT_COUNT = 512;
/** Most bytes that are kept. */
export const KEPT_BYTES = 32 * 1024;
/** What a message costs beside its payload: array header, kind, number, request id, type. */
export const OVERHEAD = 24;

/** What a payload is of, and how that looked when it was packed. Its number may differ by the time it goes out (again). */
export type Kind = Pick<Named, 'name' | 'version' | 'fields'>;

/** One message or request. */
export interface Kept {
  seq: number;
  kind: Kind;
  /** Id of a request, undefined for a message. */
  request: number | undefined;
  payload: Uint8Array;
}

export class Inputs {
  private kept: Kept[] = [];
  private bytes = 0;
  private cursor = 1;
  /** The number that the next message gets. */
  next = 1;
  /** Last message that the room applied. */
  applied = 0;
  /** Last message in a stored checkpoint. */
  saved = 0;
  /** Messages that were not taken because too many wait. */
  refused = 0;

  /** First number that is still kept, or the next one. */
  get first(): number {
    return this.kept[0]?.seq ?? this.next;
  }
  get waiting(): number {
    return this.kept.length;
  }
  /** How full it is, from 0 to 1; at 1 nothing more is taken. */
  get full(): number {
    return Math.max(this.kept.length / KEPT_COUNT, this.bytes / KEPT_BYTES);
  }

  /** Takes a message into the sequence. Throws a retryable `backlog_full` when the bounds are reached. */
  push(kind: Kind, request: number | undefined, payload: Uint8Array): number {
    const size = payload.length + OVERHEAD;
    if (this.kept.length >= KEPT_COUNT || this.bytes + size > KEPT_BYTES) {
      this.refused += 1;
      throw new TenureError('backlog_full', `${this.kept.length} messages wait for the server, no more can be kept`);
    }
    const seq = this.next++;
    this.kept.push({ seq, kind, request, payload });
    this.bytes += size;
    return seq;
  }

  /** The marks of a tail. `saved` never goes back; `applied` may, after a takeover. */
  mark(applied: number, saved: number): void {
    this.applied = applied;
    if (saved <= this.saved) return;
    this.saved = saved;
    let done = 0;
    for (const entry of this.kept) {
      if (entry.seq > saved) break;
      this.bytes -= entry.payload.length + OVERHEAD;
      done += 1;
    }
    this.kept.splice(0, done);
    this.next = Math.max(this.next, saved + 1);
    this.cursor = Math.max(this.cursor, this.first);
  }

  /** A new attachment wants `owed` next. What is kept goes out again from there, in order. */
  attach(owed: number): void {
    if (owed > this.next) {
      // Somebody else used these numbers, for example another tab: what is kept here was overtaken.
      this.kept = [];
      this.bytes = 0;
      this.next = owed;
    }
    this.cursor = Math.max(owed, this.first);
  }

  /** For a page that was loaded anew: what was sent before is gone here, only its numbers count. */
  forget(saved: number): void {
    this.saved = saved;
    this.next = saved + 1;
    this.cursor = this.next;
  }

  /** The next message that this attachment has not sent, or undefined. */
  unsent(): Kept | undefined {
    const first = this.kept[0];
    return first ? this.kept[Math.max(0, this.cursor - first.seq)] : undefined;
  }

  sent(entry: Kept): void {
    this.cursor = entry.seq + 1;
  }
}

/** Keeps a sender below the server's limit: `rate` per second with a burst of one second. */
export class Pace {
  private readonly rate: number;
  private tokens: number;
  private at: number;

  constructor(rate: number, at: number) {
    this.rate = Math.max(1, rate);
    this.tokens = this.rate;
    this.at = at;
  }

  /** 0 when a message may go now, else milliseconds to wait. */
  wait(at: number): number {
    this.tokens = Math.min(this.rate, this.tokens + ((at - this.at) * this.rate) / 1000);
    this.at = at;
    return this.tokens < 1 ? Math.ceil(((1 - this.tokens) * 1000) / this.rate) : 0;
  }

  /** One message went. */
  count(): void {
    this.tokens -= 1;
  }
}
