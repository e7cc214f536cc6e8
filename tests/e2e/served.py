"""A `headrace serve` process on a free port, for tests."""
import os
import re
import signal
import subprocess

BIN = os.environ.get("HEADRACE_BIN", "")
MODEL = os.environ.get("HEADRACE_MODEL", "")
SKIP = "" if os.path.isfile(BIN) and os.path.isfile(MODEL) else "HEADRACE_BIN and HEADRACE_MODEL must name files"
KEY = "e2e-key"


class Served:
    """Use as a context manager. `url` is the server's address, without a path."""

    def __init__(self, *options: str, key: str = KEY, model: str = MODEL):
        self.model = model
        self.options = [*options, "--api-key", key] if key else list(options)
        self.url = ""

    def __enter__(self):
        self.process = subprocess.Popen([BIN, "serve", self.model, "--port", "0", *self.options],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            if found := re.search(r"http://[0-9a-z.\[\]:]+:\d+", line):
                self.url = found.group()
                return self
        raise RuntimeError(f"headrace serve ended with {self.process.wait()}: {''.join(seen)}")

    def stop(self, with_signal=signal.SIGTERM, timeout=60) -> int:
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        return self.process.wait(timeout)

    def __exit__(self, *_):
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process.stderr.close()
