"""The cache is shared: what huggingface_hub downloads is found by headrace, and the other way round; Ctrl-C keeps what has come.

Both talk to a small hub on loopback, which counts what they fetch. HEADRACE_BIN is the binary.
"""
import hashlib
import http.server
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADRACE = os.environ.get("HEADRACE_BIN", "")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {"tiny.gguf": (ROOT / "tests" / "golden" / "tiny_llama.gguf").read_bytes()}

CLIENT = """
import json, sys, huggingface_hub
path = huggingface_hub.hf_hub_download("org/tiny", "tiny.gguf", local_files_only=sys.argv[1] == "offline")
info = huggingface_hub.scan_cache_dir()
print(json.dumps({"path": path, "warnings": [str(w) for w in info.warnings],
                  "refs": [sorted(r.refs) for repo in info.repos for r in repo.revisions]}))
"""


class Hub(http.server.BaseHTTPRequestHandler):
    fetched = []
    ranges = []
    held = None  # an Event: transfers stop half-way until it is set

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        path = self.path.split("?")[0]
        resolve = [f"/org/tiny/resolve/{revision}/" for revision in ("main", COMMIT)]
        if path == "/api/models/org/tiny/revision/main":
            text = json.dumps({"id": "org/tiny", "sha": COMMIT, "siblings": [{"rfilename": name} for name in FILES]})
            return self.send(200, {"Content-Type": "application/json"}, text.encode(), body)
        for prefix in resolve:
            if path.startswith(prefix) and path[len(prefix):] in FILES:
                name = path[len(prefix):]
                return self.send(302, {"Location": f"/storage/{name}", "X-Repo-Commit": COMMIT,
                                       "X-Linked-Etag": f'"{hashlib.sha256(FILES[name]).hexdigest()}"',
                                       "X-Linked-Size": str(len(FILES[name]))}, b"", body)
        if path.startswith("/storage/"):
            name = path[len("/storage/"):]
            if body:
                Hub.fetched.append(name)
                return self.send_part(FILES[name])
            return self.send(200, {"ETag": f'"{hashlib.sha256(FILES[name]).hexdigest()}"', "X-Repo-Commit": COMMIT},
                             FILES[name], body)
        return self.send(404, {"X-Error-Code": "RepoNotFound"}, b"", body)

    def send(self, status, headers, content, body):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def send_part(self, content):
        begin = int(self.headers.get("Range", "bytes=0-")[len("bytes="):-1])
        Hub.ranges.append(begin)
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        if Hub.held:
            half = begin + (len(content) - begin) // 2
            self.wfile.write(content[begin:half])
            self.wfile.flush()
            Hub.held.wait(60)
            begin = half
        try:
            self.wfile.write(content[begin:])
        except OSError:
            pass  # the client has left

    def log_message(self, *_):
        pass


class SharedCache(unittest.TestCase):
    def setUp(self):
        Hub.fetched, Hub.ranges, Hub.held = [], [], None
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.env = {**os.environ, "HF_HOME": folder.name, "HF_ENDPOINT": f"http://127.0.0.1:{self.server.server_port}",
                    "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
        for name in ("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE"):
            self.env.pop(name, None)

    def run_program(self, *command, **env):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**self.env, **env})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def headrace(self, **env):
        return self.run_program(HEADRACE, "inspect", "org/tiny/tiny.gguf", "--json", **env)

    def client(self, mode):
        return self.run_program(sys.executable, "-c", CLIENT, mode)

    def test_what_huggingface_hub_fetched_is_opened_without_a_download(self):
        self.client("online")
        self.assertEqual(Hub.fetched, ["tiny.gguf"])
        self.assertGreater(len(self.headrace()), 0)
        self.assertGreater(len(self.headrace(HF_HUB_OFFLINE="1")), 0)
        self.assertEqual(Hub.fetched, ["tiny.gguf"])

    def test_what_headrace_fetched_is_opened_by_huggingface_hub_without_a_download(self):
        self.headrace()
        self.assertEqual(Hub.fetched, ["tiny.gguf"])
        found = self.client("offline")
        self.assertEqual(pathlib.Path(found["path"]).read_bytes(), FILES["tiny.gguf"])
        self.assertEqual(found["warnings"], [])
        self.assertEqual(found["refs"], [["main"]])
        self.client("online")
        self.assertEqual(Hub.fetched, ["tiny.gguf"])

    @unittest.skipUnless(shutil.which("openssl"), "openssl makes the certificate")
    def test_https_wants_a_certificate_that_is_trusted(self):
        key, certificate = self.folder / "key.pem", self.folder / "certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
                        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        endpoint = f"https://127.0.0.1:{self.server.server_port}"
        refused = subprocess.run([HEADRACE, "inspect", "org/tiny"], capture_output=True, text=True, timeout=120, check=False,
                                 env={**self.env, "HF_ENDPOINT": endpoint})
        self.assertEqual(refused.returncode, 3, refused.stderr)
        self.assertIn("certificate is not trusted", refused.stderr)
        self.assertEqual(Hub.fetched, [])
        self.assertGreater(len(self.headrace(HF_ENDPOINT=endpoint, SSL_CERT_FILE=str(certificate))), 0)
        self.assertEqual(Hub.fetched, ["tiny.gguf"])

    def test_ctrl_c_stops_a_download_and_the_next_run_goes_on(self):
        Hub.held = threading.Event()
        self.addCleanup(Hub.held.set)
        half = len(FILES["tiny.gguf"]) // 2
        with subprocess.Popen([HEADRACE, "inspect", "org/tiny"], env=self.env, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as running:
            deadline = time.monotonic() + 60
            part = None
            while not (part and part.stat().st_size == half) and time.monotonic() < deadline:
                part = next(self.folder.glob("hub/models--org--tiny/blobs/*.incomplete"), None)
                time.sleep(0.02)
            running.send_signal(signal.SIGINT)
            errors = running.communicate(timeout=60)[1]
        self.assertEqual(running.returncode, 4, errors)
        self.assertIn("the same command goes on from there", errors)
        self.assertEqual(part.stat().st_size, half)
        Hub.held.set()
        Hub.held = None
        self.headrace()
        self.assertEqual(Hub.ranges, [0, half])


if __name__ == "__main__":
    unittest.main()
