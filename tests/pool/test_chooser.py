"""How the page chooses between one worker and all (web/modules/worker/pool-chooser.js): on simulated machines."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.native_only

MODULE = Path(__file__).resolve().parents[2] / "web" / "modules" / "worker" / "pool-chooser.js"
# Runs of a piece of work whose time the machine gives; the clock is simulated.
PROGRAM = """
const { Chooser } = await import("data:text/javascript," + encodeURIComponent(process.argv[1]));
let now = 0;
let shared = 0;
const chooser = new Chooser(() => now);
function spend(runs, alone, together, key = 1) {
  const before = now;
  for (let i = 0; i < runs; i += 1) {
    chooser.run(key, (sharing) => {
      now += (sharing ? together : alone) * (1 + 0.05 * Math.sin(i));
      if (sharing) shared += 1;
    });
  }
  return (now - before) / runs;
}
// Helpers that slept wake slowly: the first shared run after one alone is long.
function asleep(runs, key) {
  spend(300, 1, 4, key);
  const before = now;
  let awake = false;
  for (let i = 0; i < runs; i += 1) {
    chooser.run(key, (sharing) => {
      now += sharing ? (awake ? 0.55 : 5) : 1;
      awake = sharing;
    });
  }
  return (now - before) / runs;
}
const found = {
  atFirst: spend(200, 1, 0.55, 5),
  free: spend(2000, 1, 0.55, 1),
  busy: spend(2000, 1, 4, 2),
  hopeless: spend(2000, 1, 50, 3),
  becomesBusy: spend(2000, 1.2, 5, 1),
  becomesFree: spend(4000, 1, 0.55, 2),
  asleep: asleep(4000, 6),
  returned: chooser.run(9, () => "result"),
};
// A decode step of `alone` ms of one worker, in eight slices: shared, it takes 0.55 of that, and `worse` times that
// while other programs use the cores. Returns the ms of decoding from their end until it is shared again, and how much
// slower than one worker it was before.
function disturbed(key, alone, worse, during) {
  const run = (factor) => chooser.run(key, (sharing, losing) => {
    let workers = sharing;
    let slept = !awake && sharing ? 2 : 0;
    for (let slice = 1; slice <= 8; slice += 1) {
      now += alone / 8 * (workers ? factor : 1) + slept;
      slept = 0;
      if (workers && losing?.(slice / 8)) workers = false;
    }
    awake = sharing;
    return sharing;
  });
  let awake = false;
  for (const end = now + 3000; now < end; ) run(0.55); // calm
  const [started, runs] = [now, (count) => { for (let i = 0; i < count; i += 1) run(worse); }];
  const count = Math.round(during / alone);
  runs(count);
  const slower = (now - started) / (count * alone);
  const free = now;
  for (let shared = 0; shared < 4; ) shared = run(0.55) ? shared + 1 : 0;
  return [now - free, slower];
}
// Work that gains nothing by sharing, on a calm machine.
const calm = (key, alone, together) => {
  const start = now;
  let awake = true;
  for (let runs = 0; now < start + 20000; runs += 1) {
    chooser.run(key, (sharing) => {
      now += sharing ? together + (awake ? 0 : 2) : alone;
      awake = sharing;
    });
    if (now >= start + 20000) return (now - start) / (runs + 1) / Math.min(alone, together);
  }
};
found.disturbed = [];
let fresh = 100;
for (const alone of [0.5, 5, 30]) for (const worse of [2, 4, 8]) for (const during of [1000, 20000]) {
  found.disturbed.push([alone, worse, during, ...disturbed(fresh += 1, alone, worse, during)]);
}
found.calm = [];
for (const [alone, together] of [[0.2, 0.3], [1, 1.3], [5, 6], [30, 50], [1, 0.55], [30, 17]]) {
  found.calm.push([alone, together, calm(fresh += 1, alone, together)]);
}
// When one piece of work is shared again, others are tried at once.
const others = [200, 201];
const step = (key, factor) => chooser.run(key, (sharing) => ((now += sharing ? factor : 1), sharing));
for (const key of others) for (let i = 0; i < 200; i += 1) step(key, 0.55);
for (const key of others) for (let i = 0; i < 100; i += 1) step(key, 4);
for (let shared = 0; shared < 8; ) shared = step(200, 0.55) ? shared + 1 : 0;
found.other = [...Array(6)].map(() => step(201, 0.55));
chooser.forget(1);
const before = shared;
spend(1, 1, 1, 1);
found.sharesFirst = shared - before;
console.log(JSON.stringify(found));
"""


def test_a_busy_machine_is_hardly_slower_than_one_thread() -> None:
    command = ["node", "--input-type=module", "-e", PROGRAM, MODULE.read_text()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    found = json.loads(done.stdout)
    assert found["free"] < 0.56 and found["atFirst"] < 0.565, found  # a slower way is tried briefly
    assert found["busy"] < 1.1 and found["hopeless"] < 1.4, found
    assert found["becomesBusy"] < 1.2 * 1.1 and found["becomesFree"] < 0.85, found
    assert found["asleep"] < 0.65, found
    assert found["returned"] == "result" and found["sharesFirst"] == 1
    for alone, worse, during, until, slower in found["disturbed"]:
        assert until < 500, (alone, worse, during, until)  # ms of decoding until it is shared again
        assert slower < (1.1 if during > 10_000 else 1.6), (alone, worse, during, slower)
    for alone, together, factor in found["calm"]:
        assert factor < 1.01 + 8 * max(alone, together) / 20_000, (alone, together, factor)  # the first runs are shared
    assert all(found["other"]), found["other"]
