// Short-lived things: bursts of coins, rising numbers, dust. Their number is bounded.
import { WIDTH, type Pos } from './game.ts';

const MOST = 400;

interface Particle extends Pos {
  vx: number;
  vy: number;
  age: number;
  life: number;
  size: number;
  color: string;
  /** 1: falls, 0: floats. */
  weight: number;
}
interface Label extends Pos {
  text: string;
  age: number;
  color: string;
  size: number;
}

export class Effects {
  private particles: Particle[] = [];
  private labels: Label[] = [];
  /** No moving decoration; numbers still show. */
  calm = false;

  /** The chest gives. */
  burst(at: Pos): void {
    const colors = ['#ffd75e', '#ffb23e', '#fff2b8', '#ff8f5e', '#8fd3ff'];
    this.spray(at, 70, 340, 1.3, colors, 1);
    this.spray(at, 26, 120, 0.9, ['#fff7d6'], 0);
  }
  sparkle(at: Pos): void {
    this.spray(at, 10, 130, 0.5, ['#ffe08a', '#fff6cf'], 0.2);
  }
  dust(at: Pos, color: string): void {
    if (this.calm || this.particles.length >= MOST) return;
    const angle = Math.random() * 7;
    this.particles.push({ x: at.x + Math.cos(angle) * 6, y: at.y + 12 + Math.random() * 4, vx: 0, vy: -8, age: 0, life: 0.45, size: 3.4, color, weight: 0 });
  }
  label(at: Pos, text: string, color = '#ffe08a', size = 16): void {
    // Whole at the walls too.
    const half = text.length * size * 0.3;
    this.labels.push({ x: Math.min(WIDTH - half, Math.max(half, at.x)), y: Math.max(size, at.y), text, age: 0, color, size });
    if (this.labels.length > 40) this.labels.shift();
  }

  private spray(at: Pos, count: number, force: number, life: number, colors: string[], weight: number): void {
    if (this.calm) return;
    for (let i = 0; i < count && this.particles.length < MOST; i++) {
      const angle = Math.random() * Math.PI * 2;
      const speed = force * (0.25 + Math.random() * 0.75);
      this.particles.push({
        x: at.x, y: at.y, vx: Math.cos(angle) * speed, vy: Math.sin(angle) * speed - weight * force * 0.35, age: 0,
        life: life * (0.6 + Math.random() * 0.6), size: 1.8 + Math.random() * 3.2, color: colors[i % colors.length] as string, weight,
      });
    }
  }

  draw(g: CanvasRenderingContext2D, seconds: number): void {
    this.particles = this.particles.filter((p) => (p.age += seconds) < p.life);
    for (const p of this.particles) {
      p.vx *= 1 - 1.6 * seconds;
      p.vy = p.vy * (1 - 1.6 * seconds) + p.weight * 420 * seconds;
      p.x += p.vx * seconds;
      p.y += p.vy * seconds;
      g.globalAlpha = Math.max(0, 1 - p.age / p.life);
      g.fillStyle = p.color;
      g.beginPath();
      g.arc(p.x, p.y, p.size * (1 - (0.5 * p.age) / p.life), 0, Math.PI * 2);
      g.fill();
    }
    this.labels = this.labels.filter((l) => (l.age += seconds) < 1.2);
    g.textAlign = 'center';
    for (const l of this.labels) {
      g.globalAlpha = Math.min(1, (1.2 - l.age) * 2);
      g.font = `800 ${l.size}px system-ui, sans-serif`;
      g.lineWidth = 4;
      g.strokeStyle = 'rgba(8, 11, 24, 0.85)';
      const y = l.y - 34 * (1 - (1 - l.age / 1.2) ** 2);
      g.strokeText(l.text, l.x, y);
      g.fillStyle = l.color;
      g.fillText(l.text, l.x, y);
    }
    g.globalAlpha = 1;
  }
}
