// The browser SDK of Tenure: everything that a game's page imports.
export { Client, type ClientOptions, type Wanted } from './client.ts';
export { CloseCode, describe, isFinal } from './codes.ts';
export { type Unsubscribe } from './emitter.ts';
export { TenureError } from './errors.ts';
export { type Value } from './msgpack.ts';
export { Room, type RoomStats } from './room.ts';
export { type AnySchema, type Schema } from './schema.ts';
export { Entity, State } from './state.ts';
export { DefaultStorage, type SavedSession, type TokenStorage } from './storage.ts';
export { type BackoffOptions } from './time.ts';
export { type Granted } from './wire.ts';
