// The arena in a real browser against a real server: `npm run test:browser`. The server is `TENURE_BIN` (default
// ../target/debug/demo); `--fake` takes the stand-in instead and leaves out what it cannot do. Pictures go to tests/browser/out.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { rollingDeploy } from './rolling.mjs';
import { Redis, Server } from './server.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = resolve(here, '../..');
const out = resolve(here, 'out');
const fake = process.argv.includes('--fake');
/** `--only WORDS`: the steps whose names have these words. */
const only = process.argv.includes('--only') ? process.argv[process.argv.indexOf('--only') + 1] : undefined;
const WAIT = 30_000;

const browserArgs = ['--no-sandbox', '--disable-gpu', '--headless', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-quic'];

const problems = [];

/** Waits for a condition in the page; says what it waited for when it does not come. */
async function until(page, what, condition, argument) {
  try {
    await page.waitForFunction(condition, argument, { timeout: WAIT, polling: 50 });
  } catch {
    const state = await page.evaluate(() => ({ counters: window.__arena?.counters, me: window.__arena?.me(), players: window.__arena?.players(), stats: window.__arena?.room?.stats, banner: document.getElementById('banner')?.textContent })).catch(String);
    throw new Error(`waited in vain for: ${what}\n${JSON.stringify(state)}`);
  }
}
const read = (page, expression) => page.evaluate(expression);
const me = (page) => read(page, () => window.__arena.me());
const seat = (page) => read(page, () => window.__arena.room.seat);

async function open(browser, play, name, viewport = { width: 1180, height: 720 }, more = {}) {
  const context = await browser.newContext({ viewport, ...more });
  const page = await context.newPage();
  watch(page, name);
  await page.goto(`${play}/?name=${name}&room=test-1&region=local`);
  await until(page, `${name} in the arena`, () => window.__arena?.me() !== undefined);
  return page;
}
function watch(page, name, expected = /^$/) {
  page.on('pageerror', (error) => problems.push(`${name}: ${error.stack}`));
  page.on('console', (message) => {
    // A socket that cannot be opened while the server is away is logged by the browser itself.
    if (message.type() === 'error' && !/WebSocket|ERR_|favicon/.test(message.text()) && !expected.test(message.text())) problems.push(`${name}: ${message.text()}`);
  });
}

/** Walks until the others see it, away from the nearer wall. */
async function walk(page, other, name) {
  const from = await me(page);
  const key = from.x > 500 ? 'ArrowLeft' : 'KeyD';
  await page.keyboard.down(key);
  await until(other, `${name} moving on the other screen`, ([who, x]) => Math.abs((window.__arena.players().find((p) => p.name === who)?.x ?? x) - x) > 40, [name, from.x]);
  await page.keyboard.up(key);
}

const steps = [
  ['two browsers see each other', async (t) => {
    t.ada = await open(t.browser, t.server.play, 'Ada');
    t.bram = await open(t.browser, t.server.play, 'Bram');
    for (const [page, other] of [[t.ada, 'Bram'], [t.bram, 'Ada']]) await until(page, `${other} on the screen`, (who) => window.__arena.players().some((p) => p.name === who), other);
    assert.notEqual(await seat(t.ada), await seat(t.bram));
    assert.equal(await read(t.ada, () => window.__arena.room.id), await read(t.bram, () => window.__arena.room.id));
  }],
  ['each sees the other move', async (t) => {
    await walk(t.ada, t.bram, 'Ada');
    await walk(t.bram, t.ada, 'Bram');
    const box = await t.ada.locator('#canvas').boundingBox();
    const from = await me(t.ada);
    await t.ada.mouse.move(box.x + box.width / 2, box.y + (from.y > 300 ? 120 : box.height - 80));
    await t.ada.mouse.down();
    await until(t.bram, 'Ada following the pointer', (y) => Math.abs((window.__arena.players().find((p) => p.name === 'Ada')?.y ?? y) - y) > 30, from.y);
    await t.ada.mouse.up();
  }],
  ['both see the chest\'s reward', async (t) => {
    for (const page of [t.ada, t.bram]) {
      await until(page, 'a grant of the chest', () => window.__arena.grants.some((g) => g.source === 'chest' && g.gold > 0) && window.__arena.me().gold > 0);
      await until(page, 'its toast', () => document.querySelector('#toasts .toast.gold') !== null);
    }
    await t.ada.screenshot({ path: resolve(out, 'arena.png') });
    const doubled = await read(t.ada, () => window.__arena.grants.length - new Set(window.__arena.grants.map((g) => `${g.source} ${g.scheduledFor}`)).size);
    assert.equal(doubled, 0, 'a grant was shown twice');
  }],
  ['a lost socket resumes its seat', async (t) => {
    const before = { ...(await me(t.ada)), seat: await seat(t.ada) };
    await read(t.ada, () => window.__arena.drop());
    await until(t.ada, 'the banner', () => /lost|Reconnecting/.test(document.getElementById('banner').textContent));
    await t.ada.screenshot({ path: resolve(out, 'reconnecting.png') });
    await until(t.ada, 'the seat again', () => window.__arena.counters.reconnects === 1 && window.__arena.me() !== undefined);
    const after = { ...(await me(t.ada)), seat: await seat(t.ada) };
    assert.deepEqual([after.seat, after.entity, after.name], [before.seat, before.entity, before.name]);
    assert.ok(after.score >= before.score);
    await walk(t.ada, t.bram, 'Ada');
  }],
  ['the shop takes gold', async (t) => {
    await until(t.bram, 'enough gold', () => window.__arena.me().gold >= 30);
    const before = await me(t.bram);
    await t.bram.click('[data-item=hat]');
    await until(t.bram, 'the hat', (hat) => window.__arena.me().hat !== hat, before.hat);
    await until(t.ada, 'the hat on the other screen', () => [...window.__arena.room.state.with('player')].some(([, p]) => p.name === 'Bram' && p.hat > 0));
    const refused = await read(t.bram, () => window.__arena.room.request('buy', { item: 'no such thing' }).then(() => 'done', (error) => error.code));
    assert.equal(refused, 'request_failed');
  }],
  ['a chat line reaches the other', async (t) => {
    await t.ada.fill('#say', '<b>hi</b> __proto__');
    await t.ada.press('#say', 'Enter');
    await until(t.bram, 'the line', () => document.getElementById('lines').textContent.includes('<b>hi</b> __proto__'));
  }],
  ['a reload keeps the seat', async (t) => {
    const before = { ...(await me(t.ada)), seat: await seat(t.ada) };
    await t.ada.reload();
    await until(t.ada, 'Ada again', () => window.__arena?.me() !== undefined);
    const after = { ...(await me(t.ada)), seat: await seat(t.ada) };
    assert.deepEqual([after.seat, after.entity], [before.seat, before.entity]);
    await walk(t.ada, t.bram, 'Ada');
  }],
  ['a second tab takes the seat and the first leaves it alone', async (t) => {
    const before = await seat(t.ada);
    const [second] = await Promise.all([t.ada.context().waitForEvent('page'), read(t.ada, () => void window.open(location.href))]);
    watch(second, 'second tab');
    await until(second, 'the seat in the second tab', () => window.__arena?.me() !== undefined);
    await until(t.ada, '4004 in the first', () => window.__arena.left === 4004);
    assert.equal(await seat(second), before);
    const tick = await read(second, () => window.__arena.room.tick);
    await walk(second, t.bram, 'Ada');
    await until(second, 'many more ticks', (n) => window.__arena.room.tick > n + 60, tick);
    assert.deepEqual(await read(second, () => [window.__arena.counters.drops, window.__arena.left]), [0, undefined]);
    assert.equal(await read(t.ada, () => window.__arena.room.connected), false);
    assert.equal(await read(t.bram, () => window.__arena.players().filter((p) => p.name === 'Ada').length), 1);
    await t.ada.screenshot({ path: resolve(out, 'superseded.png') });
    await t.ada.close();
    t.ada = second;
  }],
  ['a leave gives the seat up at once, also without a socket', async (t) => {
    const page = await open(t.browser, t.server.play, 'Lena');
    await until(t.bram, 'Lena', () => window.__arena.players().some((p) => p.name === 'Lena'));
    const took = await read(page, async () => {
      const began = performance.now();
      window.__arena.drop();
      window.__arena.room.send('chat', { text: 'farewell' });
      await Promise.all([window.__arena.room.leave(), window.__arena.room.leave()]);
      return performance.now() - began;
    });
    assert.ok(took < 10_000, `${took} ms, the reconnect grace is longer than that`);
    await t.bram.waitForFunction(() => window.__arena.players().every((p) => p.name !== 'Lena'), undefined, { timeout: 5_000 });
    await until(t.bram, 'what was sent before', () => document.getElementById('lines').textContent.includes('farewell'));
    assert.deepEqual(await read(page, () => [window.__arena.left, Object.keys(sessionStorage).filter((key) => key.includes('session'))]), [4000, []]);
    await page.context().close();
  }],
  ['kill -9 and a restart keep seats and scores', async (t) => {
    if (fake) return 'left out: the stand-in forgets';
    const before = [];
    for (const page of [t.ada, t.bram]) {
      await until(page, 'everything saved', () => window.__arena.room.unsaved === 0);
      before.push({ ...(await me(page)), seat: await seat(page), reconnects: await read(page, () => window.__arena.counters.reconnects) });
    }
    await t.server.stop('SIGKILL');
    await until(t.ada, 'the loss', () => !window.__arena.room.connected);
    await t.server.start();
    for (const [i, page] of [t.ada, t.bram].entries()) {
      await until(page, 'the seat after the restart', (n) => window.__arena.counters.reconnects > n && window.__arena.room.connected && window.__arena.me() !== undefined, before[i].reconnects);
      const after = { ...(await me(page)), seat: await seat(page) };
      assert.deepEqual([after.seat, after.entity, after.name, after.score], [before[i].seat, before[i].entity, before[i].name, before[i].score]);
      assert.ok(after.gold >= before[i].gold, `gold ${before[i].gold} became ${after.gold}`);
    }
    await walk(t.ada, t.bram, 'Ada');
    const shown = await read(t.bram, () => window.__arena.counters.granted);
    await until(t.bram, 'the next chest', (n) => window.__arena.counters.granted > n, shown);
    return undefined;
  }],
  ['a phone shows it without scrolling sideways', async (t) => {
    const phone = await open(t.browser, t.server.play, 'Grace', { width: 390, height: 844 }, { isMobile: true, hasTouch: true, deviceScaleFactor: 2 });
    await until(phone, 'the others', () => window.__arena.players().length >= 3);
    assert.ok((await read(phone, () => document.documentElement.scrollWidth)) <= 390);
    await phone.screenshot({ path: resolve(out, 'phone.png') });
    await read(phone, () => window.__arena.room.leave());
    await until(t.bram, 'Grace gone', () => !window.__arena.players().some((p) => p.name === 'Grace'));
  }],
  ['without a name the page asks for one', async (t) => {
    const context = await t.browser.newContext({ viewport: { width: 1180, height: 720 } });
    const page = await context.newPage();
    watch(page, 'start');
    await page.goto(`${t.server.play}/?room=test-1&region=local`);
    await page.fill('#name', '__proto__');
    await page.screenshot({ path: resolve(out, 'start.png') });
    await page.click('#enter-go');
    await until(page, 'the arena', () => window.__arena.me()?.name === '__proto__');
    await context.close();
  }],
  ['a room whose node is killed goes on elsewhere, on the same socket', (t) => takeover(t)],
  ['every room node is replaced by another version and back, and nobody notices', async (t) => {
    if (fake) return 'left out';
    return rollingDeploy(t.browser, resolve(root, process.env.TENURE_BIN ?? '../target/debug/demo'), { open, until, picture: resolve(out, 'rolling.png') });
  }],
  ['the admin page shows the daemons and gives them orders', (t) => orders(t)],
  ['a planned stop ends with 0', async (t) => {
    if (fake) return 'left out';
    assert.equal(await t.server.stop('SIGTERM'), 0);
    return undefined;
  }],
];

/** The example with a set of daemons whose number may change, and an operator at its page. */
async function orders(t) {
  const bin = resolve(dirname(resolve(root, process.env.TENURE_BIN ?? '../target/debug/demo')), 'examples/quota');
  if (fake || !existsSync(bin)) return `left out: ${fake ? 'the stand-in has none' : `${bin} is not built`}`;
  const server = await Server.real(bin);
  try {
    await server.start();
    const page = await (await t.browser.newContext({ viewport: { width: 1180, height: 900 } })).newPage();
    watch(page, 'admin', /status of 409/);
    let answer;
    page.on('dialog', (dialog) => dialog.accept(answer));
    const row = (of) => until(page, `quota with ${of}`, (text) => [...document.querySelectorAll('#sets tr')].some((tr) => tr.textContent.startsWith('quota') && tr.textContent.includes(text)), of);
    const press = async (key, text) => {
      answer = text;
      await page.click(`#sets button[data-key^="${key}?"]`);
    };
    const word = (what, pattern) => until(page, what, (source) => new RegExp(source).test(document.getElementById('daemonword').textContent), pattern);
    await page.goto(`${server.admin.includes('://') ? server.admin : `http://${server.admin}`}/admin`);
    await row('2 of 2');
    assert.equal(await read(page, () => document.querySelectorAll('#daemons tr').length), 3, 'a head and two daemons');
    await press('rescale', '4');
    await word('what was agreed', 'rescale: 4 on room');
    await row('4 of 4');
    await until(page, 'each of them', () => document.querySelectorAll('#daemons tr').length === 5 && document.getElementById('daemonsum').textContent === 'all of them run');
    // What is refused says why, and goes on saying so when the page is written anew.
    await press('rescale', '99');
    await word('the refusal', 'refused: quota may have 1 to 4 daemons');
    for (let looks = 0; looks < 2; looks += 1) await page.waitForResponse((response) => response.url().endsWith('/admin/daemons'));
    await word('the refusal, later', 'refused: quota may have 1 to 4 daemons');
    await press('stop');
    await row('stopped');
    await press('start');
    await row('4 of 4');
    await page.screenshot({ path: resolve(out, 'admin.png') });
    await page.context().close();
    assert.equal(await server.stop('SIGTERM'), 0);
  } catch (error) {
    console.error(`the last words of ${bin}:\n${server.log.slice(-2000)}`);
    throw error;
  } finally {
    await server.remove();
  }
  return undefined;
}

/** Two room nodes and a gateway as processes of their own: whoever owns the room is killed, and who plays notices a pause and nothing else. */
async function takeover(t) {
  if (fake) return 'left out';
  const bin = resolve(root, process.env.TENURE_BIN ?? '../target/debug/demo');
  const redis = await Redis.start();
  const parts = [];
  try {
    for (const [name, role] of [['one', 'room'], ['two', 'room'], ['front', 'gateway']]) {
      const part = await Server.member(bin, name, role, redis.url);
      parts.push(part);
      await part.start();
    }
    const page = await open(t.browser, parts[2].play, 'Hedy');
    const other = await open(t.browser, parts[2].play, 'Alan');
    await walk(page, other, 'Hedy');
    await until(page, 'everything saved', () => window.__arena.room.unsaved === 0);
    const before = { ...(await me(page)), seat: await seat(page), term: await read(page, () => window.__arena.room.term) };
    // One of the two owns the room: the first that is killed, or the second.
    for (const [i, part] of parts.slice(0, 2).entries()) {
      await part.stop('SIGKILL');
      const moved = page.waitForFunction((term) => window.__arena.room.term > term, before.term, { timeout: 8_000, polling: 50 }).then(() => true, () => false);
      if (await moved) break;
      assert.equal(i, 0, 'nobody took the room over');
      await part.start();
    }
    await until(page, 'ticks of the new owner', ([term, tick]) => window.__arena.room.term > term && window.__arena.room.tick !== tick, [before.term, await read(page, () => window.__arena.room.tick)]);
    await walk(page, other, 'Hedy');
    const after = { ...(await me(page)), seat: await seat(page) };
    assert.deepEqual([after.seat, after.entity, after.name], [before.seat, before.entity, before.name]);
    assert.deepEqual(await read(page, () => [window.__arena.counters.drops, window.__arena.counters.reconnects]), [0, 0], 'the socket was dropped');
    assert.deepEqual(await read(other, () => [window.__arena.counters.drops, window.__arena.counters.reconnects]), [0, 0], 'the other socket was dropped');
    const shown = await read(page, () => window.__arena.counters.granted);
    await until(page, 'the next chest', (n) => window.__arena.counters.granted > n, shown);
    await page.screenshot({ path: resolve(out, 'takeover.png') });
    for (const each of [page, other]) await each.context().close();
  } catch (error) {
    for (const part of parts) console.error(`the last words of ${part.more[1]}:\n${part.log.slice(-2000)}`);
    throw error;
  } finally {
    for (const part of parts) await part.remove();
    await redis.remove();
  }
  return undefined;
}

await mkdir(out, { recursive: true });
const server = fake ? await Server.fake(resolve(root, 'scripts/dev-fake.mjs')) : await Server.real(resolve(root, process.env.TENURE_BIN ?? '../target/debug/demo'));
const t = { server };
let failed = false;
try {
  await server.start();
  t.browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: browserArgs });
  for (const [name, run] of steps.filter(([name]) => !only || name.includes(only))) {
    const began = Date.now();
    const note = await run(t);
    console.log(`ok   ${name}${note ? ` (${note})` : ''}  ${Date.now() - began} ms`);
  }
  assert.deepEqual(problems, [], 'errors in a page');
} catch (error) {
  failed = true;
  console.error(`FAIL ${error.stack}`);
  for (const [i, page] of (t.browser?.contexts() ?? []).flatMap((c) => c.pages()).entries()) await page.screenshot({ path: resolve(out, `failed-${i}.png`) }).catch(() => undefined);
  if (problems.length > 0) console.error(`in the pages:\n${problems.join('\n')}`);
  console.error(`the server's last words:\n${server.log.slice(-4000)}`);
} finally {
  await t.browser?.close();
  await server.remove();
}
process.exit(failed ? 1 : 0);
