// The page: joins a room, and connects it with scene, steering and HUD.
import { Client, TenureError, type Entity, type Room } from '../sdk/index.ts';
import { dropSocket } from '../sdk/testing.ts';
import { Auditor, type Audit } from './audit.ts';
import { CHEST, type Arena, type ShopItem } from './game.ts';
import { Hud, askName, why } from './hud.ts';
import { Scene } from './scene.ts';
import { enter, keptSeat, proposedName, rememberName, wishFrom } from './session.ts';
import { Steering } from './steering.ts';

type Thing = Entity<Arena['components']>;

/** What browser tests see. */
interface Hook {
  room: Room<Arena> | undefined;
  counters: { frames: number; drawn: number; granted: number; gold: number; picked: number; drops: number; reconnects: number; leaves: number };
  grants: { source: string; scheduledFor: number | null; gold: number }[];
  left: number | undefined;
  audit: Audit;
  /** Loses the socket. */
  drop(): void;
  me(): { entity: number; x: number; y: number; score: number; gold: number; name: string; hat: number } | undefined;
  players(): { entity: number; name: string; x: number; y: number; score: number }[];
}
const MOST_GRANTS = 100;

const wish = wishFrom(location.search);
const client = new Client(wish.server);
const canvas = document.getElementById('canvas') as HTMLCanvasElement;
const scene = new Scene(canvas);
const hud = new Hud({ buy: (item) => void buy(item), chat, rename: () => void rename() });
const auditor = new Auditor();
let room: Room<Arena> | undefined;

const steering = new Steering(canvas, {
  toWorld: (x, y) => scene.toWorld(x, y),
  own: () => (scene.me === undefined ? undefined : scene.where(scene.me)),
  send: (dx, dy) => room?.connected === true && attempt(() => {
    room?.send('steer', [dx, dy]);
    auditor.steered();
  }),
});

const hook: Hook = {
  room: undefined,
  counters: { frames: 0, drawn: 0, granted: 0, gold: 0, picked: 0, drops: 0, reconnects: 0, leaves: 0 },
  grants: [],
  left: undefined,
  audit: auditor.counts,
  drop: () => room && dropSocket(room),
  me: () => {
    const own = mine();
    const pos = own?.get('pos');
    const player = own?.get('player');
    if (!own || !pos || !player) return undefined;
    return { entity: own.id, x: pos.x, y: pos.y, score: player.score, name: player.name, hat: player.hat, gold: own.get('wallet')?.gold ?? 0 };
  },
  players: () =>
    [...(room?.state.with('player') ?? [])].map(([entity, p]) => ({ entity: entity.id, name: p.name, score: p.score, x: entity.get('pos')?.x ?? 0, y: entity.get('pos')?.y ?? 0 })),
};
declare global {
  interface Window {
    __arena: Hook;
  }
}
window.__arena = hook;

function draw(): void {
  steering.step();
  scene.toward = steering.direction;
  scene.draw(room);
  hook.counters.drawn = scene.drawn;
  if (room) figures(room);
  requestAnimationFrame(draw);
}

function figures(r: Room<Arena>): void {
  const own = mine();
  const chest = r.state.resource('chest');
  const left = chest && chest.next_at > 0 ? (chest.next_at - scene.clock.at(performance.now())) / r.tickRate : undefined;
  let players = 0;
  for (const _ of r.state.with('player')) players += 1;
  hud.show(r, { gold: own?.get('wallet')?.gold ?? 0, score: own?.get('player')?.score ?? 0 }, left, players, auditor.counts);
}

/** One's own figure: only its owner sees `wallet` and `inputs`. */
function mine(): Thing | undefined {
  return scene.me === undefined ? undefined : room?.state.entities.get(scene.me);
}

