// Ops applied in order, listeners, and names that try to hurt.
import { describe, expect, it, vi } from 'vitest';
import type { Value } from '../../sdk/msgpack.ts';
import { State } from '../../sdk/state.ts';
import { NameTable, named, flatten, same, shape } from '../../sdk/table.ts';
import { WireError } from '../../sdk/wire.ts';

const row = (space: number, number: number, name: string, fields: string[] | null = null) => ({ space, number, name, version: 1, fields });
const table = new NameTable(new Uint8Array(8), [row(0, 1, 'pos', ['x', 'y']), row(0, 2, 'player', ['name', 'score']), row(1, 1, 'board'), row(9, 1, 'future')]);

interface C {
  pos: { x: number; y: number };
  player: { name: string; score: number };
}
interface R {
  board: [string, number][];
}

function state(): State<C, R> {
  const s = new State<C, R>();
  s.use(table);
  return s;
}

describe('state', () => {
  it('spawns, changes, removes and despawns in order', () => {
    const s = state();
    s.apply([[0, 5, 1, [1, 2], 2, ['Ada', 0]], [2, 5, 1, [3, 4]], [2, 6, 1, [9, 9]], [3, 5, 2], [4, 1, [['Ada', 1]]]]);
    expect({ ...s.entities.get(5)?.get('pos') }).toEqual({ x: 3, y: 4 });
    expect(s.entities.get(5)?.has('player')).toBe(false);
    expect(s.entities.get(6)?.get('pos')?.x).toBe(9);
    expect(s.resource('board')).toEqual([['Ada', 1]]);
    s.apply([[1, 5], [1, 5], [1, 77], [3, 77, 1], [5, 1]]);
    expect([...s.entities.keys()]).toEqual([6]);
    expect(s.resource('board')).toBeUndefined();
  });

  it('skips numbers that the table does not name', () => {
    const s = state();
    s.apply([[0, 1, 99, ['?'], 1, [1, 1]], [4, 50, 1], [3, 1, 99]]);
    expect([...(s.entities.get(1)?.components.keys() ?? [])]).toEqual(['pos']);
    expect(s.resources.size).toBe(0);
  });

  it('tells listeners what is there and what changes', () => {
    const s = state();
    s.apply([[0, 1, 1, [0, 0]]]);
    const log: string[] = [];
    const stop = s.onAdd('pos', (e, v: C['pos']) => log.push(`add ${e.id} ${v.x}`));
    s.onChange('pos', (e, v: C['pos'], b: C['pos']) => log.push(`change ${e.id} ${b.x}->${v.x}`));
    s.onRemove('pos', (e, v: C['pos']) => log.push(`remove ${e.id} ${v.x}`));
    s.apply([[0, 2, 1, [2, 0]], [2, 1, 1, [1, 0]], [2, 1, 1, [1, 0]], [1, 2], [3, 1, 1]]);
    expect(log).toEqual(['add 1 0', 'add 2 2', 'change 1 0->1', 'remove 2 2', 'remove 1 1']);
    stop();
    s.apply([[0, 3, 1, [0, 0]]]);
    expect(log).toHaveLength(5);
  });

  it('replaces everything by a snapshot and tells only the difference', () => {
    const s = state();
    s.apply([[0, 1, 1, [0, 0], 2, ['Ada', 1]], [0, 2, 1, [5, 5]], [4, 1, [1]]]);
    const before = s.entities.get(1)?.get('player');
    const log: string[] = [];
    s.onAdd('pos', (e) => log.push(`add ${e.id}`));
    log.length = 0;
    s.onChange('pos', (e) => log.push(`change ${e.id}`));
    s.onChange('player', () => log.push('player'));
    s.onRemove('pos', (e) => log.push(`remove ${e.id}`));
    s.replace([[0, 1, 1, [7, 7], 2, ['Ada', 1]], [0, 3, 1, [3, 3]]]);
    expect(log.sort()).toEqual(['add 3', 'change 1', 'remove 2']);
    expect(s.entities.get(1)?.get('player')).toBe(before);
    expect(s.resources.size).toBe(0);
  });

  it.each<[string, Value[][]]>([
    ['an unknown op', [[0, 1, 1, [0, 0]], [9, 1]]],
    ['a component without a value', [[0, 1, 1]]],
    ['a resource without a value', [[4, 1]]],
    ['an entity that is no number', [[1, 'x']]],
  ])('refuses %s', (_, ops) => {
    const s = state();
    expect(() => s.apply(ops)).toThrow(WireError);
    s.apply([[0, 8, 1, [0, 0]]]);
    expect(() => s.replace(ops)).toThrow(WireError);
    expect(s.entities.has(8)).toBe(true);
  });

  it('survives a listener that throws', () => {
    const s = state();
    const heard = vi.fn();
    const quiet = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    s.onAdd('pos', () => {
      throw new Error('a game bug');
    });
    s.onAdd('pos', heard);
    s.apply([[0, 1, 1, [0, 0]]]);
    expect(heard).toHaveBeenCalledOnce();
    expect(quiet).toHaveBeenCalledOnce();
    quiet.mockRestore();
  });

  it('survives one that throws at what is there already', () => {
    const s = state();
    s.apply([[0, 1, 1, [0, 0]], [0, 2, 1, [1, 1]], [4, 1, [['Ada', 1]]]]);
    const quiet = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    const heard: number[] = [];
    const stop = s.onAdd('pos', (entity) => {
      heard.push(entity.id);
      throw new Error('a game bug');
    });
    const stopListening = s.listen('board', () => {
      throw new Error('another');
    });
    stop();
    stopListening();
    s.apply([[0, 3, 1, [0, 0]], [4, 1, []]]);
    expect([heard, quiet.mock.calls.length]).toEqual([[1, 2], 3]);
    quiet.mockRestore();
  });

  it('lets no field name reach a prototype', () => {
    const value = shape([{ polluted: 1 } as never, 2], ['__proto__', 'constructor']) as Record<string, unknown>;
    expect(Object.getPrototypeOf(value)).toBeNull();
    expect(value['constructor']).toBe(2);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('packs objects by the fields of the table, missing ones as nil', () => {
    expect(flatten({ y: 2 }, ['x', 'y', 'toString'])).toEqual([null, 2, null]);
    expect(flatten([1, 2], ['x', 'y'])).toEqual([1, 2]);
    expect(flatten({ a: 1 }, null)).toEqual({ a: 1 });
  });

  it('gives answers as objects that no name can hurt', () => {
    const answer = named(new Map<Value, Value>([['__proto__', 1], ['list', [new Map<Value, Value>([['a', 2]])]], ['by id', new Map<Value, Value>([[7, 'x']])]])) as Record<string, unknown>;
    expect(Object.getPrototypeOf(answer)).toBeNull();
    expect(Object.keys(answer)).toEqual(['__proto__', 'list', 'by id']);
    expect({ ...(answer['list'] as object[])[0] }).toEqual({ a: 2 });
    expect(answer['by id']).toEqual(new Map([[7, 'x']]));
    expect(named(['hat', 3])).toEqual(['hat', 3]);
  });

  it('names structs at any depth, so that one whose fields move is not misread', () => {
    const s = state();
    const card = (entries: [string, number][]): Value => new Map<Value, Value>(entries);
    s.apply([[0, 1, 1, [card([['suit', 1], ['rank', 2]]), [card([['rank', 4], ['suit', 3]])]]], [4, 1, [card([['suit', 5], ['rank', 6]])]]]);
    const pos = s.entities.get(1)?.get('pos') as unknown as { x: { rank: number }; y: { suit: number }[] };
    expect([pos.x.rank, pos.y[0]?.suit, (s.resource('board') as unknown as { rank: number }[])[0]?.rank]).toEqual([2, 3, 6]);
    const heard = vi.fn();
    s.onChange('pos', heard);
    s.apply([[2, 1, 1, [card([['rank', 2], ['suit', 1]]), [card([['suit', 3], ['rank', 4]])]]]]);
    expect(heard).not.toHaveBeenCalled();
  });

  it('compares by content', () => {
    const a = new Map<string, unknown>([['k', [1, Object.assign(Object.create(null), { z: 1 })]]]);
    const b = new Map<string, unknown>([['k', [1, Object.assign(Object.create(null), { z: 1 })]]]);
    expect(same(a, b)).toBe(true);
    b.set('k', [1, {}]);
    expect(same(a, b)).toBe(false);
    expect(same([1], { 0: 1 })).toBe(false);
  });
});
