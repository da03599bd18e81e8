// The arena's rules, roughly: enough to look at the page without the real server.
import type { Value } from '../../sdk/msgpack.ts';
import type { TableRow } from '../../sdk/wire.ts';
import { server as out } from './encode.ts';
import type { Game } from './server.ts';

const NAMES: [number, string, string[] | null][] = [
  [0, 'pos', ['x', 'y']],
  [0, 'player', ['name', 'color', 'score', 'hat']],
  [0, 'coin', ['value']],
  [0, 'wallet', ['gold']],
  [0, 'inputs', null],
  [1, 'arena', ['width', 'height', 'round']],
  [1, 'chest', ['next_at', 'every', 'gold']],
  [1, 'board', null],
  [2, 'steer', null],
  [2, 'chat', ['text']],
  [3, 'buy', ['item']],
  [3, 'rename', ['name']],
  [4, 'picked', ['entity', 'value']],
  [4, 'chat', ['from', 'text']],
];
export const TABLE: TableRow[] = NAMES.map(([space, name, fields], i) => ({ space, number: i, name, version: 1, fields }));
const number = (name: string, space = 0): number => TABLE.find((r) => r.name === name && r.space === space)!.number;
const [POS, PLAYER, COIN, WALLET, INPUTS] = ['pos', 'player', 'coin', 'wallet', 'inputs'].map((n) => number(n)) as [number, number, number, number, number];
const [ARENA, CHEST, BOARD] = ['arena', 'chest', 'board'].map((n) => number(n, 1)) as [number, number, number];

const PRICES = new Map([['boost', 50], ['hat', 30], ['magnet', 40], ['color', 10]]);

interface Walker {
  seat: number;
  entity: number;
  name: string;
  color: number;
  score: number;
  hat: number;
  gold: number;
  x: number;
  y: number;
  dx: number;
  dy: number;
  speed: number;
  inputs: number;
  bot: boolean;
}

