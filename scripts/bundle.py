"""Bundles the page's scripts and styles, each in one file: a browser would find their parts one after the other.

It uses esbuild. Files that are loaded by their address stay separate. The page's modules are found relative to
modules/shared/site.js, so each bundle replaces `import.meta.url` by that module's address.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

# Folders whose files the bundles contain.
PARTS = ["modules", "css"]
# What other pages load (docs/javascript.md).
PUBLIC = ["pyapp.js", "tokenizers.js"]
# Loaded as it is: it runs in the thread of the microphone.
ALONE = ["modules/audio/capture-worklet.js"]
# How the page addresses its scripts and styles: those that it starts with, and those that it fetches when needed.
# Minified scripts are other projects' libraries.
ADDRESSES = {
    "*.html": r'(?:src|href)="([\w./-]+\.(?:js|css))"',
    "*.js": r'(?:importPart|loadStyle|moduleWorker|siteUrl)\("([\w./-]+(?<!\.min)\.(?:js|css))"',
}
PLACE = "modules/shared/site.js"


def entries(source: Path) -> list[str]:
    """The files of the page that something loads by its address: each becomes a bundle under the same name."""
    pages = {page: pattern for glob, pattern in ADDRESSES.items() for page in sorted(source.rglob(glob))}
    found = {name for page, pattern in pages.items() for name in re.findall(pattern, page.read_text(encoding="utf-8"))}
    return sorted(found - set(ALONE))


def copy_bundled(source: Path, target: Path, node_modules: Path) -> None:
    """Copies the files of the page from `source` into the new folder `target`, with bundles instead of PARTS."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("node_modules", "__pycache__", ".*", *PARTS))
    for name in (*entries(source), *PUBLIC):
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
    for name in PUBLIC:
        copy_declarations(source / name, target / name, node_modules)
    for name in ALONE:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, target / name)


def copy_declarations(script: Path, target: Path, node_modules: Path) -> None:
    """Writes the types of `script` for TypeScript beside `target`, and those of the modules that they mention."""
    options = "--ignoreConfig --allowJs --declaration --emitDeclarationOnly --target es2022 --moduleResolution bundler"
    with tempfile.TemporaryDirectory() as made:
        command = [str(node_modules / ".bin" / "tsc"), str(script), *options.split(), "--outDir", made]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        wanted, seen = [Path(made) / script.with_suffix(".d.ts").name], set[Path]()
        while wanted:
            path = wanted.pop().resolve()
            if path in seen:
                continue
            seen.add(path)
            text = path.read_text(encoding="utf-8")
            place = target.parent / path.relative_to(Path(made).resolve())
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
            wanted += [
                path.parent / f"{name}.d.ts" for name in re.findall(r'(?:from |import\()"(\.[\w./-]+)\.js"', text)
            ]
