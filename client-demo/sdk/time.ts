// Waiting: timers that survive long waits, and the delays between attempts to come back.

/** The longest wait that a browser's timer can hold, ms; a longer one fires at once. */
const LONGEST = 2 ** 31 - 1;

/** Monotonic milliseconds. */
export function now(): number {
  return performance.now();
}

/** One timer. Waits of any length are cut in pieces and checked against the clock, so that none fires early. */
export class Alarm {
  private timer: ReturnType<typeof setTimeout> | undefined;

  get set(): boolean {
    return this.timer !== undefined;
  }

  /** Calls `then` once after `ms`; a wait that was set before is dropped. */
  start(ms: number, then: () => void): void {
    this.stop();
    const due = now() + Math.max(0, ms);
    const step = (): void => {
      const left = due - now();
      if (left <= 0) {
        this.timer = undefined;
        then();
      } else {
        this.timer = setTimeout(step, Math.min(Math.ceil(left), LONGEST));
      }
    };
    this.timer = setTimeout(step, Math.min(Math.ceil(Math.max(0, ms)), LONGEST));
  }

  stop(): void {
    if (this.timer !== undefined) clearTimeout(this.timer);
    this.timer = undefined;
  }
}

/** How to come back after a drop. */
export interface BackoffOptions {
  /** The first attempt waits between 0 and this, ms. */
  first: number;
  /** No attempt waits longer than this, ms (a wait that the server asks for comes on top). */
  cap: number;
  /** After so many failed attempts in a row the room is given up. */
  attempts: number;
  /** A connection that held for so long ends the row, ms. */
  stable: number;
}

export const BACKOFF: BackoffOptions = { first: 1000, cap: 8000, attempts: 40, stable: 10_000 };

/** Full jitter: after a deploy all clients come back, and they must not do it in the same second. */
export class Backoff {
  private readonly options: BackoffOptions;
  private readonly random: () => number;
  private failed = 0;
  private liveSince: number | undefined;

  constructor(options: BackoffOptions, random: () => number) {
    this.options = options;
    this.random = random;
  }

  /** Number of the next attempt, from 1. */
  get attempt(): number {
    return this.failed + 1;
  }

  /** A connection stands. Only after `stable` does that count, or a server that accepts and closes would be hammered. */
  live(): void {
    this.liveSince = now();
  }

  lost(): void {
    if (this.liveSince !== undefined && now() - this.liveSince >= this.options.stable) this.failed = 0;
    this.liveSince = undefined;
  }

  /** Milliseconds to wait before the next attempt, or undefined when it is time to give up. */
  next(retryAfter: number): number | undefined {
    if (this.failed >= this.options.attempts) return undefined;
    const window = Math.min(this.options.cap, this.options.first * 2 ** Math.min(this.failed, 16));
    this.failed += 1;
    return retryAfter + this.random() * window;
  }
}
