// Lists of listeners. A listener that throws is reported and disturbs neither the others nor the connection.

/** Ends a subscription; calling it again does nothing. */
export type Unsubscribe = () => void;

/** Listeners of one event. With `hold`, events that nobody hears yet wait (at most that many) for the first listener. */
export class Emitter<A extends unknown[]> {
  private readonly listeners = new Set<(...args: A) => void>();
  private held: A[] = [];
  private readonly hold: number;
  private readonly lost: () => void;

  /** `lost` hears of each held event that had to make room, oldest first. */
  constructor(hold = 0, lost: () => void = () => undefined) {
    this.hold = hold;
    this.lost = lost;
  }

  get heard(): boolean {
    return this.listeners.size > 0;
  }

  on(listener: (...args: A) => void): Unsubscribe {
    const own = (...args: A): void => listener(...args);
    this.listeners.add(own);
    for (const args of this.take()) guard(own, args);
    return () => void this.listeners.delete(own);
  }

  emit(...args: A): void {
    if (this.listeners.size === 0 && this.hold > 0) {
      this.held.push(args);
      if (this.held.length > this.hold) {
        this.held.shift();
        this.lost();
      }
      return;
    }
    for (const listener of Array.from(this.listeners)) guard(listener, args);
  }

  /** What was held, for somebody else. */
  take(): A[] {
    return this.held.splice(0);
  }
}

/** Emitters by name. */
export class Emitters<A extends unknown[]> {
  private readonly byName = new Map<string, Emitter<A>>();

  on(name: string, listener: (...args: A) => void): Unsubscribe {
    let found = this.byName.get(name);
    if (!found) this.byName.set(name, (found = new Emitter<A>()));
    return found.on(listener);
  }
  emit(name: string, ...args: A): void {
    this.byName.get(name)?.emit(...args);
  }
}

/** Messages by name. Those that nobody hears yet wait, `hold` of each name, for a listener to their name or to all. */
export class Messages {
  private readonly byName = new Map<string, Emitter<[unknown]>>();
  private readonly all = new Emitter<[string, unknown]>();
  private readonly hold: number;
  private readonly lost: () => void;

  constructor(hold: number, lost: () => void) {
    this.hold = hold;
    this.lost = lost;
  }

  on(name: string, listener: (payload: unknown) => void): Unsubscribe {
    return this.get(name).on(listener);
  }
  onAny(listener: (name: string, payload: unknown) => void): Unsubscribe {
    const stop = this.all.on(listener);
    for (const [name, emitter] of this.byName) for (const [payload] of emitter.take()) guard(listener, [name, payload]);
    return stop;
  }
  emit(name: string, payload: unknown): void {
    const heard = this.all.heard;
    this.all.emit(name, payload);
    if (!heard || this.byName.get(name)?.heard) this.get(name).emit(payload);
  }

  private get(name: string): Emitter<[unknown]> {
    let found = this.byName.get(name);
    if (!found) this.byName.set(name, (found = new Emitter<[unknown]>(this.hold, this.lost)));
    return found;
  }
}

/** Calls a listener of the game. */
export function guard<A extends unknown[]>(listener: (...args: A) => void, args: A): void {
  try {
    listener(...args);
  } catch (error) {
    if (typeof reportError === 'function') reportError(error);
    else console.error(error);
  }
}
