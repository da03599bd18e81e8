// The browser SDK of Tenure: everything that a game's page imports.
export { Client, type ClientOptions, type Wanted } from './client.ts';
export { CloseCode, codeName, describe, isFinal } from './codes.ts';
export { type Unsubscribe } from './emitter.ts';
export { TenureError, type LocalCode } from './errors.ts';
export { type RoomStats } from './listening.ts';
export { type Filter, type ListOptions, type ListedRoom, type RoomPage } from './lobby.ts';
export { type Value } from './msgpack.ts';
export { Room } from './room.ts';
export { type AnySchema, type Schema } from './schema.ts';
export { Entity, State } from './state.ts';
export { DefaultStorage, type SavedSession, type TokenStorage } from './storage.ts';
export { type BackoffOptions } from './time.ts';
export { type Granted } from './wire.ts';
