// For tests of pages: not part of what `index.ts` gives to games.
import { links, type Room } from './room.ts';
import type { Schema } from './schema.ts';

/** Loses a room's socket as a bad network would. */
export function dropSocket<S extends Schema>(room: Room<S>): void {
  links.get(room)?.drop('dropped for a test');
}
