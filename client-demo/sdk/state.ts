// What this seat sees of the room: entities with components, and resources, kept by applying ops in order.
import { Emitter, Emitters, guard, type Unsubscribe } from './emitter.ts';
import type { Value } from './msgpack.ts';
import { NameTable, same, shape } from './table.ts';
import { Space, WireError, asInt } from './wire.ts';

/** Most entities that a client keeps. */
export const MAX_ENTITIES = 100_000;

/** A thing in the room. Its number is never used again for another one. */
export class Entity<C = Record<string, unknown>> {
  readonly id: number;
  /** Components by name. Treat as read-only. */
  readonly components = new Map<string, unknown>();

  constructor(id: number) {
    this.id = id;
  }

  get<K extends keyof C & string>(component: K): C[K] | undefined {
    return this.components.get(component) as C[K] | undefined;
  }
  has(component: keyof C & string): boolean {
    return this.components.has(component);
  }
}

type Change =
  | { is: 'add' | 'change'; entity: Entity<never>; name: string; value: unknown; before: unknown }
  | { is: 'remove'; entity: Entity<never>; name: string; value: unknown }
  | { is: 'resource'; name: string; value: unknown; before: unknown };

/** The state of a room as this seat sees it. */
export class State<C = Record<string, unknown>, R = Record<string, unknown>> {
  readonly entities = new Map<number, Entity<C>>();
  readonly resources = new Map<string, unknown>();

  private readonly added = new Emitters<[Entity<C>, unknown]>();
  private readonly changed = new Emitters<[Entity<C>, unknown, unknown]>();
  private readonly removed = new Emitters<[Entity<C>, unknown]>();
  private readonly set = new Emitters<[unknown, unknown]>();
  private readonly any = new Emitter<[this]>();
  private pending: Change[] = [];
  private touched = false;
  private table: NameTable = new NameTable(new Uint8Array(8), []);

  /** A resource's value, undefined if the room has none of this name. */
  resource<K extends keyof R & string>(name: K): R[K] | undefined {
    return this.resources.get(name) as R[K] | undefined;
  }

  /** Entities that have this component, with it. */
  *with<K extends keyof C & string>(component: K): IterableIterator<[Entity<C>, C[K]]> {
    for (const entity of this.entities.values()) {
      if (entity.components.has(component)) yield [entity, entity.components.get(component) as C[K]];
    }
  }

  onAdd(name: string, listener: (entity: Entity<C>, value: never) => void): Unsubscribe {
    const stop = this.added.on(name, listener as (entity: Entity<C>, value: unknown) => void);
    for (const entity of this.entities.values()) {
      if (entity.components.has(name)) guard(listener, [entity, entity.components.get(name) as never]);
    }
    return stop;
  }
  onChange(name: string, listener: (entity: Entity<C>, value: never, before: never) => void): Unsubscribe {
    return this.changed.on(name, listener as (entity: Entity<C>, value: unknown, before: unknown) => void);
  }
  onRemove(name: string, listener: (entity: Entity<C>, value: never) => void): Unsubscribe {
    return this.removed.on(name, listener as (entity: Entity<C>, value: unknown) => void);
  }
  listen(name: string, listener: (value: never, before: never) => void): Unsubscribe {
    const stop = this.set.on(name, listener as (value: unknown, before: unknown) => void);
    if (this.resources.has(name)) guard(listener, [this.resources.get(name) as never, undefined as never]);
    return stop;
  }
  onStateChange(listener: (state: this) => void): Unsubscribe {
    return this.any.on(listener);
  }

  /** Numbers of ops that follow are of this table. */
  use(table: NameTable): void {
    this.table = table;
  }

  /** Applies the ops of a frame or tail in order, then tells listeners. Throws `WireError` at a bad op: a snapshot is needed then. */
  apply(ops: readonly Value[][]): void {
    try {
      for (const op of ops) this.op(op);
    } finally {
      this.tell();
    }
  }

