// How things in the arena look.
import { PLAYER_RADIUS, palette, type Pos } from './game.ts';

type Canvas = CanvasRenderingContext2D;
const TAU = Math.PI * 2;

export interface Figure {
  pos: Pos;
  name: string;
  color: number;
  score: number;
  hat: number;
  me: boolean;
  /** Where it looks, radians. */
  heading: number;
  moving: boolean;
  say: string | undefined;
}

let glowing: HTMLCanvasElement | undefined;
/** A soft round light, made once: gradients are too slow to make for each coin and frame. */
function glow(): HTMLCanvasElement {
  if (glowing) return glowing;
  glowing = document.createElement('canvas');
  glowing.width = glowing.height = 128;
  const g = glowing.getContext('2d');
  if (g) {
    const light = g.createRadialGradient(64, 64, 4, 64, 64, 64);
    light.addColorStop(0, 'rgba(255, 206, 92, 1)');
    light.addColorStop(1, 'rgba(255, 206, 92, 0)');
    g.fillStyle = light;
    g.fillRect(0, 0, 128, 128);
  }
  return glowing;
}

export function drawCoin(g: Canvas, pos: Pos, value: number, phase: number): void {
  const big = value >= 5;
  const radius = big ? 11 : 7.5;
  const turn = 0.35 + 0.65 * Math.abs(Math.cos(phase));
  g.save();
  g.translate(pos.x, pos.y);
  g.fillStyle = 'rgba(0, 0, 0, 0.35)';
  ellipse(g, 0, radius + 3, radius * 0.8, 3);
  g.globalAlpha = big ? 0.55 : 0.32;
  g.drawImage(glow(), -radius * 2.6, -radius * 2.6, radius * 5.2, radius * 5.2);
  g.globalAlpha = 1;
  g.fillStyle = '#b97a12';
  ellipse(g, 0, 1, radius * turn, radius);
  g.fillStyle = big ? '#ffc53d' : '#ffd75e';
  ellipse(g, 0, -0.5, radius * turn * 0.92, radius * 0.92);
  g.fillStyle = '#fff1b8';
  ellipse(g, -radius * 0.28 * turn, -radius * 0.32, radius * 0.26 * turn, radius * 0.3);
  if (big) {
    g.fillStyle = '#8a5606';
    g.font = '800 11px system-ui, sans-serif';
    g.textAlign = 'center';
    g.textBaseline = 'middle';
    g.scale(turn, 1);
    g.fillText(String(value), 0, 0.5);
    g.textBaseline = 'alphabetic';
  }
  g.restore();
  // A glint now and then.
  const glint = Math.sin(phase * 0.7 + pos.x) ** 24;
  if (glint > 0.05) star(g, pos.x + radius * 0.5, pos.y - radius * 0.6, 5 * glint, `rgba(255, 252, 235, ${glint})`);
}

export function drawPlayer(g: Canvas, f: Figure, time: number, calm: boolean): void {
  const [light, dark] = palette(f.color);
  const bob = f.moving && !calm ? Math.abs(Math.sin(time * 11 + f.pos.x * 0.02)) * 3.5 : 0;
  const r = PLAYER_RADIUS;
  g.save();
  g.translate(f.pos.x, f.pos.y);
  g.fillStyle = 'rgba(0, 0, 0, 0.4)';
  ellipse(g, 0, r - 1, r * (0.95 - bob * 0.03), 6);
  if (f.me) {
    g.strokeStyle = 'rgba(255, 255, 255, 0.75)';
    g.lineWidth = 2;
    g.setLineDash([7, 6]);
    g.lineDashOffset = calm ? 0 : -time * 14;
    g.beginPath();
    g.arc(0, 0, r + 7, 0, TAU);
    g.stroke();
    g.setLineDash([]);
  }
  g.translate(0, -bob);
  const body = g.createRadialGradient(-6, -8, 2, 0, 0, r + 4);
  body.addColorStop(0, light);
  body.addColorStop(1, dark);
  g.fillStyle = body;
  g.beginPath();
  g.arc(0, 0, r, 0, TAU);
  g.fill();
  g.lineWidth = 2.5;
  g.strokeStyle = 'rgba(9, 12, 26, 0.65)';
  g.stroke();
  eyes(g, f.heading);
  hat(g, f.hat, light);
  g.restore();
}

