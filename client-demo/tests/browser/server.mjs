// The server under test: a real process on free ports and a folder of its own.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const REWARDS = `[[schedule]]
id = "chest"
every = "3s"
rooms = "arena/*/*"
audience = "present"
grant = { gold = 25 }
`;
const START_TIME = 30_000;

export class Server {
  constructor(program, args) {
    this.program = program;
    this.args = args;
    this.log = '';
    this.port = 0;
  }

  /** The real server: `TENURE_BIN`. */
  static async real(bin) {
    const server = new Server(bin, []);
    server.folder = await mkdtemp(join(tmpdir(), 'arena-test-'));
    server.rewards = join(server.folder, 'rewards.toml');
    await writeFile(server.rewards, REWARDS);
    return server;
  }

  /** The stand-in, which forgets everything when it ends. */
  static async fake(script) {
    const server = new Server(process.execPath, [script]);
    server.folder = await mkdtemp(join(tmpdir(), 'arena-test-'));
    return server;
  }

  async start() {
    const ready = join(this.folder, `ready-${Date.now()}.json`);
    const args = this.rewards
      ? [
          'serve', '--ready-file', ready, '--rewards', this.rewards, '--set', `store.path=${join(this.folder, 'data')}`,
          '--set', `gateway.listen=127.0.0.1:${this.port}`, '--set', 'admin.listen=127.0.0.1:0',
        ]
      : [...this.args, '--ready-file', ready, '--port', String(this.port), '--every', '3', '--bots', '0'];
    const child = spawn(this.program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    this.child = child;
    this.exit = new Promise((resolve) => child.once('exit', (code, signal) => resolve(signal ?? code)));
    child.once('error', (error) => (this.log += `${error}\n`));
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (this.log = (this.log + data).slice(-20_000)));
    const until = Date.now() + START_TIME;
    while (!existsSync(ready)) {
      if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined || Date.now() > until) throw new Error(`the server did not start: ${this.program} ${args.join(' ')}\n${this.log}`);
      await sleep(50);
    }
    this.play = JSON.parse(await readFile(ready, 'utf8')).play;
    // A restart must be found at the same address.
    this.port = Number(new URL(this.play).port);
  }

  /** Ends the process: `SIGKILL` as in a crash, `SIGTERM` as in a deploy. Gives its exit code or signal. */
  async stop(signal) {
    if (!this.child || this.child.exitCode !== null || this.child.signalCode !== null) return this.exit;
    this.child.kill(signal);
    return this.exit;
  }

  async remove() {
    await this.stop('SIGKILL');
    await rm(this.folder, { recursive: true, force: true });
  }
}
