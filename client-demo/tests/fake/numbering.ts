// The same names under other numbers, as another build of a game has them: what the fake server's rooms go on with.
import { decode, encode, type Value } from '../../sdk/msgpack.ts';
import type { TableRow } from '../../sdk/wire.ts';

export class Numbering {
  readonly hash: Uint8Array;
  readonly table: readonly TableRow[];
  readonly by: number;

  /** All numbers are `by` above the game's own. */
  constructor(game: { table: readonly TableRow[]; hash: Uint8Array }, by: number) {
    this.by = by;
    this.table = game.table.map((row) => ({ ...row, number: row.number + by }));
    this.hash = game.hash.map((byte, i) => (i === 7 ? byte + by : byte));
  }

  is(hash: Value): boolean {
    return hash instanceof Uint8Array && Buffer.from(hash).equals(this.hash);
  }
  name(space: number, number: number): string {
    return this.table.find((row) => row.space === space && row.number === number)?.name ?? '?';
  }
  /** The game's ops. */
  ops(ops: readonly unknown[]): unknown[] {
    return (ops as unknown[][]).map(([is, first, ...rest]) => {
      if (is === 4 || is === 5) return [is, (first as number) + this.by, ...rest];
      const every = is === 3 ? 1 : 2;
      return [is, first, ...rest.map((item, i) => (i % every === 0 ? (item as number) + this.by : item))];
    });
  }
  /** A message from the room. */
  event(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
    const [is, type, payload] = decode(bytes) as Value[];
    return encode(is === 8 ? [is, (type as number) + this.by, payload] : decode(bytes));
  }
}
