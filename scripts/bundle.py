"""Bundles the page's scripts and styles, each in one file: a browser would find their parts one after the other.

It uses esbuild. Files that are loaded by their address stay separate. The page's modules are found relative to
modules/shared/site.js, so each bundle replaces `import.meta.url` by that module's address.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

# The files that become bundles under the same names, and the folders whose files the bundles contain. A view or a
# dialog that is loaded when it is first opened has a bundle of its own.
ENTRIES = [
    "boot.js", "service-worker.js", "worker.js", "modules/worker/pool-helper.js", "modules/worker/webgpu.js",
    "modules/page/main.js",
    "modules/page/model-dialog.js", "modules/page/listening.js", "modules/page/graphics-card.js",
    "css/page.css", "modules/views/transcribe/transcribe-view.js", "css/transcribe.css",
    "modules/views/chat/chat-view.js", "css/chat.css", "modules/views/search/search-view.js", "css/search.css",
    "modules/views/translate/translate-view.js", "css/translate.css",
    "modules/views/speak/speak-view.js", "css/speak.css",
    "modules/views/lab/lab-view.js", "css/lab.css", "lab-worker.js",
    "modules/views/read/read-view.js", "css/read.css", "modules/views/pictures/pictures-view.js", "css/pictures.css",
    "modules/history/history-panel.js",
    "modules/server/server-panel.js",
]  # fmt: skip
PARTS = ["modules", "css"]
# Loaded by its address, into the thread of the microphone.
ALONE = ["modules/audio/capture-worklet.js"]
PLACE = "modules/shared/site.js"


def copy_bundled(source: Path, target: Path, node_modules: Path) -> None:
    """Copies the files of the page from `source` into the new folder `target`, with ENTRIES instead of PARTS."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("node_modules", "__pycache__", ".*", *PARTS))
    for name in ENTRIES:
        command = [
            str(node_modules / ".bin" / "esbuild"), str(source / name), f"--outfile={target / name}", "--bundle",
            "--minify", "--log-level=warning",
        ]  # fmt: skip
        if name == "boot.js":  # it tells old browsers that they are too old
            command += ["--target=es2015", "--format=iife"]
        elif name == "service-worker.js":  # a classic script, as Firefox wants it
            command += ["--target=es2022", "--format=iife"]
        elif name.endswith(".js"):
            place = f'new URL("{"../" * name.count("/")}{PLACE}", import.meta.url).href'
            command += [
                "--target=es2022",
                "--format=esm",
                "--define:import.meta.url=PLACE",
                f"--banner:js=const PLACE = {place};",
            ]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    for name in ALONE:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)
