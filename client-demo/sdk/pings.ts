// Round trips: pings that wait for their answer.
import { TenureError } from './errors.ts';
import { Alarm, now } from './time.ts';

const DEADLINE = 5000;
/** Share of a new round trip in the smoothed one. */
const SHARE = 0.3;

export class Pings {
  /** Smoothed round trip, ms; undefined until measured. */
  rtt: number | undefined;
  private readonly open = new Map<number, () => void>();

  /** Waits for the answer to ping `id`, which `send` sends, and says how long it took, ms. Rejects with `closed` or `timeout`. */
  measure(id: number, send: () => boolean): Promise<number> {
    return new Promise((resolve, reject) => {
      const at = now();
      if (!send()) return reject(new TenureError('closed', 'not connected'));
      const deadline = new Alarm();
      deadline.start(DEADLINE, () => {
        this.open.delete(id);
        reject(new TenureError('timeout', 'no answer to a ping'));
      });
      this.open.set(id, () => {
        deadline.stop();
        const taken = now() - at;
        this.rtt = this.rtt === undefined ? taken : this.rtt * (1 - SHARE) + taken * SHARE;
        resolve(taken);
      });
    });
  }

  answered(id: number): void {
    this.open.get(id)?.();
    this.open.delete(id);
  }
}
