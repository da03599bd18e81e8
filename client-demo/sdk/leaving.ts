// A leave that waits for the server's word.
import { TenureError } from './errors.ts';
import { Alarm } from './time.ts';

export class Leaving {
  readonly done: Promise<void>;
  private settle: (error?: TenureError) => void = () => undefined;
  private readonly deadline = new Alarm();

  /** `late` is called when no answer came within `timeout` ms; `done` rejects then. */
  constructor(timeout: number, late: () => void) {
    this.done = new Promise((resolve, reject) => {
      this.settle = (error) => (error ? reject(error) : resolve());
    });
    this.deadline.start(timeout, () => {
      late();
      this.settle(new TenureError('unreachable', `the server did not confirm the leave within ${timeout} ms; it is told as soon as it can be reached`));
    });
  }

  /** It is over: the seat is given up, or `error` says why it may not be. */
  end(error?: TenureError): void {
    this.deadline.stop();
    this.settle(error);
  }
}
