// Giving a seat up: told once, behind everything that was sent, over drops and moves, and never a promise that hangs.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { server } from '../fake/encode.ts';
import { Bench, TERM, fakeTime, flush, limits } from './harness.ts';

beforeEach(fakeTime);
afterEach(() => {
  vi.useRealTimers();
});

/** How a promise stands. */
function watch(promise: Promise<unknown>): { is: string } {
  const state = { is: 'open' };
  promise.then(
    () => (state.is = 'done'),
    (error: { code: string }) => (state.is = error.code),
  );
  return state;
}

describe('leave', () => {
  it('is for good', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const left = vi.fn();
    room.onLeave(left);
    const open = room.request('buy', {}).catch((e: unknown) => e);
    const done = room.leave();
    bench.socket.give(server.left(bench.socket.last(6)[1] as number));
    await done;
    expect(left.mock.calls).toEqual([[4000, 'left']]);
    expect(await open).toMatchObject({ code: 'closed', closeCode: 4000 });
    expect(bench.client.savedSession()).toBeUndefined();
    expect(() => room.send('steer', [0, 0])).toThrow(expect.objectContaining({ code: 'closed' }));
    await vi.advanceTimersByTimeAsync(120_000);
    expect(bench.sockets).toHaveLength(1);
    await room.leave();
  });

  it('is one, however often it is called', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const calls = [watch(room.leave()), watch(room.leave())];
    expect(bench.socket.of(6)).toHaveLength(1);
    bench.socket.give(server.left(bench.socket.last(6)[1] as number));
    await flush();
    calls.push(watch(room.leave()));
    await flush();
    expect(calls.map((call) => call.is)).toEqual(['done', 'done', 'done']);
  });

  it('goes out behind everything that send took, and ends sending', async () => {
    const bench = new Bench();
    const room = await bench.room();
    for (let i = 0; i < 200; i++) room.send('steer', [i % 100, 0]);
    const done = watch(room.leave());
    expect(() => room.send('steer', [0, 0])).toThrow(expect.objectContaining({ code: 'closed' }));
    expect([bench.socket.of(7).length < 200, bench.socket.of(6).length]).toEqual([true, 0]);
    await vi.advanceTimersByTimeAsync(5000);
    expect(bench.socket.sent.filter((m) => m[0] === 7 || m[0] === 6).map((m) => m[0])).toEqual([...Array.from({ length: 200 }, () => 7), 6]);
    bench.socket.give(server.left(bench.socket.last(6)[1] as number));
    await flush();
    expect(done.is).toBe('done');
  });

  it('takes the whole backlog along within its deadline', async () => {
    const bench = new Bench();
    const room = await bench.room();
    for (let i = 0; i < 512; i++) room.send('steer', [i % 100, 0]);
    const done = watch(room.leave());
    await vi.advanceTimersByTimeAsync(11_000);
    expect([done.is, bench.socket.of(7).length, bench.socket.of(6).length]).toEqual(['open', 512, 1]);
  });

  it('comes back to say so when there is no socket', async () => {
    const bench = new Bench();
    const room = await bench.room();
    room.send('steer', [1, 0]);
    bench.socket.lose(1006);
    room.send('steer', [2, 0]);
    const done = watch(room.leave());
    await flush();
    expect([done.is, bench.sockets.length]).toEqual(['open', 2]);
    await bench.login({ generation: 2, owed: 2, tick: 130, table: null });
    expect(bench.socket.sent.filter((m) => m[0] === 7 || m[0] === 6).map((m) => m.slice(0, 2))).toEqual([[7, 2], [6, expect.any(Number)]]);
    bench.socket.give(server.left(bench.socket.last(6)[1] as number));
    await flush();
    expect([done.is, bench.client.savedSession()]).toEqual(['done', undefined]);
  });

  it('says it again when the socket is lost before the answer, and takes a seat that is gone for an answer', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const left = vi.fn();
    room.onLeave(left);
    const done = watch(room.leave());
    bench.socket.lose(4010);
    await vi.advanceTimersByTimeAsync(1000);
    await bench.login({ generation: 2, tick: 130, table: null });
    expect(bench.socket.of(6)).toHaveLength(1);
    bench.socket.lose(1006);
    await vi.advanceTimersByTimeAsync(2000);
    await bench.socket.open();
    bench.socket.give(server.welcome('guest:1', null, 'n', limits));
    bench.socket.give(server.error(bench.socket.last(5)[1] as number, 'resume_failed', 'no such session'));
    await flush();
    expect([done.is, left.mock.calls]).toEqual(['done', [[4000, 'left']]]);
  });

  it('goes out through the new socket in a move', async () => {
    const bench = new Bench();
    const room = await bench.room();
    const old = bench.socket;
    old.give(server.move(['ws://other.test/ws'], 0));
    await vi.advanceTimersByTimeAsync(1);
    await bench.socket.open();
    bench.socket.give(server.welcome('guest:1', null, 'node-2', limits));
    const done = watch(room.leave());
    expect([old.of(6).length, bench.socket.of(6).length, done.is]).toEqual([0, 0, 'open']);
    await bench.login({ generation: 2, tick: 101, table: null }, bench.socket);
    expect([old.of(6).length, bench.socket.of(6).length]).toEqual([0, 1]);
    bench.socket.give(server.left(bench.socket.last(6)[1] as number));
    await flush();
    expect([done.is, room.connected]).toEqual(['done', false]);
  });

  it('rejects when the server cannot be told in time, and goes on trying', async () => {
    const bench = new Bench();
    const room = await bench.room();
    bench.socket.lose(1006);
    const done = watch(room.leave());
    await vi.advanceTimersByTimeAsync(12_000);
    expect(done.is).toBe('unreachable');
    const again = watch(room.leave({ timeout: 100_000 }));
    await vi.advanceTimersByTimeAsync(20_000);
    await bench.login({ generation: 2, tick: 130, table: null });
    bench.socket.give(server.left(bench.socket.last(6)[1] as number));
    await flush();
    expect([again.is, bench.socket.of(6).length]).toEqual(['done', 1]);
  });

  it('rejects when the room is given up with its seat perhaps still there', async () => {
    const bench = new Bench({ backoff: { attempts: 2 } });
    const room = await bench.room();
    bench.socket.lose(1006);
    const done = watch(room.leave({ timeout: 1_000_000 }));
    for (let i = 0; i < 3; i++) {
      bench.socket.lose(1006);
      await vi.advanceTimersByTimeAsync(8000);
    }
    expect([done.is, room.connected]).toEqual(['unreachable', false]);
  });

  it.each([[4011, 'done'], [4012, 'done'], [4002, 'done'], [4004, 'done'], [4008, 'unauthorised']])('ends with the room: %i', async (code, is) => {
    const bench = new Bench();
    const room = await bench.room();
    const done = watch(room.leave());
    bench.socket.give(server.heartbeat(TERM, 101));
    bench.socket.lose(code);
    await flush();
    expect(done.is).toBe(is);
  });
});
