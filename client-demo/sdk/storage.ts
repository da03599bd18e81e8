// Where tokens are kept. The default lives as long as the browser tab: a reload keeps the seat, two tabs are two players.

/** A place for small texts; `sessionStorage` and `localStorage` fit. */
export interface TokenStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

/** `sessionStorage`, and memory for what the page may not keep there. */
export class DefaultStorage implements TokenStorage {
  private readonly memory = new Map<string, string>();

  getItem(key: string): string | null {
    return this.memory.get(key) ?? attempt(() => session()?.getItem(key)) ?? null;
  }
  setItem(key: string, value: string): void {
    const stored = attempt(() => {
      const place = session();
      place?.setItem(key, value);
      return place;
    });
    if (stored) this.memory.delete(key);
    else this.memory.set(key, value);
  }
  removeItem(key: string): void {
    this.memory.delete(key);
    attempt(() => session()?.removeItem(key));
  }
}

function session(): Storage | undefined {
  return typeof sessionStorage === 'undefined' ? undefined : sessionStorage;
}

/** Storage may be forbidden or full; then memory has to do. */
function attempt<T>(call: () => T): T | undefined {
  try {
    return call();
  } catch {
    return undefined;
  }
}

/** All that is needed to take a seat again, also after a reload of the page. Keep it as secret as a password. */
export interface SavedSession {
  url: string;
  room: string;
  session: string;
  /** Newest (term, tick) shown. */
  term: number;
  tick: number;
  /** Newest message number that is in a stored checkpoint. */
  saved: number;
  /** Count of resumes; absent in what an earlier build saved. */
  resumes?: number;
}

/** Reads a saved session that may come from an older page or a stranger. */
export function parseSaved(text: string | null): SavedSession | undefined {
  if (!text) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null) return undefined;
    const s = value as Record<string, unknown>;
    const texts = [s['url'], s['room'], s['session']].every((x) => typeof x === 'string' && x !== '');
    const counts = [s['term'], s['tick'], s['saved']].every((x) => Number.isSafeInteger(x) && (x as number) >= 0);
    if (!texts || !counts) return undefined;
    const resumes = Number.isSafeInteger(s['resumes']) && (s['resumes'] as number) > 0 ? (s['resumes'] as number) : 0;
    return { ...(value as SavedSession), resumes };
  } catch {
    return undefined;
  }
}
