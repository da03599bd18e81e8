// Requests that wait for their answer, each with a deadline.
import { TenureError } from './errors.ts';
import { Alarm } from './time.ts';

/** Most requests that may be open at once. */
export const OPEN_REQUESTS = 256;

interface Open {
  seq: number;
  resolve(value: unknown): void;
  reject(error: TenureError): void;
  deadline: Alarm;
}

export class Requests {
  private readonly open = new Map<number, Open>();
  private last = 0;

  /** Ids count up and are never used twice. */
  nextId(): number {
    this.last = this.last >= 0xffffffff ? 1 : this.last + 1;
    return this.last;
  }

  /** Throws a retryable error if too many are open already. */
  check(): void {
    if (this.open.size >= OPEN_REQUESTS) throw new TenureError('backlog_full', `${OPEN_REQUESTS} requests wait for an answer`);
  }

  wait(id: number, seq: number, name: string, timeout: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const deadline = new Alarm();
      deadline.start(timeout, () => {
        this.open.delete(id);
        reject(new TenureError('timeout', `no answer to ${name} within ${timeout} ms; it may still have been done`));
      });
      this.open.set(id, { seq, resolve, reject, deadline });
    });
  }

  /** False if nobody waits (any more). */
  answer(id: number, value: unknown): boolean {
    const open = this.take(id);
    open?.resolve(value);
    return open !== undefined;
  }

  fail(id: number, error: TenureError): boolean {
    const open = this.take(id);
    open?.reject(error);
    return open !== undefined;
  }

  /** The request with this message number was refused. */
  failSeq(seq: number, error: TenureError): boolean {
    for (const [id, open] of this.open) if (open.seq === seq) return this.fail(id, error);
    return false;
  }

  failAll(error: TenureError): void {
    for (const id of this.open.keys()) this.fail(id, error);
  }

  private take(id: number): Open | undefined {
    const open = this.open.get(id);
    this.open.delete(id);
    open?.deadline.stop();
    return open;
  }
}
