// A rolling deploy while two play: every room node is replaced by the demo's second version, and then by the first again.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Server } from './server.mjs';

/** Time for a round: three nodes start, drain and end. */
const ROUND = 60_000;
/** Longest pause of a move, ms, on a machine that also runs two browsers. */
const PAUSE = 1_500;

const sight = (page) => page.evaluate(() => ({
  node: window.__arena.room.state.resource('host'), term: window.__arena.room.term, seat: window.__arena.room.seat,
  me: window.__arena.me(), audit: { ...window.__arena.audit }, counters: { ...window.__arena.counters },
}));

/** Steers without a pause until it is told to stop. */
async function keepWalking(page, going) {
  for (let i = 0; going.on; i += 1) {
    const key = ['ArrowLeft', 'ArrowUp', 'ArrowRight', 'ArrowDown'][i % 4];
    await page.keyboard.down(key);
    await sleep(300);
    await page.keyboard.up(key);
  }
}

export async function rollingDeploy(browser, bin, { open, until, picture }) {
  if (!existsSync(`${bin}-v2`)) throw new Error(`${bin}-v2 is not there: cargo build --bins`);
  const server = await Server.deploys(bin);
  const notes = [];
  try {
    await server.start();
    const pages = [await open(browser, server.play, 'Hedy'), await open(browser, server.play, 'Alan')];
    for (const page of pages) await until(page, 'the owner\'s name', () => window.__arena.room.state.resource('host')?.startsWith('node-'));
    const going = { on: true };
    const walking = pages.map((page) => keepWalking(page, going));
    for (const round of [1, 2]) {
      const before = await Promise.all(pages.map(sight));
      server.round();
      const end = Date.now() + ROUND;
      while (!server.log.includes(`round ${round} is done`)) {
        assert.ok(Date.now() < end, `round ${round} does not end`);
        await sleep(50);
      }
      for (const [i, page] of pages.entries()) {
        await until(page, 'the room at another node', ([node, term, shown]) => {
          const { room, counters } = window.__arena;
          return room.state.resource('host') !== node && room.term > term && counters.granted > shown;
        }, [before[i].node, before[i].term, before[i].counters.granted]);
        const after = await sight(page);
        assert.deepEqual([after.seat, after.me.entity, after.me.name], [before[i].seat, before[i].me.entity, before[i].me.name]);
        assert.ok(after.me.score >= before[i].me.score, `score ${before[i].me.score} became ${after.me.score}`);
        assert.equal(after.me.gold - before[i].me.gold, after.counters.gold - before[i].counters.gold, 'gold and what was shown of it differ');
        assert.deepEqual([after.counters.drops, after.counters.reconnects, after.counters.leaves], [0, 0, 0], 'a socket was dropped');
        assert.ok(after.audit.moves > before[i].audit.moves);
        assert.ok(after.audit.pause <= PAUSE, `a pause of ${after.audit.pause} ms`);
        if (i === 0) notes.push(`${before[i].node} to ${after.node}, ${after.audit.moves - before[i].audit.moves} moves, ${after.audit.pause} ms, ${after.audit.missed} ticks missed`);
      }
    }
    going.on = false;
    await Promise.all(walking);
    for (const page of pages) {
      await until(page, 'everything saved', () => window.__arena.room.unsaved === 0);
      await until(page, 'inputs that are all counted once', () => window.__arena.audit.lost === 0 && window.__arena.audit.doubled === 0);
      assert.equal((await sight(page)).audit.again, 0, 'a reward came twice');
    }
    await pages[0].screenshot({ path: picture });
    for (const page of pages) await page.context().close();
    // Its own end by SIGTERM, so that no node is left behind.
    await server.stop('SIGTERM');
  } catch (error) {
    console.error(`the last words of the cluster:\n${server.log.slice(-4000)}`);
    throw error;
  } finally {
    await server.remove();
  }
  return notes.join('; ');
}
