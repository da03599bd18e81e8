// What the arena's server registers, as types, and how the page shows it.

export interface Pos {
  x: number;
  y: number;
}
export interface Player {
  name: string;
  /** Index of `PALETTE`. */
  color: number;
  score: number;
  /** 0: none. */
  hat: number;
}
export interface Arena {
  components: { pos: Pos; player: Player; coin: { value: number }; wallet: { gold: number }; inputs: number };
  resources: {
    arena: { width: number; height: number; round: number };
    /** `next_at`: room tick of the next chest, 0 if not known. `every`: seconds. */
    chest: { next_at: number; every: number; gold: number };
    /** Name and score, best first. */
    board: [string, number][];
    /** Name of the node that the room runs at. */
    host: string;
  };
  messages: { steer: [number, number]; chat: { text: string } };
  requests: { buy: { ask: { item: string }; answer: { item: string; gold: number } }; rename: { ask: { name: string }; answer: { name: string } } };
  events: { picked: { entity: number; value: number }; chat: { from: string; text: string } };
}

export const WIDTH = 1000;
export const HEIGHT = 600;
/** Where the chest stands. */
export const CHEST = { x: WIDTH / 2, y: HEIGHT / 2 };
export const PLAYER_RADIUS = 18;

/** Light and dark of each player color; all have a contrast of 4.5 and more against the ground. */
export const PALETTE: readonly (readonly [string, string])[] = [
  ['#7cc7ff', '#2f7fd6'],
  ['#ffb26b', '#e0702a'],
  ['#8ff0a4', '#2fae62'],
  ['#ff9bb3', '#e04d78'],
  ['#c9a5ff', '#8455e0'],
  ['#ffe27a', '#d9a51f'],
  ['#7ff0e4', '#1fa99b'],
  ['#ff8f7a', '#d94a35'],
  ['#b7d96c', '#7aa329'],
  ['#f3a6ff', '#b94fd0'],
  ['#a8b8ff', '#5a6fe0'],
  ['#e6d3b8', '#a98a5c'],
];
export function palette(color: number): readonly [string, string] {
  return PALETTE[Math.abs(color) % PALETTE.length] as readonly [string, string];
}

export interface ShopItem {
  id: string;
  label: string;
  detail: string;
  price: number;
}
export const SHOP: readonly ShopItem[] = [
  { id: 'boost', label: 'Speed boost', detail: 'Run faster a while', price: 50 },
  { id: 'hat', label: 'Hat', detail: 'The next one of five', price: 30 },
];
