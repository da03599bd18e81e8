// The SDK against a fake server on fake time, with a network that loses sockets at random: every message that was sent is
// applied exactly once and in order, whatever happens in between.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Client, type Room } from '../../sdk/index.ts';
import type { Socket } from '../../sdk/connection.ts';
import { FakeArena } from '../fake/arena.ts';
import { FakeServer, type FakeSocket } from '../fake/server.ts';
import { Storage, fakeTime } from './harness.ts';

/** A socket through a network with latency; `break` loses it and everything under way. */
class Wire implements Socket {
  binaryType = '';
  readyState = 0;
  onopen: Socket['onopen'] = null;
  onmessage: Socket['onmessage'] = null;
  onclose: Socket['onclose'] = null;
  onerror: Socket['onerror'] = null;
  private readonly far: FakeSocket;
  private readonly latency: () => number;
  private broken = false;

  constructor(server: FakeServer, latency: () => number) {
    this.latency = latency;
    this.far = server.accept({
      send: (bytes) => this.later(() => this.onmessage?.({ data: bytes.buffer } as never)),
      close: (code, reason) => this.later(() => this.shut(code, reason)),
    });
    this.later(() => {
      this.readyState = 1;
      this.onopen?.({} as never);
    });
  }
  send(data: Uint8Array<ArrayBuffer>): void {
    const bytes = data.slice();
    this.later(() => this.far.receive(bytes));
  }
  close(): void {
    this.readyState = 3;
    this.later(() => this.far.closed());
  }
  /** `far` hears of it late, as with a link that dies without a word. */
  break(): void {
    if (this.broken) return;
    this.broken = true;
    setTimeout(() => this.far.closed(), 5000);
    this.shut(1006, '');
  }
  private shut(code: number, reason: string): void {
    this.readyState = 3;
    this.onclose?.({ code, reason } as never);
  }
  private due = 0;
  private later(run: () => void): void {
    this.due = Math.max(this.due, performance.now() + this.latency());
    setTimeout(() => {
      if (!this.broken) run();
    }, this.due - performance.now());
  }
}

function random(seed: number): () => number {
  let s = seed >>> 0;
  return () => ((s = (s * 1664525 + 1013904223) >>> 0) / 2 ** 32);
}

beforeEach(fakeTime);
afterEach(() => {
  vi.useRealTimers();
});

