// The fake server on a real port: serves dist/ and the socket at /ws, so that the page can be worked on without the real
// one. `npm run dev:fake` starts it with bots; `--ready-file` makes it a stand-in for the browser tests.
import { createReadStream, existsSync, renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';
import { FakeArena } from './arena.ts';
import { FakeServer } from './server.ts';

const TYPES = new Map([['.html', 'text/html; charset=utf-8'], ['.js', 'text/javascript'], ['.css', 'text/css'], ['.svg', 'image/svg+xml']]);

export interface Options {
  dist: string;
  port: number;
  bots: number;
  every: number;
  readyFile: string | undefined;
}

export function serve(options: Options): void {
  const server = new FakeServer(new FakeArena({ bots: options.bots, every: options.every }), 'arena/local/fake');
  const http = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://local').pathname;
    const file = join(options.dist, path === '/' ? 'index.html' : path);
    if (!file.startsWith(options.dist) || !existsSync(file)) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { 'content-type': TYPES.get(extname(file)) ?? 'application/octet-stream', 'cache-control': 'no-store' });
    createReadStream(file).pipe(response);
  });
  new WebSocketServer({ server: http, path: '/ws' }).on('connection', (socket) => {
    const far = server.accept({
      send: (bytes) => socket.send(bytes),
      close: (code, reason) => (code === 1006 ? socket.terminate() : socket.close(code, reason)),
    });
    socket.on('message', (data: Buffer) => far.receive(new Uint8Array(data)));
    socket.on('close', () => far.closed());
  });
  setInterval(() => server.tick(), 50);
  http.listen(options.port, '127.0.0.1', () => {
    const play = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
    console.log(play);
    if (!options.readyFile) return;
    writeFileSync(`${options.readyFile}.new`, JSON.stringify({ play, pid: process.pid }));
    renameSync(`${options.readyFile}.new`, options.readyFile);
  });
}