function listen(r: Room<Arena>): void {
  r.onAdd('pos', (entity, pos) => scene.moved(entity.id, r.tick, pos));
  r.onChange('pos', (entity, pos) => scene.moved(entity.id, r.tick, pos));
  r.onRemove('pos', (entity) => scene.gone(entity.id));
  const own = (entity: Thing): void => void (scene.me = entity.id);
  r.onAdd('wallet', own);
  r.onAdd('inputs', own);
  r.onRemove('coin', (entity) => {
    const pos = entity.get('pos');
    if (pos) scene.effects.sparkle(pos);
  });
  r.onStateChange(() => {
    hook.counters.frames += 1;
    auditor.frame(r.term, r.tick, r.tickRate, performance.now());
    auditor.inputs(mine()?.get('inputs'), r.unsaved);
    scene.clock.arrived(r.tick, r.tickRate, performance.now());
  });
  r.listen('board', (rows) => hud.board(rows ?? [], mine()?.get('player')?.name ?? ''));
  r.onMessage('picked', ({ value }) => {
    hook.counters.picked += 1;
    const at = scene.me === undefined ? undefined : scene.where(scene.me);
    if (at) scene.effects.label({ x: at.x, y: at.y - 40 }, `+${value}`, '#ffe08a', value >= 5 ? 20 : 15);
  });
  r.onMessage('chat', ({ from, text }) => {
    hud.line(from, text);
    scene.say(from, text);
  });
  r.onGranted(({ source, scheduledFor, grants }) => {
    const gold = grants.get('gold') ?? 0;
    hook.counters.granted += 1;
    auditor.granted(source, scheduledFor);
    hook.counters.gold += gold;
    hook.grants.push({ source, scheduledFor, gold });
    if (hook.grants.length > MOST_GRANTS) hook.grants.shift();
    if (gold <= 0) return;
    hud.toast(source === 'chest' ? 'from the chest' : `from ${source}`, 'gold', `+${gold} gold`);
    if (source === 'chest') scene.openChest();
    const at = scene.me === undefined ? CHEST : (scene.where(scene.me) ?? CHEST);
    scene.effects.label({ x: at.x, y: at.y - 58 }, `+${gold} gold`, '#ffd75e', 22);
  });
  r.onDrop(() => {
    hook.counters.drops += 1;
    auditor.interrupted();
    hud.status('Connection lost, your seat is kept…');
  });
  r.onRetry((number) => hud.status(`Reconnecting… attempt ${number}`));
  r.onReconnect(() => {
    hook.counters.reconnects += 1;
    steering.reset();
    scene.clock.reset();
    hud.status('Back in your seat', 'good', 1800);
  });
  r.onRolledBack(({ term }) => {
    // Its ticks may go on from an earlier one.
    scene.clock.reset();
    hud.toast(term > r.term ? 'The room went on at another server' : 'The room was restored');
  });
  r.onError((error) => hud.toast(error.message, 'bad'));
  r.onLeave((code, reason) => {
    hook.counters.leaves += 1;
    hook.left = code;
    hud.over(code, reason, () => void play(proposedName()));
  });
}

async function play(name: string): Promise<void> {
  hud.status('Joining…');
  try {
    room = hook.room = await enter(client, wish, name, (number) => hud.status(`The server does not answer yet, attempt ${number}`));
  } catch (error) {
    hud.status(why(error), 'bad', undefined, { label: 'Try again', run: () => void play(name) });
    return;
  }
  hook.left = undefined;
  scene.reset();
  steering.reset();
  auditor.reset();
  hud.status(undefined);
  listen(room);
  (document.activeElement as HTMLElement | null)?.blur();
}

async function rename(): Promise<void> {
  if (!room) return;
  const name = await askName(mine()?.get('player')?.name ?? proposedName(), 'Rename');
  try {
    await room.request('rename', { name });
    rememberName(name);
  } catch (error) {
    hud.toast(error instanceof TenureError ? error.message : String(error), 'bad');
  }
}

async function buy(item: ShopItem): Promise<void> {
  try {
    await room?.request('buy', { item: item.id });
    hud.toast(`${item.label} is yours`);
  } catch (error) {
    hud.toast(error instanceof TenureError ? error.message : String(error), 'bad');
  }
}

function chat(text: string): void {
  attempt(() => room?.send('chat', { text }));
}

/** False, with a word to the player, if it could not be sent. */
function attempt(send: () => void): boolean {
  try {
    send();
    return true;
  } catch (error) {
    if (!(error instanceof TenureError)) throw error;
    if (error.code !== 'closed') hud.toast(error.message, 'bad');
    return false;
  }
}

for (const event of ['keydown', 'pointerdown']) addEventListener(event, () => setTimeout(() => hud.hintSeen(), 2500), { once: true });
requestAnimationFrame(draw);
const known = wish.name ?? (keptSeat(client, wish) ? proposedName() : undefined);
const name = known ?? (await askName(proposedName()));
rememberName(name);
await play(name);