export class FakeArena implements Game {
  readonly table = TABLE;
  readonly hash = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]);
  private readonly walkers = new Map<number, Walker>();
  private readonly coins = new Map<number, { x: number; y: number; value: number }>();
  private ops: unknown[] = [];
  private own = new Map<number, unknown[]>();
  private events: [number | null, Uint8Array<ArrayBuffer>][] = [];
  private entity = 100;
  private now = 0;
  private readonly every: number;
  private next: number;
  private readonly random: () => number;

  constructor(options: { bots?: number; coins?: number; every?: number; random?: () => number } = {}) {
    this.random = options.random ?? Math.random;
    this.every = options.every ?? 30;
    this.next = this.every * 20;
    const names = ['Bram', 'Ines', 'Tomek', 'Noor', 'Lucía', 'Kofi', 'Yuki', 'Ada'];
    for (let i = 0; i < (options.bots ?? 0); i++) this.join(-1 - i, names[i % names.length] as string, true);
    for (let i = 0; i < (options.coins ?? 24); i++) this.coin();
  }

  joined(seat: number, options: Value): void {
    const name = options instanceof Map ? options.get('name') : Array.isArray(options) ? options[0] : null;
    this.join(seat, typeof name === 'string' && name ? name : `Guest ${seat}`, false);
  }
  connected(seat: number, connected: boolean): void {
    const w = this.walkers.get(seat);
    if (w && !connected) w.dx = w.dy = 0;
  }
  left(seat: number): void {
    const w = this.walkers.get(seat);
    if (w) this.ops.push([1, w.entity]);
    this.walkers.delete(seat);
  }

  message(seat: number, type: string, payload: Value): void {
    const w = this.walkers.get(seat);
    if (!w || !Array.isArray(payload)) return;
    w.inputs += 1;
    this.own.set(seat, [...(this.own.get(seat) ?? []), [2, w.entity, INPUTS, w.inputs]]);
    if (type === 'steer') [w.dx, w.dy] = [(payload[0] as number) / 100, (payload[1] as number) / 100];
    if (type === 'chat') this.events.push([null, out.message(number('chat', 4), [w.name, payload[0]])]);
  }
  request(seat: number, type: string, payload: Value): unknown {
    const w = this.walkers.get(seat);
    if (!w || !Array.isArray(payload)) throw new Error('no seat');
    if (type === 'rename') {
      w.name = String(payload[0]).slice(0, 16);
      this.changed(w);
      return { name: w.name };
    }
    const item = String(payload[0]);
    const price = PRICES.get(item);
    if (price === undefined) throw new Error('unknown item');
    if (w.gold < price) throw new Error('not enough gold');
    w.gold -= price;
    if (item === 'boost') w.speed = 320;
    if (item === 'hat') w.hat = (w.hat % 5) + 1;
    if (item === 'color') w.color = (w.color + 5) % 12;
    this.changed(w);
    this.money(w);
    return { item, gold: w.gold };
  }

  snapshot(seat: number): unknown[] {
    const ops: unknown[] = [];
    for (const w of this.walkers.values()) ops.push([0, w.entity, POS, [w.x, w.y], PLAYER, this.player(w), ...(w.seat === seat ? [WALLET, [w.gold], INPUTS, w.inputs] : [])]);
    for (const [id, c] of this.coins) ops.push([0, id, POS, [c.x, c.y], COIN, [c.value]]);
    ops.push([4, ARENA, [1000, 600, 1]], [4, CHEST, this.chest()], [4, BOARD, this.board()]);
    return ops;
  }

  tick(): { ops: unknown[]; private: Map<number, unknown[]>; events: [number | null, Uint8Array<ArrayBuffer>][] } {
    this.now += 1;
    for (const w of this.walkers.values()) this.walk(w);
    if (this.now >= this.next) this.openChest();
    const result = { ops: this.ops, private: this.own, events: this.events };
    this.ops = [];
    this.own = new Map();
    this.events = [];
    return result;
  }

  private walk(w: Walker): void {
    if (w.bot && this.now % 20 === Math.abs(w.seat) % 20) {
      let best: { x: number; y: number } | undefined;
      for (const c of this.coins.values()) if (!best || Math.hypot(c.x - w.x, c.y - w.y) < Math.hypot(best.x - w.x, best.y - w.y)) best = c;
      const angle = this.random() < 0.75 && best ? Math.atan2(best.y - w.y, best.x - w.x) : this.random() * 7;
      [w.dx, w.dy] = [Math.cos(angle), Math.sin(angle)];
    }
    if (w.dx === 0 && w.dy === 0) return;
    w.x = Math.min(982, Math.max(18, w.x + (w.dx * w.speed) / 20));
    w.y = Math.min(582, Math.max(18, w.y + (w.dy * w.speed) / 20));
    this.ops.push([2, w.entity, POS, [Math.fround(w.x), Math.fround(w.y)]]);
    for (const [id, c] of this.coins) {
      if (Math.hypot(c.x - w.x, c.y - w.y) > 28) continue;
      this.coins.delete(id);
      w.score += c.value;
      this.ops.push([1, id]);
      if (w.seat > 0) this.events.push([w.seat, out.message(number('picked', 4), [id, c.value])]);
      this.changed(w);
      this.coin();
    }
  }

  private openChest(): void {
    this.next = this.now + this.every * 20;
    this.ops.push([4, CHEST, this.chest()]);
    for (const w of this.walkers.values()) {
      w.gold += 25;
      if (w.seat < 0) continue;
      this.money(w);
      this.events.push([w.seat, out.granted('chest', 1_764_446_400_000 + this.now * 50, [['gold', 25]], [['gold', w.gold]])]);
    }
  }

  private join(seat: number, name: string, bot: boolean): void {
    const w: Walker = {
      seat, entity: this.entity++, name, color: (this.walkers.size * 5) % 12, score: 0, hat: bot ? Math.floor(this.random() * 4) : 0, gold: bot ? 0 : 60,
      x: 120 + this.random() * 760, y: 100 + this.random() * 400, dx: 0, dy: 0, speed: bot ? 150 : 220, inputs: 0, bot,
    };
    this.walkers.set(seat, w);
    this.ops.push([0, w.entity, POS, [w.x, w.y], PLAYER, this.player(w)]);
    this.money(w);
  }
  private coin(): void {
    const id = this.entity++;
    const c = { x: 30 + this.random() * 940, y: 30 + this.random() * 540, value: this.random() < 0.15 ? 5 : 1 };
    this.coins.set(id, c);
    this.ops.push([0, id, POS, [c.x, c.y], COIN, [c.value]]);
  }
  private changed(w: Walker): void {
    this.ops.push([2, w.entity, PLAYER, this.player(w)], [4, BOARD, this.board()]);
  }
  private money(w: Walker): void {
    this.own.set(w.seat, [...(this.own.get(w.seat) ?? []), [2, w.entity, WALLET, [w.gold]]]);
  }
  private player(w: Walker): unknown[] {
    return [w.name, w.color, w.score, w.hat];
  }
  private chest(): number[] {
    return [this.next, this.every, 25];
  }
  private board(): unknown[] {
    return [...this.walkers.values()].sort((a, b) => b.score - a.score).slice(0, 10).map((w) => [w.name, w.score]);
  }
}
