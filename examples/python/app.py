#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does its work in one pod at a time: in the one that leads, as the elector-sidecar beside it says.

Standard library only. Take Leadership as it is, and put your work into work().

  SIDECAR_URL  where the sidecar is (http://localhost:4040)
  OUTPUT       the file that the example's work appends to (standard output)
  INTERVAL     seconds between two units of work (1)
  UNIT         seconds that one unit of work takes at most (2); well below the sidecar's ELECTOR_RENEW_DEADLINE
"""

import json
import logging
import os
import signal
import sys
import threading
import time
import urllib.parse
import urllib.request

WAIT = 25.0  # seconds that a request may block: proxies cut quiet connections after 30 to 60
SLACK = 5.0  # seconds that an answer may take on top of that; none by then counts as "not leader"
RETRY = 0.5  # seconds between attempts while the sidecar does not answer
UNIT = float(os.environ.get("UNIT", "2"))  # work that cannot promise this must ask for its token again during it

log = logging.getLogger("app")


def now():
    """Seconds on a clock that nobody sets, and that goes on while the machine is suspended where there is one."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Leadership:
    """What the sidecar last said, and until when it may be believed."""

    def __init__(self, url):
        self._url = url.rstrip("/")
        # Never through a proxy: http_proxy is for other hosts.
        self._http = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._news = threading.Condition()
        self._token = 0  # fencing token of the term in which this pod leads; 0: it does not
        self._until = 0.0  # end of the validity, on now()'s clock
        self._stopping = False

    def watch(self):
        """Follows the sidecar, for ever. Run it in a thread of its own."""
        revision, wait = "", 0.0
        while True:
            sent = now()  # the validity counts from before the request: no delay of the answer can stretch it
            try:
                answer = self._ask(revision, wait)
                leads, valid_for = answer["isLeader"] is True, answer["validForMs"] / 1000
                token, revision = int(answer["fencingToken"]), str(answer["revision"])
            except Exception as err:  # refused, timed out, not JSON, a field missing: all of it means "not leader"
                self._tell(0, 0.0)
                log.warning("no answer from the sidecar, so not leader: %s", err)
                revision, wait = "", 0.0
                time.sleep(RETRY)
                continue
            if leads and valid_for > 0:
                self._tell(token, sent + valid_for)
                wait = min(WAIT, valid_for / 3)  # so that the next answer is here before this one is void
            else:
                self._tell(0, 0.0)
                wait = WAIT

    def _ask(self, revision, wait):
        """The answer as soon as it is not of this revision; the same again when the wait is over."""
        query = urllib.parse.urlencode({"revision": revision, "wait": f"{wait:.3f}s"})
        with self._http.open(f"{self._url}/leader?{query}", timeout=wait + SLACK) as response:
            return json.load(response)

    def _tell(self, token, until):
        with self._news:
            changed = token != self._token
            self._token, self._until = token, until
            self._news.notify_all()
        if changed and token:
            log.info("leading with fencing token %d", token)
        elif changed:
            log.info("not leading")

    def token(self, needed=0.0):
        """The fencing token where this pod leads for at least that many seconds more; else 0."""
        with self._news:
            return self._valid_token(needed)

    def _valid_token(self, needed):
        return self._token if self._until - now() > needed and not self._stopping else 0

    def wait(self, needed=0.0):
        """Blocks until this pod leads, and returns the fencing token; 0 when the app is to stop."""
        with self._news:
            while not self._stopping:
                if token := self._valid_token(needed):
                    return token
                self._news.wait()
            return 0

    def pause(self, seconds, token):
        """Blocks that long, or until this pod no longer leads with that token."""
        end = now() + seconds
        with self._news:
            while (left := min(end, self._until) - now()) > 0 and self._valid_token(0.0) == token:
                self._news.wait(left)

    def ended(self):
        """Says that the work has stopped: a sidecar that hands the lease over need not wait any longer."""
        self._post("/release")

    def leave(self):
        """Gives leadership up, for good and at once: the sidecar may not have been told to stop yet."""
        self._post("/resign")
        self._post("/release")

    def _post(self, route):
        try:
            self._http.open(urllib.request.Request(self._url + route, method="POST"), timeout=SLACK).close()
        except OSError:
            pass  # 409: it does not lead, or is not handing over, so there is nothing to hurry; or it has gone

    def stop(self):
        """Ends wait() and pause(): the app is to stop."""
        with self._news:
            self._stopping = True
            self._news.notify_all()


def lead(leadership, interval):
    """Works while this pod leads, over and over, until the app is to stop."""
    while leadership.wait(UNIT):
        while token := leadership.token(UNIT):  # asked anew for each unit, so that none begins that could end too late
            work(token)
            leadership.pause(interval, token)
        leadership.ended()
    leadership.leave()


def work(token):
    """One unit of work. What it writes carries the token, so that storage can refuse a leader of the past."""
    pod = os.environ.get("POD_NAME", "pod")
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {pod} {token}\n"
    if path := os.environ.get("OUTPUT"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(line)
    else:
        sys.stdout.write(line)
        sys.stdout.flush()


def main():
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    leadership = Leadership(os.environ.get("SIDECAR_URL", "http://localhost:4040"))
    over = threading.Event()  # the work has failed, or a signal has come
    told = []

    def run():
        try:
            lead(leadership, float(os.environ.get("INTERVAL", "1")))
        finally:
            over.set()

    def on_signal(number, _frame):
        told.append(signal.Signals(number).name)
        over.set()

    worker = threading.Thread(target=run)
    worker.start()
    threading.Thread(target=leadership.watch, daemon=True).start()
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    over.wait()  # not worker.join(): Python 3.11 takes a thread for ended when a signal's exception interrupts that
    if not told:
        sys.exit("the work has failed")  # it ends by itself for no other reason
    log.info("told to stop (%s): finishing the unit of work", told[0])
    leadership.stop()
    worker.join()


if __name__ == "__main__":
    main()
