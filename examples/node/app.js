#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// Does its work in one pod at a time: in the one that leads, as the elector-sidecar beside it says.
//
// Nothing but Node. Take Leadership as it is, and put your work into work().
//
//   SIDECAR_URL  where the sidecar is (http://localhost:4040)
//   OUTPUT       the file that the example's work appends to (standard output)
//   INTERVAL     seconds between two units of work (1)
//   UNIT         seconds that one unit of work takes at most (2); well below the sidecar's ELECTOR_RENEW_DEADLINE
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const { setTimeout: sleep } = require('node:timers/promises');

// All times are in milliseconds.
const WAIT = 25000; // how long a request may block: proxies cut quiet connections after 30 to 60 seconds
const SLACK = 5000; // how long an answer may take on top of that; none by then counts as "not leader"
const RETRY = 500; // between attempts while the sidecar does not answer
const GRAIN = 10; // the clock's
const UNIT = Number(process.env.UNIT || 2) * 1000; // work that cannot promise this must ask for its token again during it
const INTERVAL = Number(process.env.INTERVAL || 1) * 1000;

// now is a clock that nobody sets, and that goes on while the machine is suspended where there is one.
const now = fs.existsSync('/proc/uptime')
  ? () => Math.round(parseFloat(fs.readFileSync('/proc/uptime', 'latin1')) * 1000)
  : () => Number(process.hrtime.bigint() / 1000000n);

const log = (...what) => console.error(new Date().toISOString(), ...what);

// Leadership is what the sidecar last said, and until when it may be believed.
class Leadership {
  #url;
  #agent = new http.Agent(); // its own, which goes through no proxy
  #token = 0n; // fencing token of the term in which this pod leads; 0: it does not
  #until = 0; // end of the validity, on now()'s clock
  #stopping = false;
  #waiting = new Set();

  constructor(url) {
    this.#url = url.replace(/\/$/, '');
  }

  // watch follows the sidecar, for ever.
  async watch() {
    let revision = '';
    let wait = 0;
    for (;;) {
      const sent = now(); // the validity counts from before the request: no delay of the answer can stretch it
      try {
        const answer = await this.#ask(revision, wait);
        revision = answer.revision;
        if (answer.isLeader && answer.validForMs > 0) {
          this.#tell(answer.fencingToken, sent + answer.validForMs - GRAIN);
          wait = Math.min(WAIT, Math.floor(answer.validForMs / 3)); // so that the next answer is here before this one is void
        } else {
          this.#tell(0n, 0);
          wait = WAIT;
        }
      } catch (err) { // refused, timed out, not JSON, a field missing: all of it means "not leader"
        this.#tell(0n, 0);
        log('no answer from the sidecar, so not leader:', err.message || err.code || err);
        revision = '';
        wait = 0;
        await sleep(RETRY);
      }
    }
  }

  // #ask gets the answer as soon as it is not of this revision; the same again when the wait is over.
  async #ask(revision, wait) {
    const query = new URLSearchParams({ revision, wait: `${wait}ms` });
    const text = await this.#request('GET', `/leader?${query}`, 200, wait + SLACK);
    const answer = JSON.parse(text);
    const token = /"fencingToken":(\d+)/.exec(text); // JSON.parse would round a large one
    if (!token || typeof answer.isLeader !== 'boolean' || !Number.isSafeInteger(answer.validForMs) || typeof answer.revision !== 'string') {
      throw new Error(`an answer that cannot be understood: ${text}`);
    }
    return { ...answer, fencingToken: BigInt(token[1]) };
  }

  // #request resolves to the body of an answer with that status that is here, as a whole, within the timeout.
  #request(method, path, status, timeout) {
    return new Promise((resolve, reject) => {
      const options = { method, agent: this.#agent, signal: AbortSignal.timeout(timeout) };
      const request = http.request(this.#url + path, options, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('error', reject);
        response.on('data', (piece) => { text += piece; });
        response.on('end', () => {
          if (response.statusCode === status) resolve(text);
          else reject(new Error(`status ${response.statusCode}: ${text}`));
        });
      });
      request.on('error', reject);
      request.end();
    });
  }

  #tell(token, until) {
    const changed = token !== this.#token;
    this.#token = token;
    this.#until = until;
    this.#wake();
    if (changed) log(token ? `leading with fencing token ${token}` : 'not leading');
  }

  #wake() {
    for (const wake of this.#waiting) wake();
  }

  // #news resolves at the next news, or after so many milliseconds.
  #news(most) {
    return new Promise((resolve) => {
      let timer;
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      this.#waiting.add(wake);
      if (most !== undefined) timer = setTimeout(wake, most);
    });
  }

  // token is the fencing token where this pod leads for at least that many milliseconds more; else 0.
  token(needed = 0) {
    return this.#until - now() > needed && !this.#stopping ? this.#token : 0n;
  }

  // wait resolves to the fencing token once this pod leads; to 0 when the app is to stop.
  async wait(needed = 0) {
    while (!this.#stopping) {
      const token = this.token(needed);
      if (token) return token;
      await this.#news();
    }
    return 0n;
  }

  // pause resolves after so many milliseconds, or when this pod no longer leads with that token.
  async pause(time, token) {
    const end = now() + time;
    for (;;) {
      const left = Math.min(end, this.#until) - now();
      if (left <= 0 || this.token() !== token) return;
      await this.#news(left);
    }
  }

  // ended says that the work has stopped: a sidecar that hands the lease over need not wait any longer.
  async ended() {
    await this.#post('/release');
  }

  // leave gives leadership up, for good and at once: the sidecar may not have been told to stop yet.
  async leave() {
    await this.#post('/resign');
    await this.#post('/release');
  }

  async #post(route) {
    try {
      await this.#request('POST', route, 202, SLACK);
    } catch {
      // 409: it does not lead, or is not handing over, so there is nothing to hurry; or it has gone
    }
  }

  // stop ends wait() and pause(): the app is to stop.
  stop() {
    this.#stopping = true;
    this.#wake();
  }
}

// lead works while this pod leads, over and over, until the app is to stop.
async function lead(leadership) {
  while (await leadership.wait(UNIT)) {
    for (;;) {
      const token = leadership.token(UNIT); // asked anew for each unit, so that none begins that could end too late
      if (!token) break;
      await work(token);
      await leadership.pause(INTERVAL, token);
    }
    await leadership.ended();
  }
  await leadership.leave();
}

// work is one unit of work. What it writes carries the token, so that storage can refuse a leader of the past.
async function work(token) {
  const line = `${new Date().toISOString()} ${process.env.POD_NAME || 'pod'} ${token}\n`;
  if (process.env.OUTPUT) {
    await fs.promises.appendFile(process.env.OUTPUT, line);
  } else {
    process.stdout.write(line);
  }
}

const leadership = new Leadership(process.env.SIDECAR_URL || 'http://localhost:4040');
for (const name of ['SIGTERM', 'SIGINT']) {
  process.on(name, () => {
    log(`told to stop (${name}): finishing the unit of work`);
    leadership.stop();
  });
}
const failed = (err) => { // an app that cannot work must not go on as if it could
  log(err);
  process.exit(1);
};
leadership.watch().catch(failed);
lead(leadership).then(() => process.exit(0), failed);
