// The canvas: camera, ground, and all things in their order.
import type { Room } from '../sdk/index.ts';
import { Effects } from './effects.ts';
import { drawChest, drawCoin, drawName, drawPlayer, type Figure } from './figures.ts';
import { CHEST, HEIGHT, PLAYER_RADIUS, WIDTH, palette, type Arena, type Player, type Pos } from './game.ts';
import { Own, TickClock, Track } from './motion.ts';

/** The smallest scale at which names can be read; below it the camera follows the player. */
const READABLE = 0.72;
/** How long the chest stays open, ms, and a speech bubble is seen, ms. */
const OPEN = 1600;
const SAY = 4500;
const MARGIN = 14;
/** Space above the arena for the figures on top, px. */
const TOP = 58;

export class Scene {
  readonly effects = new Effects();
  readonly clock = new TickClock();
  /** Frames drawn. */
  drawn = 0;
  /** The direction that is steered now. */
  toward: Pos = { x: 0, y: 0 };
  /** Own entity, if known. */
  me: number | undefined;
  private readonly canvas: HTMLCanvasElement;
  private readonly g: CanvasRenderingContext2D;
  private readonly tracks = new Map<number, Track>();
  private readonly headings = new Map<number, number>();
  private readonly said = new Map<string, { text: string; until: number }>();
  private readonly own = new Own();
  private ownPos: Pos | undefined;
  private camera: Pos | undefined;
  private ground: HTMLCanvasElement | undefined;
  private view = { x: 0, y: 0, scale: 1 };
  private last = performance.now();
  private opened = 0;

  constructor(canvas: HTMLCanvasElement) {
    this.canvas = canvas;
    const g = canvas.getContext('2d', { alpha: false });
    if (!g) throw new Error('this browser has no 2D canvas');
    this.g = g;
    const calm = matchMedia('(prefers-reduced-motion: reduce)');
    this.effects.calm = calm.matches;
    calm.addEventListener('change', () => (this.effects.calm = calm.matches));
  }

  /** A new room: nothing of the old one is known. */
  reset(): void {
    this.tracks.clear();
    this.headings.clear();
    this.said.clear();
    this.clock.reset();
    this.me = this.ownPos = this.camera = undefined;
  }
  moved(entity: number, tick: number, pos: Pos): void {
    let track = this.tracks.get(entity);
    if (!track) this.tracks.set(entity, (track = new Track()));
    track.push(tick, pos);
  }
  gone(entity: number): void {
    this.tracks.delete(entity);
    this.headings.delete(entity);
  }
  say(name: string, text: string): void {
    this.said.set(name, { text, until: performance.now() + SAY });
  }
  openChest(): void {
    this.opened = performance.now();
    this.effects.burst(CHEST);
  }
  /** Newest known position of an entity. */
  where(entity: number): Pos | undefined {
    return entity === this.me && this.ownPos ? this.ownPos : this.tracks.get(entity)?.newest;
  }
  /** A point of the page as a point of the world. */
  toWorld(clientX: number, clientY: number): Pos {
    const box = this.canvas.getBoundingClientRect();
    return { x: (clientX - box.left - this.view.x) / this.view.scale, y: (clientY - box.top - this.view.y) / this.view.scale };
  }

  draw(room: Room<Arena> | undefined): void {
    const now = performance.now();
    const seconds = Math.min(0.1, (now - this.last) / 1000);
    this.last = now;
    this.drawn += 1;
    const figures = room ? this.figures(room, now, seconds) : [];
    const { g } = this;
    this.aim(seconds);
    g.fillStyle = '#070a18';
    g.fillRect(0, 0, this.canvas.width, this.canvas.height);
    const dpr = this.canvas.width / Math.max(1, this.canvas.clientWidth);
    g.setTransform(dpr * this.view.scale, 0, 0, dpr * this.view.scale, dpr * this.view.x, dpr * this.view.y);
    g.drawImage(this.floor(), -40, -40, WIDTH + 80, HEIGHT + 80);
    if (!room) {
      g.resetTransform();
      return;
    }
    this.chest(room, now);
    const spin = this.effects.calm ? 0 : now / 420;
    for (const [entity, coin] of room.state.with('coin')) {
      const pos = entity.get('pos');
      if (pos) drawCoin(g, pos, coin.value, spin + entity.id * 1.7);
    }
    figures.sort((a, b) => a.pos.y - b.pos.y);
    for (const f of figures) {
      if (f.moving && Math.random() < seconds * 14) this.effects.dust(f.pos, palette(f.color)[1]);
      drawPlayer(g, f, now / 1000, this.effects.calm);
    }
    // One's own name covers those of others, and what one gets covers all.
    for (const f of figures) if (!f.me) drawName(g, f);
    for (const f of figures) if (f.me) drawName(g, f);
    this.effects.draw(g, seconds);
    g.resetTransform();
  }

  private figures(room: Room<Arena>, now: number, seconds: number): Figure[] {
    const tick = this.clock.shown(now);
    const figures: Figure[] = [];
    for (const [entity, player] of room.state.with('player')) {
      const track = this.tracks.get(entity.id);
      if (!track) continue;
      const me = entity.id === this.me;
      const before = track.at(tick - 1);
      let pos = track.at(tick);
      if (me) pos = this.ownPos = this.own.show(track, this.clock.at(now), room.tickRate, this.toward, seconds, { x: WIDTH, y: HEIGHT });
      const [dx, dy] = me && (this.toward.x || this.toward.y) ? [this.toward.x, this.toward.y] : [pos.x - before.x, pos.y - before.y];
      const moving = me ? Boolean(this.toward.x || this.toward.y) : Math.hypot(dx, dy) > 0.3;
      if (moving) this.headings.set(entity.id, Math.atan2(dy, dx));
      figures.push(this.figure(entity.id, player, pos, me, moving, now));
    }
    return figures;
  }

