#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes to a register that all pods share, while its pod leads, with the fencing token of its leadership.

Each line on standard input is a value to write. The writer asks its sidecar, says what it was told, and only then waits
for the line: so it can be held up, by you or by a test, in the one place that no program can guard, between the last
look at its leadership and the write.

  SIDECAR_URL  where the sidecar is (http://localhost:4040)
  REGISTER     the SQLite file (register.db)
"""

import json
import os
import sys
import time
import urllib.request

from register import Refused, Register

# Never through a proxy: http_proxy is for other hosts.
HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def leadership(url):
    """The sidecar's answer; None when this pod does not lead, or there is no answer that says so."""
    try:
        with HTTP.open(f"{url}/leader", timeout=2) as response:
            answer = json.load(response)
            leads = answer["isLeader"] is True and answer["validForMs"] > 0 and answer["fencingToken"] > 0
            return answer if leads else None
    except (OSError, ValueError, KeyError, TypeError):  # refused, timed out, not JSON, a field missing
        return None


def main():
    url = os.environ.get("SIDECAR_URL", "http://localhost:4040").rstrip("/")
    register = Register(os.environ.get("REGISTER", "register.db"))
    waiting = False
    while True:
        answer = leadership(url)
        if answer is None:
            if not waiting:
                print("not leading", flush=True)
            waiting = True
            time.sleep(0.1)
            continue
        waiting = False
        token = answer["fencingToken"]
        print(f"leading with token {token} for {answer['validForMs']} ms; a value?", flush=True)
        # Here is the gap. An app that works for long asks again at this point, as examples/python does, which makes the
        # gap small. A process that is paused at the wrong moment, or a packet that is late, still falls into it.
        value = sys.stdin.readline()
        if not value:
            return
        try:
            register.write(value.strip(), token)
            print(f"written with token {token}", flush=True)
        except Refused as refused:
            print(f"refused: {refused}", flush=True)


if __name__ == "__main__":
    main()
