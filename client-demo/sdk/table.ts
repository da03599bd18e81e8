// Name tables: numbers to names and back, and how structs look.
import type { Value } from './msgpack.ts';
import { Space, type TableRow } from './wire.ts';

/** A registered type. */
export interface Named {
  number: number;
  name: string;
  version: number;
  fields: string[] | null;
}

/** Numbers mean something only together with the table that the server told last. Rows of unknown spaces are skipped. */
export class NameTable {
  readonly hash: Uint8Array;
  private readonly byNumber = new Map<number, Named>();
  private readonly byName = new Map<string, Named>();

  constructor(hash: Uint8Array, rows: readonly TableRow[]) {
    this.hash = hash;
    for (const { space, number, name, version, fields } of rows) {
      if (space > Space.Event || number > 0xffff) continue;
      const named = { number, name, version, fields };
      this.byNumber.set(space * 0x10000 + number, named);
      this.byName.set(`${space}:${name}`, named);
    }
  }

  find(space: number, number: number): Named | undefined {
    return this.byNumber.get(space * 0x10000 + number);
  }
  named(space: number, name: string): Named | undefined {
    return this.byName.get(`${space}:${name}`);
  }
}

/** Most tables that a client keeps; there are as many as builds of games in use. */
const TABLES = 8;

/** The tables that a client was told, newest first. */
export class Tables {
  private known: NameTable[] = [];

  /** The server need not send this one again. */
  get newest(): NameTable | undefined {
    return this.known[0];
  }

  /** The table that the server means: what it sent, or with null the one of this hash. Undefined, and all are forgotten, if there is none. */
  take(hash: Uint8Array, rows: readonly TableRow[] | null): NameTable | undefined {
    const table = rows ? new NameTable(hash, rows) : this.known.find((known) => sameHash(known.hash, hash));
    this.known = table ? [table, ...this.known.filter((known) => !sameHash(known.hash, hash))].slice(0, TABLES) : [];
    return table;
  }
}

/** Two hashes of name tables. */
function sameHash(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

/**
 * A value as the game's code sees it: a struct's array becomes an object with the table's field names, and what is inside of it
 * is `named`. Objects have no prototype, so that no field name from the wire can reach one.
 */
export function shape(value: Value, fields: string[] | null): unknown {
  if (!fields || !Array.isArray(value)) return named(value);
  const out = Object.create(null) as Record<string, unknown>;
  for (let i = 0; i < fields.length && i < value.length; i++) out[fields[i] as string] = named(value[i] as Value);
  return out;
}

/** What no table names: its structs are maps on the wire. A map with other keys than texts stays one. */
export function named(value: Value): unknown {
  if (Array.isArray(value)) return value.map(named);
  if (!(value instanceof Map)) return value;
  const entries = [...value];
  if (!entries.every(([key]) => typeof key === 'string')) return new Map(entries.map(([key, item]) => [key, named(item)]));
  const out = Object.create(null) as Record<string, unknown>;
  for (const [key, item] of entries) out[key as string] = named(item);
  return out;
}

/** The other way: an object becomes the struct's array; what is no plain object goes as it is. */
export function flatten(payload: unknown, fields: string[] | null): unknown {
  if (!fields || typeof payload !== 'object' || payload === null) return payload;
  if (Array.isArray(payload) || payload instanceof Map || payload instanceof Uint8Array) return payload;
  return fields.map((field) => (Object.hasOwn(payload, field) ? ((payload as Record<string, unknown>)[field] ?? null) : null));
}

/** Equal by content. */
export function same(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) || a instanceof Uint8Array) {
    if (!(Array.isArray(b) || b instanceof Uint8Array) || a.length !== b.length) return false;
    return a.every((item: unknown, i: number) => same(item, b[i]));
  }
  if (a instanceof Map) {
    if (!(b instanceof Map) || a.size !== b.size) return false;
    return [...a].every(([key, item]) => b.has(key) && same(item, b.get(key)));
  }
  const keys = Object.keys(a);
  if (keys.length !== Object.keys(b).length) return false;
  return keys.every((key) => Object.hasOwn(b, key) && same((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key]));
}