/** Names lie above all figures. */
export function drawName(g: Canvas, f: Figure): void {
  const top = f.pos.y - PLAYER_RADIUS - (f.hat > 0 ? 27 : 13);
  g.textAlign = 'center';
  g.font = '700 13px system-ui, sans-serif';
  g.lineWidth = 4;
  g.strokeStyle = 'rgba(8, 11, 24, 0.8)';
  const text = `${f.name}`;
  const score = ` ${f.score}`;
  const [w, s] = [g.measureText(text).width, g.measureText(score).width];
  g.strokeText(text + score, f.pos.x, top);
  g.textAlign = 'left';
  g.fillStyle = f.me ? '#ffffff' : '#dbe4ff';
  g.fillText(text, f.pos.x - (w + s) / 2, top);
  g.fillStyle = '#ffd75e';
  g.fillText(score, f.pos.x + (w - s) / 2, top);
  if (f.say) bubble(g, f.pos.x, top - 32, f.say);
}

function bubble(g: Canvas, x: number, y: number, said: string): void {
  const text = said.length > 40 ? `${said.slice(0, 39)}…` : said;
  g.font = '600 13px system-ui, sans-serif';
  g.textAlign = 'center';
  const w = g.measureText(text).width + 18;
  g.fillStyle = 'rgba(244, 247, 255, 0.95)';
  g.beginPath();
  g.roundRect(x - w / 2, y - 17, w, 25, 9);
  g.moveTo(x - 5, y + 8);
  g.lineTo(x + 5, y + 8);
  g.lineTo(x, y + 14);
  g.fill();
  g.fillStyle = '#131a33';
  g.fillText(text, x, y);
}

/** The small pictures of the shop. */
export function drawIcon(g: Canvas, item: string, size: number): void {
  g.save();
  g.translate(size / 2, size / 2);
  g.scale(size / 30, size / 30);
  if (item === 'hat') {
    g.translate(0, 25);
    hat(g, 1, '#ffffff');
  } else {
    fill(g, '#ffd75e', () => {
      for (const [x, y] of [[3, -14], [-10, 3], [-1, 3], [-4, 14], [10, -4], [1, -4]] as const) g.lineTo(x, y);
    });
  }
  g.restore();
}

function eyes(g: Canvas, heading: number): void {
  const [dx, dy] = [Math.cos(heading) * 3.4, Math.sin(heading) * 3.4];
  for (const side of [-6.2, 6.2]) {
    g.fillStyle = '#ffffff';
    ellipse(g, side + dx * 0.5, -2 + dy * 0.5, 4.6, 5.4);
    g.fillStyle = '#141a30';
    ellipse(g, side + dx, -1.6 + dy, 2.2, 2.6);
  }
}

function hat(g: Canvas, kind: number, light: string): void {
  if (kind <= 0) return;
  const y = -PLAYER_RADIUS + 3;
  switch ((kind - 1) % 5) {
    case 0: // top hat
      fill(g, '#4b558f', () => g.roundRect(-16, y - 2, 32, 5, 2));
      fill(g, '#6672b8', () => g.roundRect(-10, y - 19, 20, 18, 3));
      fill(g, '#ff7a8a', () => g.rect(-10, y - 7, 20, 4));
      return;
    case 1: // crown
      fill(g, '#ffce4a', () => {
        g.moveTo(-13, y + 1);
        for (const [x, up] of [[-13, 15], [-6.5, 7], [0, 17], [6.5, 7], [13, 15]] as const) g.lineTo(x, y - up);
        g.lineTo(13, y + 1);
      });
      for (const x of [-13, 0, 13]) fill(g, '#ff6f91', () => g.arc(x, y - (x === 0 ? 18 : 16), 2.6, 0, TAU));
      return;
    case 2: // wizard
      fill(g, '#6d5ae6', () => {
        g.moveTo(-14, y + 2);
        g.quadraticCurveTo(-4, y - 14, 4, y - 27);
        g.quadraticCurveTo(6, y - 12, 14, y + 2);
      });
      star(g, -2, y - 6, 4.5, '#ffe27a');
      return;
    case 3: // beanie
      fill(g, '#ff8f6b', () => g.arc(0, y + 4, 14, Math.PI, 0));
      fill(g, '#ffd2bf', () => g.roundRect(-15, y + 1, 30, 5, 2.5));
      fill(g, '#fff3ec', () => g.arc(0, y - 11, 4, 0, TAU));
      return;
    default: // flower
      fill(g, '#57c278', () => g.rect(-1, y - 9, 2, 10));
      for (let i = 0; i < 6; i++) fill(g, light, () => g.arc(Math.cos((i * TAU) / 6) * 5, y - 13 + Math.sin((i * TAU) / 6) * 5, 3.6, 0, TAU));
      fill(g, '#ffd75e', () => g.arc(0, y - 13, 3.2, 0, TAU));
  }
}