  private figure(id: number, player: Player, pos: Pos, me: boolean, moving: boolean, now: number): Figure {
    const said = this.said.get(player.name);
    if (said && said.until < now) this.said.delete(player.name);
    return {
      pos, me, moving, name: player.name, color: player.color, score: player.score, hat: player.hat,
      heading: this.headings.get(id) ?? Math.PI / 2, say: said && said.until >= now ? said.text : undefined,
    };
  }

  private chest(room: Room<Arena>, now: number): void {
    const chest = room.state.resource('chest');
    const known = chest !== undefined && chest.next_at > 0;
    const seconds = known ? (chest.next_at - this.clock.at(now)) / room.tickRate : 0;
    const left = known ? seconds / Math.max(1, chest.every) : undefined;
    const open = Math.max(0, 1 - (now - this.opened) / OPEN);
    drawChest(this.g, CHEST, left, seconds, this.opened === 0 ? 0 : open, now / 1000, this.effects.calm);
  }

  /** The whole arena if it can be read, else the camera follows. */
  private aim(seconds: number): void {
    const dpr = Math.min(2, window.devicePixelRatio || 1);
    const [w, h] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (this.canvas.width !== Math.round(w * dpr) || this.canvas.height !== Math.round(h * dpr)) {
      this.canvas.width = Math.round(w * dpr);
      this.canvas.height = Math.round(h * dpr);
      this.ground = undefined;
    }
    const fit = Math.min((w - 2 * MARGIN) / WIDTH, (h - TOP - MARGIN) / HEIGHT);
    const scale = Math.max(fit, Math.min(READABLE, (h - TOP - MARGIN) / HEIGHT), READABLE * 0.75);
    const target = this.ownPos ?? CHEST;
    this.camera ??= target;
    const part = 1 - Math.exp(-seconds * 7);
    this.camera = { x: this.camera.x + (target.x - this.camera.x) * part, y: this.camera.y + (target.y - this.camera.y) * part };
    this.view = { scale, x: axis(w, WIDTH * scale, this.camera.x * scale, MARGIN), y: axis(h, HEIGHT * scale, this.camera.y * scale, TOP) };
  }

  /** The ground is drawn once per size. */
  private floor(): HTMLCanvasElement {
    if (this.ground) return this.ground;
    const ground = document.createElement('canvas');
    const k = 1.5;
    ground.width = (WIDTH + 80) * k;
    ground.height = (HEIGHT + 80) * k;
    const g = ground.getContext('2d');
    if (g) {
      g.scale(k, k);
      g.translate(40, 40);
      paintGround(g);
    }
    this.ground = ground;
    return ground;
  }
}

/** Where the world's 0 lies on an axis of the screen: centred if it fits, else following `focus` up to the walls. */
function axis(screen: number, size: number, focus: number, start: number): number {
  if (size <= screen - start - MARGIN + 1) return start + (screen - start - MARGIN - size) / 2;
  return Math.min(start, Math.max(screen - size - MARGIN, screen / 2 - focus));
}

function paintGround(g: CanvasRenderingContext2D): void {
  g.fillStyle = '#070a18';
  g.fillRect(-40, -40, WIDTH + 80, HEIGHT + 80);
  g.shadowColor = 'rgba(92, 124, 255, 0.55)';
  g.shadowBlur = 28;
  g.fillStyle = '#111735';
  g.beginPath();
  g.roundRect(0, 0, WIDTH, HEIGHT, 22);
  g.fill();
  g.shadowBlur = 0;
  g.save();
  g.clip();
  const light = g.createRadialGradient(CHEST.x, CHEST.y, 40, CHEST.x, CHEST.y, 620);
  light.addColorStop(0, '#28336b');
  light.addColorStop(0.55, '#18204a');
  light.addColorStop(1, '#0d1230');
  g.fillStyle = light;
  g.fillRect(0, 0, WIDTH, HEIGHT);
  g.strokeStyle = 'rgba(140, 165, 255, 0.07)';
  g.lineWidth = 1;
  for (let x = 50; x < WIDTH; x += 50) line(g, x, 0, x, HEIGHT);
  for (let y = 50; y < HEIGHT; y += 50) line(g, 0, y, WIDTH, y);
  g.strokeStyle = 'rgba(150, 175, 255, 0.13)';
  g.lineWidth = 2;
  for (const r of [110, 210]) {
    g.beginPath();
    g.arc(CHEST.x, CHEST.y, r, 0, Math.PI * 2);
    g.stroke();
  }
  line(g, CHEST.x, 0, CHEST.x, CHEST.y - 210);
  line(g, CHEST.x, CHEST.y + 210, CHEST.x, HEIGHT);
  g.restore();
  g.strokeStyle = 'rgba(132, 158, 255, 0.65)';
  g.lineWidth = 3;
  g.beginPath();
  g.roundRect(0, 0, WIDTH, HEIGHT, 22);
  g.stroke();
  g.strokeStyle = 'rgba(255, 255, 255, 0.06)';
  g.lineWidth = 1;
  g.beginPath();
  g.roundRect(PLAYER_RADIUS / 2, PLAYER_RADIUS / 2, WIDTH - PLAYER_RADIUS, HEIGHT - PLAYER_RADIUS, 15);
  g.stroke();
}

function line(g: CanvasRenderingContext2D, x1: number, y1: number, x2: number, y2: number): void {
  g.beginPath();
  g.moveTo(x1, y1);
  g.lineTo(x2, y2);
  g.stroke();
}
