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
