"""A wiki on MediaWiki, as Debian packages it: pages are looked at, and now and then one is edited.

PHP's own server answers each request with connections of its own; edits come from the command line.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path("/usr/share/mediawiki")
PAGES = int(os.environ["PAGES"]) // 2
EVERY_S = int(os.environ["EVERY_MS"]) / 1000
EDITS_EVERY = 10
SITE_PORT = os.environ["SITE_PORT"]
PASSWORD = os.environ["PASSWORD"]


def php(*arguments: str, text: str = "", folder: Path) -> None:
    """Run one of the wiki's own scripts."""
    subprocess.run(
        ["php", *arguments],
        cwd=ROOT,
        env={**os.environ, "MW_CONFIG_FILE": str(folder / "LocalSettings.php")},
        input=text,
        text=True,
        check=True,
        capture_output=True,
    )


def install(folder: Path) -> None:
    """Make its tables, and its settings."""
    (folder / "none").mkdir()
    subprocess.run(
        [
            *("php", "maintenance/install.php", "--confpath", str(folder)),
            *("--dbserver", f"{os.environ['HOST']}:{os.environ['PORT']}", "--dbname", "pages"),
            *("--dbuser", os.environ["USER"], "--dbpass", PASSWORD, "--scriptpath", ""),
            *("--installdbuser", os.environ["USER"], "--installdbpass", PASSWORD),
            *("--server", f"http://127.0.0.1:{SITE_PORT}", "--pass", PASSWORD + "-of-the-wiki"),
            *("A wiki", "Editor"),
        ],
        cwd=ROOT,
        env={**os.environ, "MW_CONFIG_FILE": str(folder / "none" / "LocalSettings.php")},
        check=True,
        capture_output=True,
    )
    with (folder / "LocalSettings.php").open("a") as settings:
        settings.write("\n$wgJobRunRate = 0;\n$wgShowExceptionDetails = true;\n")
        # Without one, each page takes a lock for its messages, and writes them to the database.
        settings.write("$wgMessageCacheType = CACHE_ACCEL;\n")


def view(title: str) -> str:
    """A page as a visitor gets it."""
    url = f"http://127.0.0.1:{SITE_PORT}/index.php?title={title}"
    for _ in range(100):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return answer.read().decode()
        except ConnectionRefusedError:
            time.sleep(0.1)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.1)
    raise RuntimeError("PHP's server does not answer")


def main() -> None:
    """Serve pages, and print what became of them as JSON."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        install(folder)
        server = subprocess.Popen(
            ["php", "-d", "apc.enable_cli=1", "-S", f"127.0.0.1:{SITE_PORT}", "-t", str(ROOT)],
            env={**os.environ, "MW_CONFIG_FILE": str(folder / "LocalSettings.php")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            stale = 0
            times_ms = []
            view("Main_Page")  # waits for the server
            begun = time.monotonic()
            word = ""
            for number in range(PAGES):
                time.sleep(max(0.0, begun + number * EVERY_S - time.monotonic()))
                if number % EDITS_EVERY == 0:
                    word = f"edition{number}x"
                    edit = ["maintenance/edit.php", "-u", "Editor", "A_page"]
                    php(*edit, text=f"This is {word}.", folder=folder)
                asked = time.monotonic()
                stale += word not in view("A_page")
                times_ms.append((time.monotonic() - asked) * 1000)
        finally:
            server.terminate()
            server.wait()
    json.dump({"stale": stale, "times_ms": times_ms}, sys.stdout)


main()