/** `left`: part of the waiting time that is left, undefined if not known; `open`: 1 just opened, falling to 0. */
export function drawChest(g: Canvas, at: Pos, left: number | undefined, seconds: number, open: number, time: number, calm: boolean): void {
  const soon = left !== undefined && seconds <= 3 && open === 0;
  g.save();
  g.translate(at.x, at.y);
  g.globalAlpha = 0.22 + open * 0.6 + (soon ? 0.2 : 0);
  g.drawImage(glow(), -92, -92, 184, 184);
  g.globalAlpha = 1;
  g.lineWidth = 7;
  g.lineCap = 'round';
  g.strokeStyle = 'rgba(255, 255, 255, 0.1)';
  g.beginPath();
  g.arc(0, 0, 47, 0, TAU);
  g.stroke();
  if (left !== undefined) {
    g.strokeStyle = soon ? '#ff9a5e' : '#ffcf5c';
    g.beginPath();
    g.arc(0, 0, 47, -Math.PI / 2, -Math.PI / 2 + TAU * (1 - Math.min(1, Math.max(0, left))));
    g.stroke();
  }
  if (soon && !calm) g.rotate(Math.sin(time * 34) * 0.06);
  const lift = open * 13;
  fill(g, 'rgba(0, 0, 0, 0.35)', () => g.ellipse(0, 23, 30, 6, 0, 0, TAU));
  fill(g, '#8a5226', () => g.roundRect(-26, -4, 52, 26, 4));
  fill(g, '#6f3f1b', () => g.roundRect(-26, 10, 52, 12, 4));
  if (open > 0) fill(g, `rgba(255, 240, 180, ${open})`, () => g.ellipse(0, -5, 24, 8, 0, 0, TAU));
  fill(g, '#a9652f', () => {
    g.moveTo(-27, -4 - lift);
    g.quadraticCurveTo(-27, -24 - lift, 0, -24 - lift);
    g.quadraticCurveTo(27, -24 - lift, 27, -4 - lift);
  });
  for (const x of [-19, 13]) {
    fill(g, '#e0a93c', () => g.rect(x, -3, 6, 25));
    fill(g, '#f2c45a', () => g.rect(x, -21 - lift, 6, 17));
  }
  fill(g, '#ffd970', () => g.roundRect(-6, -9 - lift * 0.4, 12, 14, 3));
  fill(g, '#7a4a12', () => g.arc(0, -3 - lift * 0.4, 2.4, 0, TAU));
  g.restore();
  if (left === undefined) return;
  g.font = '800 17px system-ui, sans-serif';
  g.textAlign = 'center';
  g.lineWidth = 4;
  g.strokeStyle = 'rgba(8, 11, 24, 0.85)';
  const text = open > 0 ? 'Gold!' : `${Math.max(0, Math.ceil(seconds))} s`;
  g.strokeText(text, at.x, at.y + 76);
  g.fillStyle = soon ? '#ffb27d' : '#ffe3a0';
  g.fillText(text, at.x, at.y + 76);
}

function fill(g: Canvas, color: string, path: () => void): void {
  g.fillStyle = color;
  g.beginPath();
  path();
  g.fill();
}

function ellipse(g: Canvas, x: number, y: number, rx: number, ry: number): void {
  g.beginPath();
  g.ellipse(x, y, Math.max(0, rx), Math.max(0, ry), 0, 0, TAU);
  g.fill();
}

function star(g: Canvas, x: number, y: number, r: number, color: string): void {
  fill(g, color, () => {
    for (let i = 0; i < 8; i++) {
      const radius = i % 2 === 0 ? r : r * 0.35;
      g.lineTo(x + Math.cos((i * Math.PI) / 4) * radius, y + Math.sin((i * Math.PI) / 4) * radius);
    }
  });
}