  /** Everything is replaced; listeners hear only what differs. On a throw the old state stands. */
  replace(ops: readonly Value[][]): void {
    const fresh = new State<C, R>();
    fresh.use(this.table);
    for (const op of ops) fresh.op(op);
    for (const entity of this.entities.values()) if (!fresh.entities.has(entity.id)) this.despawn(entity.id);
    for (const [id, next] of fresh.entities) {
      const entity = this.entity(id);
      for (const name of entity.components.keys()) if (!next.components.has(name)) this.drop(entity, name);
      for (const [name, value] of next.components) this.put(entity, name, value);
    }
    for (const name of this.resources.keys()) if (!fresh.resources.has(name)) this.setResource(name, undefined);
    for (const [name, value] of fresh.resources) this.setResource(name, value);
    this.touched = true;
    this.tell();
  }

  /** Tells `onStateChange`, once, if anything was applied since it last did. */
  settle(): void {
    if (!this.touched) return;
    this.touched = false;
    this.any.emit(this);
  }

  private op(op: Value[]): void {
    const wanted = op[0] === 1 || op[0] === 5 ? 2 : op[0] === 4 ? 3 : op.length;
    if (op.length < 2 || op.length !== wanted) throw new WireError(`op ${String(op[0])} of ${op.length} elements`);
    switch (op[0]) {
      case 0:
      case 2: {
        const entity = this.entity(asInt(op[1]));
        if (op.length % 2 !== 0) throw new WireError('a component without a value');
        for (let i = 2; i < op.length; i += 2) {
          const named = this.table.find(Space.Component, asInt(op[i]));
          if (named) this.put(entity, named.name, shape(op[i + 1] as Value, named.fields));
        }
        return;
      }
      case 1:
        return this.despawn(asInt(op[1]));
      case 3: {
        const entity = this.entities.get(asInt(op[1]));
        for (let i = 2; i < op.length; i++) {
          const named = this.table.find(Space.Component, asInt(op[i]));
          if (entity && named) this.drop(entity, named.name);
        }
        return;
      }
      case 4: {
        const named = this.table.find(Space.Resource, asInt(op[1]));
        if (named) this.setResource(named.name, shape(op[2] as Value, named.fields));
        return;
      }
      case 5: {
        const named = this.table.find(Space.Resource, asInt(op[1]));
        if (named) this.setResource(named.name, undefined);
        return;
      }
      default:
        throw new WireError(`unknown op ${String(op[0])}`);
    }
  }

  private entity(id: number): Entity<C> {
    let entity = this.entities.get(id);
    if (!entity) {
      if (this.entities.size >= MAX_ENTITIES) throw new WireError(`more than ${MAX_ENTITIES} entities`);
      this.entities.set(id, (entity = new Entity<C>(id)));
      this.touched = true;
    }
    return entity;
  }

  private put(entity: Entity<C>, name: string, value: unknown): void {
    const known = entity.components.has(name);
    const before = entity.components.get(name);
    if (known && same(before, value)) return;
    entity.components.set(name, value);
    this.pending.push({ is: known ? 'change' : 'add', entity: entity as Entity<never>, name, value, before });
  }

  private drop(entity: Entity<C>, name: string): void {
    if (!entity.components.has(name)) return;
    const value = entity.components.get(name);
    entity.components.delete(name);
    this.pending.push({ is: 'remove', entity: entity as Entity<never>, name, value });
  }

  private despawn(id: number): void {
    const entity = this.entities.get(id);
    if (!entity) return;
    this.entities.delete(id);
    this.touched = true;
    for (const [name, value] of entity.components) this.pending.push({ is: 'remove', entity: entity as Entity<never>, name, value });
  }

  private setResource(name: string, value: unknown): void {
    const before = this.resources.get(name);
    if (value === undefined ? !this.resources.delete(name) : this.resources.has(name) && same(before, value)) return;
    if (value !== undefined) this.resources.set(name, value);
    this.pending.push({ is: 'resource', name, value, before });
  }

  private tell(): void {
    const changes = this.pending;
    if (changes.length === 0) return;
    this.pending = [];
    this.touched = true;
    for (const c of changes) {
      if (c.is === 'resource') this.set.emit(c.name, c.value, c.before);
      else if (c.is === 'add') this.added.emit(c.name, c.entity as unknown as Entity<C>, c.value);
      else if (c.is === 'change') this.changed.emit(c.name, c.entity as unknown as Entity<C>, c.value, c.before);
      else this.removed.emit(c.name, c.entity as unknown as Entity<C>, c.value);
    }
  }
}
