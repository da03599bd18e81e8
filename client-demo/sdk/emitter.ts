// Lists of listeners. A listener that throws is reported and disturbs neither the others nor the connection.

/** Ends a subscription; calling it again does nothing. */
export type Unsubscribe = () => void;

/** Listeners of one event. With `hold`, events that nobody hears yet wait (at most that many) for the first listener. */
export class Emitter<A extends unknown[]> {
  private readonly listeners = new Set<(...args: A) => void>();
  private held: A[] = [];
  private readonly hold: number;
  /** Held events that had to make room, oldest first. */
  lost = 0;

  constructor(hold = 0) {
    this.hold = hold;
  }

  get heard(): boolean {
    return this.listeners.size > 0;
  }

  on(listener: (...args: A) => void): Unsubscribe {
    const own = (...args: A): void => listener(...args);
    this.listeners.add(own);
    const waiting = this.held;
    this.held = [];
    for (const args of waiting) guard(own, args);
    return () => void this.listeners.delete(own);
  }

  emit(...args: A): void {
    if (this.listeners.size === 0 && this.hold > 0) {
      this.held.push(args);
      if (this.held.length > this.hold) {
        this.held.shift();
        this.lost += 1;
      }
      return;
    }
    for (const listener of Array.from(this.listeners)) guard(listener, args);
  }
}

/** Emitters by name. */
export class Emitters<A extends unknown[]> {
  private readonly byName = new Map<string, Emitter<A>>();
  private readonly hold: number;

  constructor(hold = 0) {
    this.hold = hold;
  }

  get(name: string): Emitter<A> {
    let found = this.byName.get(name);
    if (!found) this.byName.set(name, (found = new Emitter<A>(this.hold)));
    return found;
  }
  on(name: string, listener: (...args: A) => void): Unsubscribe {
    return this.get(name).on(listener);
  }
  emit(name: string, ...args: A): void {
    if (this.hold > 0) this.get(name).emit(...args);
    else this.byName.get(name)?.emit(...args);
  }
}

function guard<A extends unknown[]>(listener: (...args: A) => void, args: A): void {
  try {
    listener(...args);
  } catch (error) {
    if (typeof reportError === 'function') reportError(error);
    else console.error(error);
  }
}