describe('a bad network', () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8])('loses no message and applies none twice (seed %i)', async (seed) => {
    const next = random(seed);
    const server = new FakeServer(new FakeArena({ random: next }));
    const wires: Wire[] = [];
    const client = new Client('ws://fake/ws', {
      storage: new Storage(),
      random: next,
      socket: () => {
        const wire = new Wire(server, () => 5 + next() * 60);
        wires.push(wire);
        return wire;
      },
    });
    const ticking = setInterval50(() => server.tick());
    const joining = client.joinOrCreate('arena', { name: 'Ada' });
    await vi.advanceTimersByTimeAsync(500);
    const room: Room = await joining;
    const seat = room.seat;
    const left = vi.fn();
    room.onLeave(left);

    const spurious = vi.fn();
    const walker = [...room.state.with('inputs')][0]?.[0];
    room.onRemove('player', spurious);
    room.onRemove('wallet', spurious);
    const resyncs = room.stats.resyncs;

    let sent = 0;
    const types: string[] = [];
    for (let step = 0; step < 400; step++) {
      const dice = next();
      if (dice < 0.5) {
        const type = next() < 0.7 ? 'steer' : 'chat';
        types.push(type);
        sent = room.send(type, type === 'chat' ? { text: `${sent}` } : [Math.floor(next() * 100), 0]);
      }
      else if (dice < 0.53) wires.at(-1)!.break();
      else if (dice < 0.54) server.move([], Math.floor(next() * 300));
      else if (dice < 0.55) server.rotate();
      else if (dice < 0.56) server.restart();
      else if (dice < 0.6) server.takeover(Math.floor(next() * 3) * 5, next() < 0.5);
      await vi.advanceTimersByTimeAsync(Math.floor(next() * 120));
    }
    await vi.advanceTimersByTimeAsync(60_000);

    expect(left).not.toHaveBeenCalled();
    expect([room.connected, room.seat, server.seats.length]).toEqual([true, seat, 1]);
    expect(sent).toBeGreaterThan(100);
    expect(server.log.map(([, seq, type]) => [seq, type])).toEqual(types.map((type, i) => [i + 1, type]));
    expect(server.told.length).toBeGreaterThan(3);
    expect([spurious.mock.calls.length, [...room.state.with('inputs')][0]?.[0]]).toEqual([0, walker]);
    expect(room.stats.resyncs).toBe(resyncs);
    expect([room.unsaved, room.applied]).toEqual([0, sent]);
    expect(room.stats.unreadable).toBe(0);
    expect(room.stats.reconnects).toBeGreaterThan(5);
    expect(room.state.entities.size).toBe(server.game.snapshot(seat).length - 3);
    ticking();
  });

  it.each([1, 2, 3, 4, 5, 6, 7, 8])('takes a leave to the server behind all that was sent (seed %i)', async (seed) => {
    const next = random(seed);
    const server = new FakeServer(new FakeArena({ random: next }));
    const wires: Wire[] = [];
    const client = new Client('ws://fake/ws', { storage: new Storage(), random: next, socket: () => (wires.push(new Wire(server, () => 5 + next() * 60)), wires.at(-1)!) });
    const ticking = setInterval50(() => server.tick());
    const trouble = (): void => {
      const dice = next();
      if (dice < 0.2) wires.at(-1)!.break();
      else if (dice < 0.3) server.move([], Math.floor(next() * 300));
      else if (dice < 0.35) server.restart();
      else if (dice < 0.45) server.takeover(Math.floor(next() * 3) * 5, next() < 0.5);
    };
    const joining = client.joinOrCreate('arena', { name: 'Ada' });
    await vi.advanceTimersByTimeAsync(500);
    const room: Room = await joining;
    const left = vi.fn();
    room.onLeave(left);
    let sent = 0;
    for (let i = 0; i < 60; i++) {
      sent = room.send('steer', [i, 0]);
      if (next() < 0.3) trouble();
      await vi.advanceTimersByTimeAsync(Math.floor(next() * 60));
    }
    wires.at(-1)!.break();
    const ends: string[] = [];
    for (let i = 0; i < 2; i++) void room.leave({ timeout: 120_000 }).then(() => ends.push('left'), (error: Error) => ends.push(error.message));
    for (let i = 0; i < 20; i++) {
      trouble();
      await vi.advanceTimersByTimeAsync(Math.floor(next() * 300));
    }
    await vi.advanceTimersByTimeAsync(100_000);
    expect([ends, left.mock.calls, server.seats.length]).toEqual([['left', 'left'], [[4000, 'left']], 0]);
    expect(server.log.map(([, seq]) => seq)).toEqual(Array.from({ length: sent }, (_, i) => i + 1));
    expect(client.savedSessions()).toEqual([]);
    ticking();
  });

  it('finds that a server says nothing, and its seat when it speaks again', async () => {
    const next = random(3);
    const server = new FakeServer(new FakeArena({ random: next }));
    let count = 0;
    const client = new Client('ws://fake/ws', { storage: new Storage(), random: next, socket: () => ((count += 1), new Wire(server, () => 5)) });
    const ticking = setInterval50(() => server.tick());
    const joining = client.joinOrCreate('arena');
    await vi.advanceTimersByTimeAsync(200);
    const room = await joining;
    const seat = room.seat;
    server.silent = true;
    await vi.advanceTimersByTimeAsync(26_000);
    expect([room.connected, room.stats.drops]).toEqual([false, 1]);
    server.silent = false;
    await vi.advanceTimersByTimeAsync(30_000);
    expect([room.connected, room.seat, room.stats.reconnects]).toEqual([true, seat, 1]);
    expect(count).toBeLessThan(6);
    ticking();
  });

  it('lets the newest tab have the seat, without a fight', async () => {
    const next = random(4);
    const server = new FakeServer(new FakeArena({ random: next }));
    const storage = new Storage();
    let count = 0;
    const open = (): Client => new Client('ws://fake/ws', { storage, random: next, socket: () => ((count += 1), new Wire(server, () => 5)) });
    const ticking = setInterval50(() => server.tick());
    const joining = open().joinOrCreate('arena');
    await vi.advanceTimersByTimeAsync(200);
    const first = await joining;
    const left = vi.fn();
    first.onLeave(left);
    const again = open().reconnect();
    await vi.advanceTimersByTimeAsync(200);
    const second = await again;
    await vi.advanceTimersByTimeAsync(600_000);
    expect(left.mock.calls).toEqual([[4004, 'superseded']]);
    expect([second.connected, second.seat, count, server.seats.length]).toEqual([true, first.seat, 2, 1]);
    ticking();
  });
});

/** `setInterval` is real here; a chain of timers runs on fake time. */
function setInterval50(run: () => void): () => void {
  let timer = setTimeout(function step() {
    run();
    timer = setTimeout(step, 50);
  }, 50);
  return () => clearTimeout(timer);
}
