// The server under test: a real process on free ports and a folder of its own.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
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

  /** A part of a cluster on the store at `store`, with rewards as above. */
  static async member(bin, name, role, store) {
    const server = await Server.real(bin);
    server.more = ['--set', `node.name=${name}`, '--set', `node.roles=${role}`, '--set', `store.url=${store}`, '--set', 'link.listen=127.0.0.1:0'];
    return server;
  }

  /** A whole cluster whose room nodes are replaced by the other build and back, a round for each empty line. */
  static async deploys(bin) {
    const server = await Server.real(bin);
    server.verb = 'demo-deploy';
    server.more = ['--dir', join(server.folder, 'cluster'), '--to', 'v2'];
    return server;
  }

  /** Begins the next round of a deploy. */
  round() {
    this.child.stdin.write('\n');
  }

  async start() {
    const ready = join(this.folder, `ready-${Date.now()}.json`);
    const args = this.rewards
      ? [
          this.verb ?? 'serve', '--ready-file', ready, '--rewards', this.rewards, '--set', `store.path=${join(this.folder, 'data')}`,
          '--set', `gateway.listen=127.0.0.1:${this.port}`, '--set', 'admin.listen=127.0.0.1:0', ...(this.more ?? []),
        ]
      : [...this.args, '--ready-file', ready, '--port', String(this.port), '--every', '3', '--bots', '0'];
    const child = spawn(this.program, args, { stdio: [this.verb ? 'pipe' : 'ignore', 'pipe', 'pipe'] });
    this.child = child;
    this.exit = new Promise((resolve) => child.once('exit', (code, signal) => resolve(signal ?? code)));
    child.once('error', (error) => (this.log += `${error}\n`));
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (this.log = (this.log + data).slice(-20_000)));
    const until = Date.now() + START_TIME;
    while (!existsSync(ready)) {
      if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined || Date.now() > until) throw new Error(`the server did not start: ${this.program} ${args.join(' ')}\n${this.log}`);
      await sleep(50);
    }
    const { play, admin } = JSON.parse(await readFile(ready, 'utf8'));
    this.play = play;
    this.admin = admin;
    // A restart must be found at the same address. A room node has no port for players.
    if (this.play) this.port = Number(new URL(this.play).port);
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

/** A store that several processes share: a Redis of its own on a free port. */
export class Redis {
  static async start() {
    const redis = new Redis();
    redis.folder = await mkdtemp(join(tmpdir(), 'arena-redis-'));
    // Redis cannot choose a port itself; when another process was faster the next one is tried.
    for (let tries = 0; tries < 10; tries += 1) {
      const port = await freePort();
      const child = spawn('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--dir', redis.folder, '--save', '', '--appendonly', 'yes', '--appendfsync', 'always'], { stdio: 'ignore' });
      const gone = new Promise((resolve) => { child.once('exit', resolve); child.once('error', resolve); });
      for (let looks = 0; looks < 100 && child.exitCode === null && child.pid !== undefined; looks += 1) {
        if (await answers(port)) return Object.assign(redis, { child, gone, url: `redis://127.0.0.1:${port}` });
        await Promise.race([gone, sleep(50)]);
      }
      child.kill('SIGKILL');
    }
    throw new Error('redis-server cannot be started: is it installed?');
  }

  async remove() {
    this.child.kill('SIGKILL');
    await this.gone;
    await rm(this.folder, { recursive: true, force: true });
  }
}

function freePort() {
  return new Promise((resolve, reject) => {
    const listener = createServer().once('error', reject).listen(0, '127.0.0.1', () => {
      const { port } = listener.address();
      listener.close(() => resolve(port));
    });
  });
}

function answers(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'));
    const end = (answer) => { socket.destroy(); resolve(answer); };
    socket.setTimeout(500, () => end(false)).once('error', () => end(false)).once('data', (data) => end(String(data).startsWith('+PONG')));
  });
}
